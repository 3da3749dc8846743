import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { json, MqttError, type MqttErrorCode } from "@tautwire/client";
import { TEXTS } from "@tautwire/client/texts";
import { createClient } from "./support/clients.js";
import { FakeBroker } from "./support/fake-broker.js";
import { failure } from "./support/waiting.js";

const cwd = fileURLToPath(new URL("../../", import.meta.url));

test("the texts are those of all languages", () => {
  const toml = readFileSync(new URL("../../../../../../spec/errors/errors.toml", import.meta.url), "utf8");
  // Codes with `only` belong to the languages that it names.
  const words = [...toml.matchAll(/^\[client\.(\w+)\]\ntext = "(.*)"$(?!\nonly = (?!.*"typescript"))/gm)].map(([, code, text]) => [code!, text!]);
  assert.ok(words.length > 40);
  assert.deepEqual({ ...TEXTS }, Object.fromEntries(words));
});

test("a message is text, detail and code, with the server's reason string", () => {
  assert.equal(new MqttError("expired").message, `${TEXTS["expired"]!} [expired]`);
  const details = { reason: 0x87, reasonString: "not yours" };
  const error = new MqttError("subscribe_refused", "a/b", details);
  assert.equal(error.message, `${TEXTS["subscribe_refused"]!} (a/b, reason 0x87, not yours) [subscribe_refused]`);
  assert.deepEqual([error.code, error.detail, error.reason], ["subscribe_refused", "a/b", 0x87]);
});

describe("programming errors are reported", () => {
  const MISTAKES: readonly (readonly [MqttErrorCode, (client: ReturnType<typeof createClient>) => Promise<unknown>])[] = [
    ["invalid_argument", (client) => client.publish("a/#", "x")],
    ["invalid_argument", (client) => client.publish("a/#", "x", { qos: 1 })],
    ["invalid_argument", (client) => client.publish("t", "x", { qos: 3 as 2 })],
    ["invalid_argument", (client) => client.publish("t", "x", { qos: 1, properties: { contentType: 5 as unknown as string } })],
    ["payload_invalid", (client) => client.publish("t", { a: 1 })],
    ["payload_invalid", (client) => client.publish("t", 1n, { codec: json() })],
  ];

  test("as rejections, which are counted", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport });
    await broker.accept();
    await client.connected();
    for (const [code, publish] of MISTAKES) assert.equal((await failure(publish(client))).code, code);
    assert.equal(client.counters.mistakes, MISTAKES.length);
    await client.close();
  });

  test("also if they are not handled, unlike other rejections", () => {
    const script = `
      import { createClient } from "@tautwire/client";
      const unheard = [];
      process.on("unhandledRejection", ({ code }) => unheard.push(code));
      const client = createClient("mqtt://127.0.0.1:1", { queue: { maxMessages: 0 } });
      void client.publish("a/#", "x");
      void client.publish("t", "x", { qos: 3 });
      void client.publish("t", { a: 1 });
      void client.publish("t", "no room", { qos: 1 });
      client.publish("a/#", "looked at").catch(() => undefined);
      await client.close();
      void client.publish("t", "too late");
      await new Promise((resolve) => setImmediate(resolve));
      console.log(unheard.join(" "), client.counters.mistakes);`;
    const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd, encoding: "utf8" });
    assert.equal(run.stderr, "");
    assert.equal(run.stdout, "invalid_argument invalid_argument payload_invalid 4\n");
  });

  test("`send` throws", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport });
    await broker.accept();
    await client.connected();
    assert.throws(() => client.send("a/#", "x"), { code: "invalid_argument" });
    await client.close();
  });
});

test("a payload larger than any packet is refused without allocating memory", async () => {
  const broker = new FakeBroker();
  const client = createClient("mqtt://x", { transport: broker.transport });
  await broker.accept();
  await client.connected();
  const payload = new Uint8Array(268_435_461);
  for (const qos of [0, 1] as const) {
    const error = await failure(client.publish("t", payload, { qos }));
    assert.equal(error.code, "packet_too_large");
    assert.match(error.message, /268435461 bytes, the maximum is 268435460/);
  }
  assert.throws(() => client.send("t", payload), { code: "packet_too_large" });
  await client.close();
});
