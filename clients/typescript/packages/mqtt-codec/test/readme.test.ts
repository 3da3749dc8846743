import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = new URL("../../", import.meta.url);

test("the first example of the README runs as pasted and prints what it says", () => {
  const readme = readFileSync(new URL("README.md", root), "utf8");
  const example = /```js\n(.*?)```/s.exec(readme)?.[1];
  const said = /It prints `(.*?)`/.exec(readme)?.[1];
  assert.ok(example !== undefined && said !== undefined);
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", example], {
    cwd: fileURLToPath(root),
    encoding: "utf8",
  });
  assert.equal(run.stderr, "");
  assert.equal(run.stdout, `${said}\n`);
});

test("CommonJS has the same functions", () => {
  const require = createRequire(import.meta.url);
  const { encode, MqttDecoder } = require("@tautwire/mqtt-codec") as typeof import("@tautwire/mqtt-codec");
  const decoder = new MqttDecoder();
  decoder.push(encode({ type: "pingreq" }));
  assert.deepEqual(decoder.read(), { type: "pingreq" });
  const packets = require("@tautwire/mqtt-codec/mqtt-packet") as typeof import("@tautwire/mqtt-codec/mqtt-packet");
  assert.deepEqual(packets.default.generate({ cmd: "pingreq" }), Buffer.of(0xc0, 0));
  assert.equal(packets.generate, packets.default.generate);
});

test("the codec runs without Node.js, Buffer and process", () => {
  const script = `
    delete globalThis.Buffer;
    delete globalThis.process;
    const { encode, MqttDecoder } = await import("@tautwire/mqtt-codec");
    const { parser, generate } = await import("@tautwire/mqtt-codec/mqtt-packet");
    const topic = "long enough for the platform to be asked, é: " + "x".repeat(100);
    const decoder = new MqttDecoder();
    decoder.push(encode({ type: "publish", topic, payload: "p" }));
    if (decoder.read().topic !== topic) throw new Error("another topic");
    parser().on("packet", (packet) => console.log(packet.cmd)).parse(generate({ cmd: "pingreq" }));`;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: fileURLToPath(root),
    encoding: "utf8",
  });
  assert.equal(run.stderr, "");
  assert.equal(run.stdout, "pingreq\n");
});
