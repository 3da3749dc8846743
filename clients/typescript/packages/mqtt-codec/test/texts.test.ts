import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { encode, MqttDecodeError, MqttDecoder, MqttEncodeError, type PacketInit } from "@tautwire/mqtt-codec";
import { TEXTS } from "@tautwire/mqtt-codec/texts";
import { build } from "esbuild";

const root = new URL("../../", import.meta.url);
const cwd = fileURLToPath(root);

function decodeError(hex: string): MqttDecodeError {
  const decoder = new MqttDecoder();
  decoder.push(Buffer.from(hex, "hex"));
  try {
    decoder.read();
  } catch (error) {
    assert.ok(error instanceof MqttDecodeError);
    return error;
  }
  return assert.fail("it is decoded");
}

test("messages contain the field, the problem, the action, the code and the statement", () => {
  assert.equal(
    decodeError("3006000361232300").message,
    "the topic name contains + or #: publish to one exact topic [topic_wildcard] at byte 5 (MQTT-3.3.2-2)",
  );
  assert.equal(
    decodeError("300400056100").message,
    "a field runs past the end of the packet: correct its length or the remaining length [field_past_end] at byte 2",
  );
  const wrong: [PacketInit, message: string][] = [
    [{ type: "publish", topic: "a/#" }, "topic: the topic name contains + or #: publish to one exact topic [topic_wildcard] (MQTT-3.3.2-2)"],
    [
      { type: "connect", protocolVersion: 4, clientId: "", password: "hunter2" },
      "password: before MQTT 5.0 a password needs a user name: send both [password_without_user_name]",
    ],
  ];
  for (const [packet, message] of wrong) {
    assert.throws(() => encode(packet), (error) => error instanceof MqttEncodeError && error.message === message);
  }
});

test("every code has a text with an action, and an existing statement", () => {
  const ledger = readFileSync(new URL("../../../../spec/statements/mqtt-5.0.json", root), "utf8");
  for (const [code, [text, statement]] of Object.entries(TEXTS)) {
    assert.match(text, /^[^:]+: .+[^.]$/, code);
    assert.ok(statement === undefined || ledger.includes(`"${statement}"`), code);
  }
});

test("all CommonJS entries have the texts, too", () => {
  const require = createRequire(import.meta.url);
  const { encode } = require("@tautwire/mqtt-codec") as typeof import("@tautwire/mqtt-codec");
  const { encodeClientInto } = require("@tautwire/mqtt-codec/client") as typeof import("@tautwire/mqtt-codec/client");
  const { generate } = require("@tautwire/mqtt-codec/mqtt-packet") as typeof import("@tautwire/mqtt-codec/mqtt-packet");
  const message = /^topic: the topic name contains \+ or #: publish to one exact topic \[topic_wildcard\]/;
  assert.throws(() => encode({ type: "publish", topic: "+" }), { message });
  assert.throws(() => encodeClientInto({ type: "publish", topic: "+" }, new Uint8Array(9)), { message });
  assert.throws(() => generate({ cmd: "publish", topic: "+", payload: "", qos: 0, dup: false, retain: false }), { message });
});

test("each entry for Node.js loads the texts", () => {
  for (const [entry, call] of [
    ["@tautwire/mqtt-codec", 'encode({ type: "publish", topic: "+" })'],
    ["@tautwire/mqtt-codec/client", 'encodeClientInto({ type: "publish", topic: "+" }, new Uint8Array(9))'],
    ["@tautwire/mqtt-codec/mqtt-packet", 'generate({ cmd: "publish", topic: "+", payload: "" })'],
  ] as const) {
    const name = call.slice(0, call.indexOf("("));
    const script = `import { ${name} } from "${entry}"; try { ${call}; } catch (error) { console.log(error.message); }`;
    const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd, encoding: "utf8" });
    assert.equal(run.stderr, "");
    assert.match(run.stdout, /^topic: the topic name contains \+ or #: publish to one exact topic/, entry);
  }
});

test("a bundle for browsers has the texts only if it imports them; without them a message is field, code and offset", async () => {
  const bundle = async (contents: string) => {
    const { outputFiles } = await build({
      stdin: { contents: `${contents} export { encode } from "@tautwire/mqtt-codec";`, resolveDir: cwd },
      bundle: true,
      minify: true,
      format: "esm",
      platform: "browser",
      write: false,
    });
    const url = `data:text/javascript;base64,${Buffer.from(outputFiles[0]!.contents).toString("base64")}`;
    const { encode } = (await import(url)) as typeof import("@tautwire/mqtt-codec");
    try {
      encode({ type: "publish", topic: "+" });
    } catch (error) {
      return (error as Error).message;
    }
    return assert.fail("it is encoded");
  };
  assert.equal(await bundle(""), "topic: topic_wildcard");
  assert.match(await bundle('import "@tautwire/mqtt-codec/texts";'), /^topic: the topic name contains \+ or #: publish/);
});
