import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import * as once from "@tautwire/msgpack";
import { decodeMany, Decoder, Encoder, ExtensionValue, MsgpackError, Timestamp } from "@tautwire/msgpack";
import { bytes, hex } from "./notation.js";

const learned = { encoder: new Encoder(), decoder: new Decoder() };

/** The results of instances that have learned the shapes, and of the functions. */
function encode(v) {
  const bytes = learned.encoder.encode(v);
  assert.equal(hex(once.encode(v)), hex(bytes));
  return bytes;
}

function decode(bytes, options) {
  if (options !== undefined) return once.decode(bytes, options);
  const v = learned.decoder.decode(bytes);
  assert.deepEqual(once.decode(bytes), v);
  return v;
}

function encodeInto(v, target, offset) {
  const twin = target.slice();
  const n = learned.encoder.encodeInto(v, target, offset);
  assert.equal(once.encodeInto(v, twin, offset), n);
  assert.deepEqual(twin, target);
  return n;
}

const roundTrip = (v) => decode(encode(v));

test("a typed array is encoded as exactly its bytes, without those of other messages", () => {
  encode("secret".repeat(1000));
  const kinds = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array];
  for (const Kind of [...kinds, BigInt64Array, BigUint64Array]) {
    const memory = new ArrayBuffer(64);
    new Uint8Array(memory).fill(0xee);
    const big = Kind.name.startsWith("Big");
    const view = new Kind(memory, 8, 3);
    view.set(big ? [1n, 2n, 3n] : [1, 2, 3]);
    const own = new Uint8Array(memory, 8, view.byteLength);
    assert.equal(hex(encode(view)), `c4${view.byteLength.toString(16).padStart(2, "0")}${hex(own)}`, Kind.name);
    assert.deepEqual(roundTrip(view), own.slice(), Kind.name);
  }
  assert.deepEqual(roundTrip(new DataView(new ArrayBuffer(8), 2, 3)), new Uint8Array(3));
  assert.deepEqual(roundTrip(Uint8Array.of(1, 2).buffer), Uint8Array.of(1, 2));
  assert.deepEqual(roundTrip(Buffer.from("abc")), new Uint8Array([97, 98, 99]));
});

test("large numbers keep their values", () => {
  for (const n of [1e300, -1e300, 1e21, 2 ** 53, 2 ** 63, 2 ** 64, -(2 ** 63), Number.MAX_VALUE, Number.MIN_VALUE]) {
    assert.equal(roundTrip(n), n);
    assert.equal(encode(n)[0], 0xcb);
  }
});

test("negative integers are never written as unsigned", () => {
  for (const n of [-1, -32, -33, -128, -129, -255, -256, -257, -32768, -32769, -65535, -65536, -(2 ** 31), -(2 ** 31) - 1, -(2 ** 53) + 1]) {
    assert.equal(roundTrip(n), n);
    assert.ok(![0xcc, 0xcd, 0xce, 0xcf].includes(encode(n)[0]));
  }
});

test("minus zero, NaN and the infinities survive, alone, in arrays and in objects", () => {
  for (let i = 0; i < 50; i++) {
    for (const n of [-0, NaN, Infinity, -Infinity, 0]) {
      assert.ok(Object.is(roundTrip(n), n));
      assert.ok(Object.is(roundTrip([n])[0], n));
      assert.ok(Object.is(roundTrip({ n }).n, n));
    }
  }
});

test("every integer around a power of two survives", () => {
  for (let bits = 0; bits <= 53; bits++) {
    for (const delta of [-2, -1, 0, 1, 2]) {
      for (const sign of [1, -1]) {
        const n = sign * (2 ** bits + delta);
        assert.ok(Object.is(roundTrip(n), n), String(n));
        // With more bytes after it, another code path reads it.
        const among = [n, n, [n, n], { n }, "more text"];
        assert.deepEqual(roundTrip(among), among);
      }
    }
  }
});

test("a bigint is written in the shortest form up to 64 bits, and refused beyond", () => {
  for (let bits = 0n; bits <= 52n; bits++) {
    for (const delta of [-2n, -1n, 0n, 1n, 2n]) {
      for (const sign of [1n, -1n]) {
        const n = sign * (2n ** bits + delta);
        assert.equal(hex(encode(n)), hex(encode(Number(n))), String(n));
      }
    }
  }
  assert.equal(hex(encode(5n)), "05");
  assert.equal(hex(encode(-5n)), "fb");
  assert.equal(hex(encode(0n)), "00");
  const decoder = new Decoder({ int64: "bigint" });
  for (const n of [2n ** 32n, -(2n ** 31n) - 1n, 2n ** 63n, 2n ** 64n - 1n, -(2n ** 63n)]) assert.equal(decoder.decode(encode(n)), n);
  for (const n of [2n ** 64n, -(2n ** 63n) - 1n]) assert.throws(() => encode(n), { code: "out_of_range" });
});

test("int64 is decoded according to the option", () => {
  const unsafe = encode(2n ** 53n + 1n);
  assert.equal(decode(unsafe), 2n ** 53n + 1n);
  assert.equal(decode(unsafe, { int64: "number" }), 2 ** 53);
  assert.equal(decode(bytes("cf0000000000000007"), { int64: "bigint" }), 7n);
  assert.equal(decode(bytes("d3ffffffffffffffff"), { int64: "bigint" }), -1n);
  for (const n of [2 ** 40, -(2 ** 40)]) {
    assert.deepEqual(decode(encode([n, n]), { int64: "bigint" }), [BigInt(n), BigInt(n)]);
    assert.deepEqual(decode(encode([n, n])), [n, n]);
  }
  assert.equal(decode(encode(7), { int64: "bigint" }), 7);
});

test("float32 is written only if enabled and lossless", () => {
  const encoder = new Encoder({ float32: "exact" });
  assert.equal(encode(1.5)[0], 0xcb);
  for (let i = 0; i < 50; i++) {
    assert.equal(hex(encoder.encode(1.5)), "ca3fc00000");
    assert.equal(hex(encoder.encode({ x: 1.5 })), "81a178ca3fc00000");
    assert.equal(encoder.encode(0.1)[0], 0xcb);
    assert.equal(hex(encoder.encode(-0)), "ca80000000");
    assert.ok(Number.isNaN(decode(encoder.encode(NaN))));
  }
});

test("undefined, functions and symbols follow JSON: left out of objects, nil elsewhere", () => {
  for (const nothing of [undefined, () => 1, Symbol("s")]) {
    assert.equal(hex(encode(nothing)), "c0");
    assert.equal(hex(encode([nothing])), "91c0");
  }
  const many = Object.fromEntries(Array.from({ length: 18 }, (_, i) => [`k${i}`, i]));
  for (let i = 0; i < 50; i++) {
    assert.equal(hex(encode({ a: undefined, b: 1, c: () => 1 })), "81a16201");
    assert.equal(hex(encode({ a: 2, b: 1, c: 3 })), "83a16102a16201a16303");
    for (const gone of [["k0"], ["k17", "k3"], ["k1", "k2", "k3"]]) {
      const o = { ...many };
      for (const k of gone) o[k] = undefined;
      const written = encode(o);
      assert.equal(hex(written), hex(encode(JSON.parse(JSON.stringify(o)))));
      assert.deepEqual(decode(written), JSON.parse(JSON.stringify(o)));
    }
  }
});

test("toJSON is called wherever it is defined", () => {
  class Celsius {
    constructor(degrees) {
      this.degrees = degrees;
    }
    toJSON() {
      return `${this.degrees} °C`;
    }
  }
  for (let i = 0; i < 50; i++) {
    assert.deepEqual(roundTrip([new Celsius(3), { toJSON: () => [1] }, { a: 1, toJSON: () => "x" }]), ["3 °C", [1], "x"]);
    assert.deepEqual(roundTrip({ toJSON: 5 }), { toJSON: 5 });
  }
  const self = { toJSON: () => self };
  assert.throws(() => encode(self), { code: "limit_depth" });
});

test("an object with many properties is encoded like one with few", () => {
  for (const n of [128, 129, 300]) {
    const many = Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, i % 3 === 0 ? [i] : `${i}`]));
    const whole = encode(many);
    assert.deepEqual(decode(whole), many);
    assert.equal(hex(encode({ ...many, gone: undefined, method() {}, sign: Symbol("s") })), hex(whole));
    assert.equal(hex(encode({ ...many, toJSON: () => [n] })), hex(encode([n])));
    // The class of an extension is not checked either.
    const extensions = [{ type: 1, class: Object, encode: () => Uint8Array.of(1), decode: () => null }];
    assert.equal(hex(once.encode(many, { extensions })), hex(whole));
    let nested = many;
    for (let i = 0; i < 3; i++) nested = { ...many, nested };
    assert.throws(() => once.encode(nested, { maxDepth: 3 }), { code: "limit_depth" });
  }
});

test("numbers beyond the current buffer are complete", () => {
  for (const fraction of [0, 0.5]) {
    const many = Array.from({ length: 20_000 }, (_, i) => i + fraction);
    assert.deepEqual(roundTrip(many), many);
    assert.deepEqual(once.decode(new Encoder().encode(many)), many);
  }
});

test("other items among numbers are encoded as usual", () => {
  const numbers = Array.from({ length: 200 }, (_, i) => [i, -i, i * 300, i * 70_000, i / 8, -0, 2 ** 40 + i, -(2 ** 20) - i][i % 8]);
  const others = ["text", "x".repeat(700), null, true, [1, 2, 3, 4, 5, 6], { a: [7, 8] }, new Uint8Array(600), undefined, 5n];
  for (const other of others) {
    for (const at of [1, 62, 63, 64, 65, 127, 128, 198]) {
      const items = [...numbers];
      items[at] = other;
      const expected = `dc00c8${items.map((item) => hex(once.encode(item))).join("")}`;
      assert.equal(hex(encode(items)), expected, `${String(other)} at ${at}`);
      const n = expected.length / 2;
      const target = new Uint8Array(n);
      assert.equal(encodeInto(items, target), n);
      assert.equal(hex(target), expected);
    }
  }
});

test("class instances, null prototypes and boxed values are encoded by their own properties", () => {
  class Base {
    a = 1;
    method() {}
  }
  Base.prototype.inherited = 2;
  class Derived extends Base {
    b = 2;
  }
  assert.deepEqual(roundTrip(new Derived()), { a: 1, b: 2 });
  assert.deepEqual(roundTrip(Object.assign(Object.create(null), { x: 1 })), { x: 1 });
  assert.deepEqual(roundTrip(Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true } })), { own: 2 });
  assert.deepEqual(roundTrip([new Number(1), new String("s"), new Boolean(false)]), [1, "s", false]);
  assert.deepEqual(roundTrip({ constructor: 1 }), { constructor: 1 });
  for (const options of [{ generate: true }, { generate: false }, { learnShapes: false }]) {
    const encoder = new Encoder(options);
    for (let i = 0; i < 50; i++) {
      decode(encoder.encode([{ own: 1, inherited: 2 }, {}]));
      const heir = Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true } });
      assert.deepEqual(decode(encoder.encode([heir, Object.create({ inherited: 1 })])), [{ own: 2 }, {}]);
    }
  }
});

test("Map and Set are encoded with their contents", () => {
  const map = new Map([["a", 1], [2, "b"], [null, [3]]]);
  assert.deepEqual(decode(encode(map), { maps: "map" }), map);
  assert.deepEqual(roundTrip(new Set([1, "a"])), [1, "a"]);
  assert.deepEqual(roundTrip(new Map([["a", new Map([[5, 6]])]])), { a: { 5: 6 } });
});

test("strings of every length and kind survive", () => {
  for (const unit of ["a", "é", "€", "😀", "a😀é€"]) {
    for (let n = 0; n < 140; n++) {
      const s = unit.repeat(n);
      assert.equal(roundTrip(s), s);
      assert.equal(hex(encode(s)).endsWith(Buffer.from(s).toString("hex")), true);
    }
    for (const n of [255, 256, 300, 1000, 16384, 22000, 65535, 65536, 70000]) assert.equal(roundTrip(unit.repeat(n)), unit.repeat(n));
  }
  assert.equal(roundTrip("\ufeffbom"), "\ufeffbom");
});

test("a lone surrogate becomes U+FFFD and does not affect its neighbours", () => {
  for (const pad of ["", "x".repeat(40)]) {
    for (const [s, expected] of [["a\ud800b", "a\ufffdb"], ["\udc00", "\ufffd"], ["\udc00\udc00", "\ufffd\ufffd"], ["\ud800", "\ufffd"], ["\ud800\ud800\udc00", "\ufffd\u{10000}"]]) {
      assert.equal(roundTrip(pad + s), pad + expected);
      assert.deepEqual(roundTrip([pad + s, "next"]), [pad + expected, "next"]);
    }
  }
});

test("a Date is a timestamp to the millisecond, a Timestamp to the nanosecond", () => {
  for (const ms of [0, 1, 999, 1000, 1700000000123, -1, -1000, -62135596800000, 8.64e15, -8.64e15, 17179869184000]) {
    assert.deepEqual(roundTrip(new Date(ms)), new Date(ms));
  }
  assert.throws(() => encode(new Date(NaN)), { code: "out_of_range" });
  const exact = new Timestamp(-5n, 123456789);
  assert.deepEqual(decode(encode(exact), { timestamps: "exact" }), exact);
  assert.throws(() => decode(encode(new Timestamp(2n ** 62n, 0))), { code: "invalid_timestamp" });
  for (const [seconds, nanoseconds] of [[2n ** 63n, 0], [0n, 1e9], [0n, -1], [0n, 0.5], [0n, NaN], [1, 0]]) {
    assert.throws(() => new Timestamp(seconds, nanoseconds), { code: "invalid_argument" });
  }
});

test("extensions encode classes, also nested", () => {
  class Point {
    constructor(x, y) {
      this.x = x;
      this.y = y;
    }
  }
  const point = {
    type: 1,
    class: Point,
    encode: (p) => encoder.encode([p.x, p.y]),
    decode: (data) => new Point(...decoder.decode(data)),
  };
  const encoder = new Encoder({ extensions: [point] });
  const decoder = new Decoder({ extensions: [point] });
  const nested = { list: [new Point(1, new Point(2, 3)), new Point(4, 5)], after: "text after" };
  for (let i = 0; i < 50; i++) assert.deepEqual(decoder.decode(encoder.encode(nested)), nested);
  assert.deepEqual(decode(encoder.encode(new Point(1, 2))), new ExtensionValue(1, Uint8Array.of(0x92, 1, 2)));
  for (const type of [128, -129, 0.5, NaN]) assert.throws(() => new ExtensionValue(type, new Uint8Array(0)), { code: "invalid_argument" });
  assert.throws(() => new ExtensionValue(1, [1, 2]), { code: "invalid_argument" });
});

test("encodeInto writes inside its target only, and fills it to the last byte", () => {
  for (const v of [1, "hello", "x".repeat(50), "é".repeat(40), { a: 1, b: [1.5, "x"] }, [1, 2, 3], new Uint8Array(20), 2 ** 40, new Date(0)]) {
    const expected = encode(v);
    for (let i = 0; i < 20; i++) {
      const memory = new Uint8Array(expected.length + 20).fill(0xee);
      const target = memory.subarray(10, 10 + expected.length);
      assert.equal(encodeInto(v, target), expected.length);
      assert.equal(hex(target), hex(expected));
      assert.equal(hex(memory.subarray(0, 10)) + hex(memory.subarray(10 + expected.length)), "ee".repeat(20));
      const offset = memory.subarray(5, 15 + expected.length);
      assert.equal(encodeInto(v, offset, 5), expected.length);
      assert.equal(hex(memory.subarray(0, 10)) + hex(memory.subarray(10 + expected.length)), "ee".repeat(20));
      const small = memory.subarray(10, 9 + expected.length);
      assert.throws(() => encodeInto(v, small), { code: "no_room" });
      assert.equal(hex(memory.subarray(0, 10)) + hex(memory.subarray(10 + expected.length)), "ee".repeat(20));
    }
  }
  for (const offset of [2, -1, 0.5, NaN, "0"]) assert.throws(() => encodeInto(1, new Uint8Array(1), offset), { code: "invalid_argument" });
});

test("results are never overwritten", () => {
  const results = [];
  for (let i = 0; i < 3000; i++) results.push([i, encode({ i, text: "x".repeat(i % 50) })]);
  results.push(["x".repeat(20000), encode("x".repeat(20000))], ["y".repeat(20000), encode("y".repeat(20000))]);
  for (const [v, data] of results) assert.equal(typeof v === "number" ? decode(data).i : decode(data), v);
});

test("a detached memory block is replaced", () => {
  const first = encode("a");
  globalThis.structuredClone(first.buffer, { transfer: [first.buffer] });
  assert.equal(decode(encode("still works")), "still works");
});

test("many values and bytes consumed", () => {
  const all = Buffer.concat([encode(1), encode("two"), encode([3])]);
  assert.deepEqual([...decodeMany(all)], [1, "two", [3]]);
  assert.deepEqual(new Decoder().decodeFirst(all), { value: 1, bytesConsumed: 1 });
  assert.deepEqual(new Decoder().decodeFirst(all, 1), { value: "two", bytesConsumed: 4 });
  assert.throws(() => [...decodeMany(all.subarray(0, 3))], { code: "truncated" });
  assert.throws(() => new Decoder().decodeFirst(all, 99), { code: "invalid_argument" });
});

test("binary data is a view of the input, or a copy on request", () => {
  const input = encode(Uint8Array.of(1, 2, 3));
  assert.equal(decode(input).buffer, input.buffer);
  assert.notEqual(decode(input, { binary: "copy" }).buffer, input.buffer);
  assert.equal(decode(input, { binary: "copy" }).buffer.byteLength, 3);
});

test("errors have a code and an offset", () => {
  const error = (() => {
    try {
      decode(Uint8Array.of(0x92, 1, 0xc1));
    } catch (caught) {
      return caught;
    }
  })();
  assert.ok(error instanceof MsgpackError);
  assert.deepEqual([error.code, error.offset], ["invalid_format", 2]);
  const inner = new Uint8Array(10).fill(0x91).subarray(4);
  assert.throws(() => decode(inner), { code: "truncated", offset: 6 });
  assert.throws(() => decode(Uint8Array.of(1, 2, 3)), { code: "trailing_bytes", offset: 1 });
});

test("instances do not share options", () => {
  const bigints = new Decoder({ int64: "bigint" });
  const copies = new Decoder({ maps: "map" });
  assert.equal(bigints.decode(encode(2 ** 40)), 2n ** 40n);
  assert.equal(decode(encode(2 ** 40)), 2 ** 40);
  assert.ok(copies.decode(encode({ a: 1 })) instanceof Map);
  assert.deepEqual(decode(encode({ a: 1 })), { a: 1 });
});

test("the functions learn from call to call, but never with options", () => {
  const original = globalThis.Function;
  let made = 0;
  globalThis.Function = new Proxy(original, {
    construct(target, args) {
      made++;
      return Reflect.construct(target, args);
    },
  });
  try {
    for (let i = 0; i < 100; i++) assert.deepEqual(once.decode(once.encode({ learned: 1 }, {}), {}), { learned: 1 });
    assert.equal(made, 0);
    for (let i = 0; i < 100; i++) assert.deepEqual(once.decode(once.encode({ learned: 1 })), { learned: 1 });
    assert.equal(made, 2);
  } finally {
    globalThis.Function = original;
  }
});

test("the functions are reentrant", () => {
  const v = { outer: { toJSON: () => once.decode(once.encode({ inner: once.encode([1]) })) }, after: "text" };
  for (let i = 0; i < 50; i++) assert.deepEqual(once.decode(once.encode(v)), { outer: { inner: Uint8Array.of(0x91, 1) }, after: "text" });
});

test("class instances of the same kind keep their own values", () => {
  class Reading {
    constructor(id, note) {
      this.id = id;
      this.note = note;
      this.skipped = undefined;
    }
  }
  const many = Object.assign(Object.create(null), Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, i])));
  for (let i = 0; i < 50; i++) {
    assert.deepEqual(roundTrip([new Reading(i, "é"), new Reading(i + 1, null)]), [{ id: i, note: "é" }, { id: i + 1, note: null }]);
    assert.deepEqual(roundTrip(many), { ...many });
  }
});

test("require returns the same package", () => {
  const common = createRequire(import.meta.url)("@tautwire/msgpack");
  assert.deepEqual(common.decode(common.encode({ a: [1] })), { a: [1] });
  assert.equal(typeof common.StreamDecoder, "function");
});

test("short non-ASCII text fits into exactly its bytes, and does not modify those after them", () => {
  // Writing whole words would be faster, but the byte after the text does not belong to the writer.
  for (const s of ["漢".repeat(11), "漢".repeat(31), "я".repeat(16), "😀".repeat(15), "漢", "\ud800".repeat(12)]) {
    const expected = encode(s);
    for (let spare = 0; spare < 6; spare++) {
      const target = new Uint8Array(expected.length + spare).fill(7);
      assert.equal(encodeInto(s, target), expected.length);
      assert.deepEqual(target, Uint8Array.from([...expected, ...new Array(spare).fill(7)]));
    }
  }
});
