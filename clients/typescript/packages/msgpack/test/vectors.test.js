import assert from "node:assert/strict";
import { test } from "node:test";
import { Decoder, Encoder, StreamDecoder } from "@tautwire/msgpack";
import { bytes, hex, plain, value, vectors } from "./notation.js";

const modes = [
  ["learned and compiled shapes", { generate: true }],
  ["learned shapes without compiling", { generate: false }],
  ["no shapes", { learnShapes: false }],
];
/** More than enough to learn and compile. */
const ROUNDS = 40;
const strict = { strictUtf8: true, timestamps: "exact" };

test("there are enough vectors, with unique ids", () => {
  assert.ok(vectors.length >= 150);
  assert.equal(new Set(vectors.map((vector) => vector.id)).size, vectors.length);
  assert.ok(vectors.some((vector) => vector.result !== "valid"));
});

for (const [name, mode] of modes) {
  test(`every vector decodes to its value or its error: ${name}`, () => {
    const maps = new Decoder({ ...strict, ...mode, maps: "map" });
    const objects = new Decoder({ ...strict, ...mode });
    for (const vector of vectors) {
      const input = bytes(vector.hex);
      for (let round = 0; round < (input.length < 100 ? ROUNDS : 2); round++) {
        if (vector.result !== "valid") {
          assert.throws(() => maps.decode(input), { name: "MsgpackError", code: vector.result }, vector.id);
          assert.throws(() => objects.decode(input), { name: "MsgpackError", code: vector.result }, vector.id);
          continue;
        }
        const expected = value(vector.value);
        assert.deepEqual(maps.decode(input), expected, vector.id);
        const object = plain(expected);
        if (object === undefined) assert.throws(() => objects.decode(input), { code: "invalid_key" }, vector.id);
        else assert.deepEqual(objects.decode(input), object, vector.id);
      }
    }
  });

  test(`every value encodes to its vector: ${name}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder({ ...strict, ...mode, maps: "map" });
    for (const vector of vectors.filter((v) => v.result === "valid")) {
      const v = value(vector.value);
      const expected = hex(bytes(vector.hex));
      for (let round = 0; round < (expected.length < 200 ? ROUNDS : 2); round++) {
        const written = encoder.encode(v);
        if (vector.encode) assert.equal(hex(written), expected, vector.id);
        // float32 input is encoded as float64.
        else if (!vector.id.startsWith("float32")) assert.ok(written.length <= expected.length / 2, vector.id);
        assert.deepEqual(decoder.decode(written), v, vector.id);
        const object = plain(v);
        if (vector.encode && object !== undefined) {
          const numberKeys = vector.id === "map-integer-key";
          if (!numberKeys) assert.equal(hex(encoder.encode(object)), expected, vector.id);
        }
      }
    }
  });
}

test("every vector has the same result from a stream, whole and in pieces", () => {
  for (const vector of vectors) {
    const input = bytes(vector.hex);
    for (const size of input.length < 100 ? [1, 2, 3, 7] : [1000]) {
      const stream = new StreamDecoder({ ...strict, maps: "map", maxBytes: 2 ** 40 });
      const values = [];
      const run = () => {
        for (let at = 0; at < input.length; at += size) {
          stream.push(input.slice(at, at + size));
          values.push(...stream);
        }
        stream.end();
      };
      if (vector.result === "valid" || vector.result === "trailing_bytes") {
        run();
        if (vector.result === "valid") assert.deepEqual(values, [value(vector.value)], vector.id);
        else assert.equal(values.length, 2, vector.id);
      } else if (vector.id !== "empty") {
        assert.throws(run, { code: vector.result }, vector.id);
      }
    }
  }
});

test("every proper prefix of a valid vector is the error truncated", () => {
  const decoder = new Decoder({ ...strict, maps: "map" });
  for (const vector of vectors) {
    const input = bytes(vector.hex);
    if (vector.result !== "valid" || input.length > 600) continue;
    for (let n = 0; n < input.length; n++) {
      // The memory continues after the end, which must not be read.
      assert.throws(() => decoder.decode(input.subarray(0, n)), { code: "truncated" }, `${vector.id} cut at ${n}`);
    }
  }
});
