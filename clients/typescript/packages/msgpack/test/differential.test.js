import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { decode as oracleDecode, encode as oracleEncode } from "@msgpack/msgpack";
import { decode, Decoder, encode, Encoder } from "@tautwire/msgpack";
import { hex } from "./notation.js";

function generator(seed) {
  let state = seed;
  const next = (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const letters = ["a", "b", "z", " ", "0", "é", "€", "😀"];
  const string = () => Array.from({ length: next(4) ? next(12) : next(300) }, () => letters[next(next(3) ? 5 : 8)]).join("");
  const names = ["id", "name", "value", "timestamp", "status", "items", "long_property_name", "é", "x"];
  const value = (depth) => {
    switch (next(depth > 4 ? 9 : 12)) {
      case 0:
        return null;
      case 1:
        return next(2) === 0;
      case 2:
        return next(300) - 100;
      case 3:
        return Math.floor((next(2 ** 31) - 2 ** 30) * 2 ** next(22));
      case 4:
        return (next(2 ** 31) + 0.5) / (1 + next(1000)) - 1000;
      case 5:
      case 6:
      case 7:
        return string();
      case 8:
        return Uint8Array.from({ length: next(300) }, () => next(256));
      case 9:
        return Array.from({ length: next(20) }, () => value(depth + 1));
      default: {
        const o = {};
        for (let i = next(next(8) ? 6 : 30); i > 0; i--) o[next(3) ? names[next(names.length)] : string()] = value(depth + 1);
        return o;
      }
    }
  };
  return () => value(0);
}

// None of the values are integers beyond 32 bits or −0, which the peer encodes differently where the format allows a choice.
test("random values: the same bytes as an independent encoder, and each decodes the other's", () => {
  const make = generator(20240501);
  const encoder = new Encoder();
  const decoder = new Decoder();
  const interpreted = new Encoder({ generate: false });
  const interpretedDecoder = new Decoder({ generate: false });
  for (let i = 0; i < 6000; i++) {
    const v = make();
    const expected = oracleEncode(v);
    assert.equal(hex(encode(v)), hex(expected));
    assert.equal(hex(interpreted.encode(v)), hex(expected));
    assert.deepEqual(decode(expected), v);
    assert.equal(hex(encoder.encode(v)), hex(expected));
    assert.deepEqual(decoder.decode(expected), v);
    assert.deepEqual(interpretedDecoder.decode(expected), v);
    assert.deepEqual(oracleDecode(encode(v)), v);
  }
});

// Part of `make test`: see spec/requirements.txt.
const python = fileURLToPath(new URL("../../../../../.venv/bin/python", import.meta.url));
const hasPython = spawnSync(python, ["-c", "import msgpack"]).status === 0;
const program = "import sys,msgpack\nfor l in sys.stdin: print(msgpack.packb(msgpack.unpackb(bytes.fromhex(l), strict_map_key=False)).hex())";

test("random values: Python's msgpack reads them, and writes the same bytes", { skip: !hasPython && "no .venv with msgpack" }, () => {
  const make = generator(20240502);
  const encoder = new Encoder();
  const decoder = new Decoder();
  const values = Array.from({ length: 2000 }, make);
  const sent = values.map((v) => hex(encoder.encode(v)));
  const { status, stdout, stderr } = spawnSync(python, ["-c", program], { input: sent.join("\n"), encoding: "utf8", maxBuffer: 2 ** 28 });
  assert.equal(status, 0, stderr);
  const received = stdout.trimEnd().split("\n");
  assert.deepEqual(received, sent);
  values.forEach((v, i) => assert.deepEqual(decoder.decode(Uint8Array.from(Buffer.from(received[i], "hex"))), v));
});
