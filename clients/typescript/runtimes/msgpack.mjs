// Checks the MessagePack package with every vector, in both directions.

import assert from "node:assert/strict";
import { Decoder, Encoder } from "@tautwire/msgpack";
import { bytes, hex, value, vectors } from "../packages/msgpack/test/notation.js";

const encoder = new Encoder();
const decoder = new Decoder({ strictUtf8: true, timestamps: "exact", maps: "map" });
for (const vector of vectors) {
  const input = bytes(vector.hex);
  if (vector.result !== "valid") {
    assert.throws(() => decoder.decode(input), { name: "MsgpackError", code: vector.result }, vector.id);
    continue;
  }
  const expected = value(vector.value);
  assert.deepEqual(decoder.decode(input), expected, vector.id);
  if (vector.encode) assert.equal(hex(encoder.encode(expected)), hex(input), vector.id);
}
console.log(`  msgpack: ${vectors.length} vectors`);
