import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { noBroker, RealBroker } from "./support/real-broker.js";
import { within } from "./support/waiting.js";

const root = new URL("../../", import.meta.url);
const cwd = fileURLToPath(root);

test("the first example of the README runs as pasted and prints what it says", { skip: noBroker }, async () => {
  const readme = readFileSync(new URL("README.md", root), "utf8");
  const example = /```js\n(.*?)```/s.exec(readme)?.[1];
  const said = /It prints `(.*?)`/.exec(readme)?.[1];
  assert.ok(example !== undefined && said !== undefined);
  const broker = await RealBroker.start();
  const script = example.replace("mqtt://127.0.0.1:1883", broker.url);
  const run = spawn(process.execPath, ["--input-type=module", "-e", script], { cwd });
  let output = "";
  for (const stream of [run.stdout, run.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  await once(run, "exit");
  assert.equal(output, `${said}\n`);
  await broker.stop();
});

test("a bundle for browsers needs no Node.js, and has MessagePack, SCRAM, stores and texts only if they are imported", async () => {
  const bundle = async (contents: string, conditions: string[]) => {
    const result = await build({
      stdin: { contents, resolveDir: cwd },
      bundle: true,
      minify: true,
      format: "esm",
      platform: "browser",
      conditions,
      metafile: true,
      write: false,
      logLevel: "silent",
    });
    return Object.keys(result.metafile.inputs);
  };
  for (const conditions of [[], ["workerd"], ["edge-light"], ["import"]]) {
    const inputs = await bundle('export * from "@tautwire/client"', conditions);
    const others = /node:|\/transport\/(tcp|node-web-socket|frames)|msgpack\/dist|\/scram\/|\/store\/|texts\.js|meant\.js/;
    assert.ok(!inputs.some((name) => others.test(name)), inputs.join("\n"));
  }
  const worded = await bundle('import "@tautwire/client/texts"; export * from "@tautwire/client";', []);
  assert.ok(worded.some((name) => name.endsWith("esm/texts.js")));
  assert.ok(worded.some((name) => name.endsWith("mqtt-codec/dist/esm/error-texts.js")));
  const stored = await bundle('export * from "@tautwire/client/indexeddb-store"', []);
  assert.ok(!stored.some((name) => /node:|file-store|client\/(client|connection)\.js/.test(name)), stored.join("\n"));
  const packed = await bundle('export * from "@tautwire/client/msgpack"', []);
  assert.ok(packed.some((name) => name.includes("msgpack/dist/esm/decoder")));
  // SCRAM must not depend on the client.
  const scram = await bundle('export * from "@tautwire/client/scram"', []);
  assert.deepEqual(scram.filter((name) => !name.startsWith("dist/esm/scram/")), ["<stdin>"]);
});

test("runs without Buffer, process, setImmediate and performance", () => {
  const script = `
    const print = console.log;
    for (const name of ["Buffer", "process", "setImmediate", "performance", "global"]) delete globalThis[name];
    const { createClient } = await import("@tautwire/client/web");
    const { encode, MqttDecoder } = await import("@tautwire/mqtt-codec");
    const decoder = new MqttDecoder();
    const transport = (url, events) => {
      queueMicrotask(events.onOpen);
      return {
        bufferedBytes: 0,
        send(bytes) {
          decoder.push(bytes.slice());
          for (const packet of decoder) {
            const answers = {
              connect: { type: "connack", reason: 0 },
              subscribe: { type: "suback", packetId: packet.packetId, reasons: [0] },
              publish: packet,
            };
            if (answers[packet.type]) queueMicrotask(() => events.onData(encode(answers[packet.type])));
          }
          return true;
        },
        end: () => queueMicrotask(() => events.onClose()),
        destroy() {},
      };
    };
    const client = createClient("ws://x", { transport });
    const subscription = client.subscribe("t");
    await subscription.ready;
    await client.publish("t", "hello");
    for await (const message of subscription) {
      print(message.text());
      break;
    }
    await client.close();`;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd, encoding: "utf8" });
  assert.equal(run.stderr, "");
  assert.equal(run.stdout, "hello\n");
});

test("without texts, an error message is its detail and code", () => {
  const script = `
    import { MqttError } from "@tautwire/client/web";
    console.log(new MqttError("subscribe_refused", "a/b", { reason: 0x87 }).message);
    console.log(new MqttError("closed").message);
    await import("@tautwire/client/texts");
    console.log(new MqttError("closed").message);`;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd, encoding: "utf8" });
  assert.equal(run.stderr, "");
  const lines = ["a/b, reason 0x87 [subscribe_refused]", "[closed]", "the client has been closed: create a new one [closed]", ""];
  assert.deepEqual(run.stdout.split("\n"), lines);
});

test("CommonJS has the same exports", () => {
  const require = createRequire(import.meta.url);
  const { connect, MqttError } = require("@tautwire/client") as typeof import("@tautwire/client");
  const { msgpack } = require("@tautwire/client/msgpack") as typeof import("@tautwire/client/msgpack");
  const { scram } = require("@tautwire/client/scram") as typeof import("@tautwire/client/scram");
  const { FileStore } = require("@tautwire/client/file-store") as typeof import("@tautwire/client/file-store");
  const { Store } = require("@tautwire/client/store") as typeof import("@tautwire/client/store");
  assert.ok(FileStore.prototype instanceof Store);
  assert.equal(typeof connect, "function");
  assert.equal(scram({ userName: "ann", password: "pencil" }).method, "SCRAM-SHA-256");
  assert.equal(new MqttError("closed", "x").message, "the client has been closed: create a new one (x) [closed]");
  assert.equal(msgpack().contentType, "application/msgpack");
});

test("unref lets a program exit while its client is connecting", () => {
  const script = `
    import { createClient } from "@tautwire/client";
    const client = createClient("mqtt://127.0.0.1:1").unref();
    client.on("reconnecting", ({ error }) => console.log(error.code));
    client.ref();
    const off = client.on("reconnecting", () => { client.unref(); off(); });`;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd, encoding: "utf8", timeout: 10_000 });
  assert.equal(run.stderr, "");
  assert.equal(run.stdout, "unreachable\n");
  assert.equal(run.status, 0);
});

test("unref lets a program exit while its client is connected", { skip: noBroker }, async () => {
  const broker = await RealBroker.start();
  const script = `
    import { connect } from "@tautwire/client";
    const client = await connect(${JSON.stringify(broker.url)});
    client.unref();
    console.log(client.state);`;
  const run = spawn(process.execPath, ["--input-type=module", "-e", script], { cwd });
  let output = "";
  for (const stream of [run.stdout, run.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const [status] = (await within(once(run, "exit"), "end of the program")) as [number];
  assert.deepEqual([output, status], ["connected\n", 0]);
  await broker.stop();
});

test("an idle process with a closed client ends by itself", () => {
  const script = `
    import { createClient } from "@tautwire/client";
    const client = createClient("mqtt://127.0.0.1:1");
    client.publish("t", "x", { qos: 1 });
    await client.close();
    console.log("done");`;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd, encoding: "utf8", timeout: 10_000 });
  assert.equal(run.stderr, "");
  assert.equal(run.stdout, "done\n");
});
