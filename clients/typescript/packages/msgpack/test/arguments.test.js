// Invalid options, inputs, targets, and results of extensions.
/* global structuredClone */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { decode, decodeMany, Decoder, encode, encodeInto, Encoder, MsgpackError, StreamDecoder } from "@tautwire/msgpack";

const nothingOfLimits = [NaN, -1, -Infinity, "10", 10n, null, {}, true];
const limits = ["maxDepth", "maxBytes", "maxStringBytes", "maxBinaryBytes", "maxArrayItems", "maxMapEntries"];

test("a limit is a number from 0, or it is refused", () => {
  for (const given of nothingOfLimits) {
    for (const name of limits) assert.throws(() => new Decoder({ [name]: given }), { name: "MsgpackError", code: "invalid_options", message: new RegExp(name) });
    for (const name of ["maxDepth", "maxBytes"]) {
      assert.throws(() => new Encoder({ [name]: given }), { code: "invalid_options" });
      assert.throws(() => encode(1, { [name]: given }), { code: "invalid_options" });
      assert.throws(() => new StreamDecoder({ [name]: given }), { code: "invalid_options" });
    }
  }
  for (const name of limits) {
    for (const given of [undefined, Infinity]) assert.deepEqual(new Decoder({ [name]: given }).decode(encode({ a: [1, "b"] })), { a: [1, "b"] });
    assert.throws(() => new Decoder({ [name]: 0 }).decode(encode({ a: ["b", new Uint8Array(1)] })), /limit_/);
  }
});

test("an unknown option is refused, because a misspelt limit would be none", () => {
  for (const each of [Encoder, Decoder, StreamDecoder]) {
    assert.throws(() => new each({ maxBytess: 10 }), { code: "invalid_options", message: /there is no option maxBytess/ });
  }
});

test("an error message contains the problem, the position, and the code", () => {
  const message = (run) => {
    try {
      run();
    } catch (error) {
      assert.ok(error instanceof MsgpackError);
      return error.message;
    }
    return "nothing";
  };
  assert.equal(message(() => new Decoder({ maxDepth: NaN })), "an option is wrong: correct it (maxDepth is NaN, not a number from 0) [invalid_options]");
  assert.equal(message(() => decode(Uint8Array.of(0x91))), "the input ends before the value does (at byte 1) [truncated]");
  assert.equal(message(() => encodeInto(1, new Uint8Array(1), 2)), "an argument is wrong: correct the call (the offset is 2, the target has 1 bytes) [invalid_argument]");
  assert.ok(!message(() => decode("secret")).includes("secret"));
});

test("an input is any view, of which exactly its bytes are used, or a buffer", () => {
  const v = { a: [1, "é", 2.5], data: new Uint8Array([1, 2, 3]) };
  const written = encode(v);
  const padded = new Uint8Array(written.length + 16).fill(0xc1);
  padded.set(written, 8);
  const exact = written.slice();
  const shared = new Uint8Array(new SharedArrayBuffer(written.length));
  shared.set(written);
  const even = new Uint8Array(written.length + (written.length % 2));
  const inputs = [
    padded.subarray(8, 8 + written.length),
    new DataView(padded.buffer, 8, written.length),
    exact.buffer,
    shared.buffer,
    shared,
    new DataView(shared.buffer),
    Buffer.from(written),
    new Int8Array(exact.buffer),
    runInNewContext("new Uint8Array(length).buffer", { length: written.length }),
    runInNewContext("new Uint8Array(length)", { length: written.length }),
  ];
  new Uint8Array(inputs[8]).set(written);
  inputs[9].set(written);
  const decoder = new Decoder();
  for (const input of inputs) {
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(decoder.decode(input), v);
      assert.deepEqual(decoder.decodeFirst(input), { value: v, bytesConsumed: written.length });
    }
    assert.deepEqual(decode(input), v);
    assert.deepEqual([...decodeMany(input)], [v]);
    const stream = new StreamDecoder();
    stream.push(input);
    assert.deepEqual([...stream], [v]);
  }
  even[0] = 0xc0;
  even[1] = 0xc3;
  assert.deepEqual([...decodeMany(new Uint16Array(even.buffer, 0, 1))], [null, true]);
});

test("an invalid input is refused, and the error names its type", () => {
  const decoder = new Decoder();
  for (const input of ["text", 5, null, undefined, [0xc0], {}, { buffer: new ArrayBuffer(8), byteOffset: 0, byteLength: 8, length: 8 }, () => 1]) {
    assert.throws(() => decode(input), { code: "invalid_argument" });
    assert.throws(() => decoder.decodeFirst(input), { code: "invalid_argument" });
    assert.throws(() => [...decoder.decodeMany(input)], { code: "invalid_argument" });
    assert.throws(() => new StreamDecoder().push(input), { code: "invalid_argument" });
  }
  const gone = Uint8Array.of(0xc0);
  structuredClone(gone.buffer, { transfer: [gone.buffer] });
  assert.throws(() => decode(gone), { code: "truncated" });
  assert.throws(() => decode(new ArrayBuffer(0)), { code: "truncated" });
  for (const offset of [-1, 2, 0.5, NaN, "0", null]) assert.throws(() => decoder.decodeFirst(Uint8Array.of(0xc0), offset), { code: "invalid_argument" });
});

test("a target is a Uint8Array", () => {
  for (const target of [new ArrayBuffer(8), new DataView(new ArrayBuffer(8)), new Int8Array(8), new Uint16Array(8), [0, 0], "text", undefined]) {
    assert.throws(() => encodeInto(1, target), { code: "invalid_argument" });
  }
  assert.equal(encodeInto(1, Buffer.alloc(1)), 1);
  assert.equal(encodeInto(1, runInNewContext("new Uint8Array(1)")), 1);
});

test("an extension must return a Uint8Array", () => {
  class Point {}
  for (const answer of ["text", 5, null, undefined, [1, 2], { length: 2 }, new ArrayBuffer(2), new Uint16Array(2)]) {
    const encoder = new Encoder({ extensions: [{ type: 1, class: Point, encode: () => answer, decode: () => new Point() }] });
    assert.throws(() => encoder.encode([new Point()]), { name: "MsgpackError", code: "invalid_extension" });
    assert.deepEqual(decode(encoder.encode([1])), [1]);
  }
  const other = new Encoder({ extensions: [{ type: 1, class: Point, encode: () => runInNewContext("Uint8Array.of(7)"), decode: () => new Point() }] });
  assert.deepEqual(decode(other.encode(new Point())).data, Uint8Array.of(7));
  for (const type of [128, -129, 1.5, NaN, "1", undefined]) {
    const extensions = [{ type, class: Point, encode: () => new Uint8Array(0), decode: () => new Point() }];
    assert.throws(() => new Encoder({ extensions }), { code: "invalid_options" });
    assert.throws(() => new Decoder({ extensions }), { code: "invalid_options" });
  }
});
