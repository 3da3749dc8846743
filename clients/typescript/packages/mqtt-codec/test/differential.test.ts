// Holds this decoder to the broker's: the same verdict, for the same reason, at the same byte, on mutated and random bytes.
// FUZZ_INPUTS and FUZZ_SEED make it longer and different.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { encode, MqttDecodeError, MqttDecoder, type Packet, type ProtocolVersion } from "@tautwire/mqtt-codec";
import { bytesOf, readVectors, VERSIONS } from "./vectors.js";

const INPUTS = Number(process.env["FUZZ_INPUTS"] ?? 60_000);
const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
const LIMIT = 4096;
const ROOT = fileURLToPath(new URL("../../../../../../", import.meta.url));

interface Input {
  version: ProtocolVersion;
  limit: number;
  bytes: Uint8Array;
}

let state = SEED;

/** A whole number from 0 to `below` - 1. */
function random(below: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

const seeds = readVectors()
  .map((vector) => ({ version: VERSIONS[vector.version], bytes: bytesOf(vector) }))
  .filter(({ bytes }) => bytes.length < 600);

function mutated(): Input {
  const seed = seeds[random(seeds.length)]!;
  let bytes = [...seed.bytes];
  for (let change = random(3); change >= 0; change--) {
    const at = random(bytes.length);
    const kind = random(6);
    if (kind === 0) bytes[at] = random(256);
    else if (kind === 1) bytes[at] = (bytes[at] ?? 0) ^ (1 << random(8));
    else if (kind === 2) bytes.splice(at, 1);
    else if (kind === 3) bytes.splice(at, 0, random(256));
    else if (kind === 4) bytes[at] = INTERESTING[random(INTERESTING.length)]!;
    else bytes = [...bytes.slice(0, at), ...bytes.slice(random(bytes.length))];
  }
  // Mostly with a remaining length that is right, so that the body is read.
  if (random(4) > 0 && bytes.length > 2 && bytes.length < 130) bytes[1] = bytes.length - 2;
  const version = random(8) === 0 ? ([3, 4, 5] as const)[random(3)]! : seed.version;
  return { version, limit: random(10) === 0 ? random(60) + 2 : LIMIT, bytes: Uint8Array.from(bytes) };
}

const INTERESTING = [0, 1, 2, 0x23, 0x2b, 0x2f, 0x24, 0x26, 0x7f, 0x80, 0xc0, 0xc2, 0xe0, 0xed, 0xf0, 0xf4, 0xff];

function made(): Input {
  const length = random(40);
  const bytes = Uint8Array.from({ length: length + 2 }, () => (random(3) === 0 ? random(256) : random(12)));
  const type = random(16);
  bytes[0] = (type << 4) | (type === 3 ? random(16) : [6, 8, 10].includes(type) ? 2 : 0);
  bytes[1] = length;
  return { version: ([3, 4, 5] as const)[random(3)]!, limit: LIMIT, bytes };
}

function verdict({ version, limit, bytes }: Input): { line: string; packet: Packet | null } {
  const decoder = new MqttDecoder({ protocolVersion: version, maxPacketSize: limit });
  decoder.push(bytes);
  try {
    const packet = decoder.read();
    if (packet === null) return { line: "incomplete", packet };
    const consumed = bytes.length - decoder.bufferedBytes;
    return { line: `valid ${consumed} ${Buffer.from(encode(packet, version)).toString("hex")}`, packet };
  } catch (error) {
    assert.ok(error instanceof MqttDecodeError, String(error));
    return { line: `${error.fault} ${error.reason} ${error.code} ${error.offset}`, packet: null };
  }
}

/** The broker keeps user properties where they stood between others; here they stand together. */
function isSamePacket(line: string, packet: Packet | null, version: ProtocolVersion): boolean {
  const [result, , hex] = line.split(" ");
  if (result !== "valid" || packet === null) return false;
  const decoder = new MqttDecoder({ protocolVersion: version });
  decoder.push(Buffer.from(hex ?? "", "hex"));
  assert.deepStrictEqual(decoder.read(), packet);
  return true;
}

test(`the broker's decoder says the same of ${INPUTS} inputs`, () => {
  const inputs = Array.from({ length: INPUTS }, () => (random(4) === 0 ? made() : mutated()));
  const lines = inputs.map(({ version, limit, bytes }) => `${version} ${limit} ${Buffer.from(bytes).toString("hex")}\n`);
  const cargo = ["run", "--release", "--quiet", "--locked", "-p", "tautwire-protocol", "--example", "verdict"];
  const run = spawnSync("cargo", cargo, { cwd: ROOT, input: lines.join(""), maxBuffer: 1 << 30, encoding: "utf8" });
  assert.equal(run.status, 0, run.stderr);
  const answers = run.stdout.trimEnd().split("\n");
  assert.equal(answers.length, inputs.length);
  const classes = new Map<string, number>();
  for (const [at, input] of inputs.entries()) {
    const expected = answers[at]!;
    const { line, packet } = verdict(input);
    if (line !== expected && !isSamePacket(expected, packet, input.version)) {
      assert.equal(line, expected, `FUZZ_SEED=${SEED}, input ${lines[at]!}`);
    }
    const kind = line.split(" ")[0]!;
    classes.set(kind, (classes.get(kind) ?? 0) + 1);
  }
  for (const kind of ["valid", "malformed", "protocol_error", "too_large", "incomplete"]) {
    assert.ok((classes.get(kind) ?? 0) > INPUTS / 500, `enough inputs are ${kind}`);
  }
});
