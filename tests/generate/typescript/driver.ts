// The driver of the generated TypeScript: `driver.js encode`, `driver.js decode`, or `driver.js run HOST PORT`.

import { deepStrictEqual, rejects, throws } from "node:assert";
import { readFileSync } from "node:fs";
import { connect, MqttError, type Client } from "@tautwire/client";
import * as contracts from "./contracts/index.js";
import * as sample from "./samples.js";

const CODECS: [string, { encode: (value: never) => Uint8Array | string; decode: (bytes: Uint8Array) => unknown }, unknown][] = [
  ["everything", contracts.everythingCodec, sample.everything()],
  ["everything-empty", contracts.everythingCodec, contracts.createEverything()],
  ["mapped-json", contracts.mappedJsonCodec, sample.mapped()],
  ["mapped-pack", contracts.mappedPackCodec, sample.mapped()],
  ["mapped-empty", contracts.mappedPackCodec, contracts.createMapped()],
  ["old", contracts.oldCodec, sample.old()],
  ["lamp", contracts.lampCodec, sample.lamp()],
  ["lamp_pack", contracts.lampPackCodec, sample.lamp()],
  ["samples", contracts.samplesCodec, sample.samples()],
];

function encode(): void {
  for (const [name, codec, value] of CODECS) {
    const bytes = hex(codec.encode(value as never));
    deepStrictEqual(codec.decode(unhex(bytes)), value, name);
    console.log(name, bytes);
  }
}

function hex(payload: Uint8Array | string): string {
  return Buffer.from(payload as string).toString("hex");
}

function unhex(digits: string): Uint8Array {
  return Uint8Array.from(Buffer.from(digits, "hex"));
}

/** Reads each line `NAME HEX` of standard input, decodes and encodes it, and prints the result, or `error`. */
function decode(): void {
  const codecs = new Map(CODECS.map(([name, codec]) => [name, codec]));
  const lines = readFileSync(0, "utf8").trimEnd().split("\n");
  const verdicts = lines.map((line) => {
    const [name = "", digits = ""] = line.split(" ");
    try {
      const codec = codecs.get(name);
      return codec === undefined ? "unknown" : hex(codec.encode(codec.decode(unhex(digits)) as never));
    } catch {
      return "error";
    }
  });
  console.log(verdicts.join("\n"));
}

/** Returns the next message, published by `publish` after the subscription. */
async function one<T, P>(
  subscription: contracts.ContractSubscription<T, P>,
  publish: () => Promise<unknown>,
): Promise<contracts.Received<T, P>> {
  await subscription.ready;
  await publish();
  for await (const received of subscription) return received;
  throw new Error("the subscription has ended");
}

async function run(host: string, port: string): Promise<void> {
  const client = await connect(`mqtt://${host}:${port}`);
  for (const [name, test] of Object.entries(TESTS)) {
    try {
      await test(client);
      console.log("ok", name);
    } catch (error) {
      console.log(`FAIL ${name}: ${String(error)}`);
      process.exitCode = 1;
    }
  }
  await client.close();
}

const QOS = { qos: 1 } as const;

const TESTS: Record<string, (client: Client) => Promise<void>> = {
  async everything(client) {
    const parameters = { plantId: "7", level3: "hall 3" };
    const received = await one(contracts.subscribeEverything(client, QOS), () =>
      contracts.publishEverything(client, parameters, sample.everything(), QOS),
    );
    deepStrictEqual([received.parameters, received.value], [parameters, sample.everything()]);
  },
  async mapped(client) {
    const json = await one(contracts.subscribeMappedJson(client, QOS), () =>
      contracts.publishMappedJson(client, { plantId: 7 }, sample.mapped(), QOS),
    );
    deepStrictEqual([json.parameters, json.value], [{ plantId: "7" }, sample.mapped()]);
    const pack = await one(contracts.subscribeMappedPack(client, QOS), () =>
      contracts.publishMappedPack(client, { plantId: 7 }, sample.mapped(), QOS),
    );
    deepStrictEqual(pack.value, sample.mapped());
  },
  async plain(client) {
    const old = await one(contracts.subscribeOld(client, QOS), () => contracts.publishOld(client, sample.old(), QOS));
    deepStrictEqual(old.value, sample.old());
    const lamp = await one(contracts.subscribeLamp(client, QOS), () =>
      contracts.publishLamp(client, { room: "hall", type: "x" }, sample.lamp(), QOS),
    );
    deepStrictEqual([lamp.parameters, lamp.value], [{ room: "hall", type: "x" }, sample.lamp()]);
    const samples = await one(contracts.subscribeSamples(client, QOS), () =>
      contracts.publishSamples(client, sample.samples(), QOS),
    );
    deepStrictEqual(samples.value, sample.samples());
  },
  async handler(client) {
    const found = new Promise((resolve) => {
      const subscription = contracts.subscribeSamples(client, QOS, (received) => {
        resolve(received.value);
      });
      void subscription.ready.then(() => contracts.publishSamples(client, sample.samples(), QOS));
    });
    deepStrictEqual(await found, sample.samples());
  },
  async refused(client) {
    const isRefused = (error: unknown) => error instanceof MqttError && error.reason === 0x99;
    const lamp = { ...sample.lamp(), brightness: 101 };
    await rejects(contracts.publishLamp(client, { room: "hall", type: "x" }, lamp, QOS), isRefused);
    const elsewhere = { plantId: "8", level3: "x" };
    await rejects(contracts.publishEverything(client, elsewhere, sample.everything(), QOS), isRefused);
    await rejects(client.publish("samples", Uint8Array.of(0x91, 0xc3), QOS), isRefused);
    await rejects(contracts.publishLamp(client, { room: "a/b", type: "x" }, sample.lamp(), QOS));
  },
  async transcoded(client) {
    const text = JSON.stringify(sample.lamp());
    const received = await one(contracts.subscribeLampPack(client, QOS), () =>
      client.publish("packed-lamps/a/b", text, { ...QOS, properties: { contentType: "application/json" } }),
    );
    deepStrictEqual([received.parameters, received.value], [{ rest: "a/b" }, sample.lamp()]);
  },
  async invalid(client) {
    const subscription = contracts.subscribeObserved(client, QOS);
    await subscription.ready;
    await client.publish("observed/1", Uint8Array.of(0x0a, 5, 65), QOS);
    await contracts.publishObserved(client, { plantId: "2" }, sample.old(), QOS);
    const found: unknown[] = [];
    for await (const { error, value, parameters } of subscription) {
      found.push(error === undefined ? value : [error.code, parameters]);
      if (found.length === 2) break;
    }
    deepStrictEqual(found, [["payload_invalid", { plantId: "1" }], sample.old()]);
    throws(() => contracts.lampCodec.decode(new TextEncoder().encode('{"on":1}')), /on: expected a boolean/);
    throws(() => contracts.samplesCodec.decode(Uint8Array.of(0x92, 1, 0xc3)), /\[1\]: expected a number/);
  },
};

const [what = "", host = "", port = ""] = process.argv.slice(2);
if (what === "encode") encode();
else if (what === "decode") decode();
else await run(host, port);
