import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeStream, encode, StreamDecoder } from "@tautwire/msgpack";
import { bytes } from "./notation.js";

const values = [1, "text", { a: [1, 2, { b: "x".repeat(100) }] }, null, new Uint8Array(300).fill(7), -5.5, [], {}, "é".repeat(200), 2n ** 63n];
const whole = Buffer.concat(values.map((v) => encode(v)));

test("values are complete from chunks of every size", () => {
  for (let size = 1; size <= whole.length; size = size < 20 ? size + 1 : size * 2 - 3) {
    const stream = new StreamDecoder();
    const got = [];
    for (let at = 0; at < whole.length; at += size) {
      stream.push(new Uint8Array(whole.subarray(at, at + size)));
      got.push(...stream);
    }
    stream.end();
    assert.deepEqual(got, values, `chunks of ${size}`);
  }
});

test("values are complete if chunks are pushed without iterating in between", () => {
  for (const size of [1, 5, 50]) {
    const stream = new StreamDecoder();
    for (let at = 0; at < whole.length; at += size) stream.push(whole.subarray(at, at + size));
    assert.deepEqual([...stream], values);
    stream.end();
  }
});

test("views of values that span chunks are not overwritten", () => {
  const stream = new StreamDecoder();
  const got = [];
  const part = encode(new Uint8Array(100).fill(1));
  for (let i = 0; i < 200; i++) {
    for (const byte of part) {
      stream.push(Uint8Array.of(byte));
      got.push(...stream);
    }
  }
  assert.equal(got.length, 200);
  assert.ok(got.every((data) => data.length === 100 && data.every((byte) => byte === 1)));
});

test("leaving the loop early loses nothing", () => {
  const stream = new StreamDecoder();
  stream.push(Uint8Array.of(1, 2, 3));
  for (const value of stream) {
    assert.equal(value, 1);
    break;
  }
  stream.push(Uint8Array.of(4));
  assert.deepEqual([...stream], [2, 3, 4]);
});

test("a chunk pushed inside the loop is iterated, too, by the next loop at the latest", () => {
  const stream = new StreamDecoder();
  stream.push(Uint8Array.of(1));
  const got = [];
  for (const value of stream) {
    got.push(value);
    if (value === 1) stream.push(Uint8Array.of(2));
  }
  got.push(...stream);
  assert.deepEqual(got, [1, 2]);
});

test("an error has the offset in the stream, and persists", () => {
  const stream = new StreamDecoder();
  stream.push(Uint8Array.of(1, 2));
  assert.deepEqual([...stream], [1, 2]);
  stream.push(Uint8Array.of(0x92, 3));
  assert.deepEqual([...stream], []);
  stream.push(Uint8Array.of(0xc1));
  assert.throws(() => [...stream], { code: "invalid_format", offset: 4 });
  assert.throws(() => [...stream], { code: "invalid_format" });
  assert.throws(() => stream.push(Uint8Array.of(1)), { code: "invalid_format" });
  assert.throws(() => stream.end(), { code: "invalid_format" });
});

test("an end in the middle of a value is the error truncated", () => {
  const stream = new StreamDecoder();
  stream.push(Uint8Array.of(0x92, 1));
  assert.deepEqual([...stream], []);
  assert.throws(() => stream.end(), { code: "truncated", offset: 2 });
});

test("a value that announces more than maxBytes is refused before it is buffered", () => {
  for (const header of ["dbffffffff", "c6ffffffff", "ddffffffff", "dfffffffff", "c9ffffffff01", "91dbffffffff"]) {
    const stream = new StreamDecoder({ maxBytes: 1000 });
    stream.push(bytes(header));
    assert.throws(() => [...stream], { code: "limit_total" }, header);
  }
});

test("a long value in single bytes takes linear time", () => {
  const long = encode(Array.from({ length: 20000 }, (_, i) => i));
  const stream = new StreamDecoder();
  let got;
  for (const byte of long) {
    stream.push(Uint8Array.of(byte));
    for (const value of stream) got = value;
  }
  // A decoder that started again with every byte would read 10^9 bytes, which takes minutes.
  assert.equal(got.length, 20000);
});

test("decodeStream accepts any asynchronous source", async () => {
  async function* chunks() {
    for (let at = 0; at < whole.length; at += 11) yield whole.subarray(at, at + 11);
  }
  const got = [];
  for await (const value of decodeStream(chunks())) got.push(value);
  assert.deepEqual(got, values);
  await assert.rejects(async () => {
    for await (const value of decodeStream([Uint8Array.of(0x91)])) assert.fail(String(value));
  }, { code: "truncated" });
});
