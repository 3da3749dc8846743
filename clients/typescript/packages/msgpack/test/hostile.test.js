import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, Decoder, encode, Encoder } from "@tautwire/msgpack";
import { bytes } from "./notation.js";

test("__proto__ and similar keys are data: no prototype changes", () => {
  const text = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"a":1}';
  for (const options of [{ generate: true }, { generate: false }, { learnShapes: false }]) {
    const encoder = new Encoder(options);
    const decoder = new Decoder(options);
    for (let i = 0; i < 50; i++) {
      const decoded = decoder.decode(encoder.encode(JSON.parse(text)));
      assert.equal(Object.getPrototypeOf(decoded), Object.prototype);
      assert.equal(JSON.stringify(decoded), text);
      assert.equal({}.polluted, undefined);
      assert.equal(decoded.polluted, undefined);
    }
  }
});

test("an enumerable property on Object.prototype is not encoded", () => {
  const encoder = new Encoder();
  for (let i = 0; i < 50; i++) encoder.encode({ a: 1, b: 2 });
  Object.defineProperty(Object.prototype, "b", { value: 9, enumerable: true, configurable: true });
  try {
    assert.equal(Buffer.from(encoder.encode({ a: 1 })).toString("hex"), "81a16101");
  } finally {
    delete Object.prototype.b;
  }
});

test("depth is limited both ways, and cycles end", () => {
  const nested = (n, levels = []) => (n === 0 ? levels : nested(n - 1, [levels]));
  assert.deepEqual(decode(encode(nested(255))), nested(255));
  assert.throws(() => encode(nested(256)), { code: "limit_depth" });
  const deep = bytes("(91*256)90");
  assert.throws(() => decode(deep), { code: "limit_depth" });
  assert.throws(() => decode(bytes("(81a161*256)90")), { code: "limit_depth" });
  assert.throws(() => decode(bytes("(91*1000000)90")), { code: "limit_depth" });
  assert.throws(() => decode(bytes("(810081*1000)90"), { maps: "map" }), { code: "limit_depth" });
  assert.throws(() => decode(bytes("9190"), { maxDepth: 1 }), { code: "limit_depth" });
  assert.deepEqual(decode(bytes("90"), { maxDepth: 1 }), []);
  const cycle = { name: "cycle" };
  cycle.self = [cycle];
  assert.throws(() => encode(cycle), { code: "limit_depth" });
  assert.deepEqual(decode(encode({ fine: 1 })), { fine: 1 });
});

test("each length has its limit", () => {
  const refused = (v, options) => assert.throws(() => decode(encode(v), options), { code: "limit_length" });
  for (const [limit, fits, above] of [
    ["maxStringBytes", "abcd", "abcde"],
    ["maxBinaryBytes", new Uint8Array(4), new Uint8Array(5)],
    ["maxArrayItems", [1, 2, 3, 4], [1, 2, 3, 4, 5]],
    ["maxMapEntries", { a: 1, b: 2, c: 3, d: 4 }, { a: 1, b: 2, c: 3, d: 4, e: 5 }],
  ]) {
    assert.deepEqual(decode(encode(fits), { [limit]: 4 }), fits);
    refused(above, { [limit]: 4 });
    refused([above], { [limit]: 4 });
  }
  const decoder = new Decoder({ maxStringBytes: 4 });
  for (let i = 0; i < 20; i++) {
    decoder.decode(encode({ key: "fits" }));
    assert.throws(() => decoder.decode(encode({ key: "too long" })), { code: "limit_length" });
    assert.throws(() => decoder.decode(encode({ long_key: 1 })), { code: "limit_length" });
  }
  // The announced length is refused, whether or not the bytes follow.
  assert.throws(() => decode(bytes("dbffffffff"), { maxStringBytes: 1000 }), { code: "limit_length" });
});

test("the whole message has a limit, both ways", () => {
  const v = ["x".repeat(50), "y".repeat(50)];
  const written = encode(v);
  assert.deepEqual(decode(written, { maxBytes: written.length }), v);
  assert.throws(() => decode(written, { maxBytes: written.length - 1 }), { code: "limit_total" });
  assert.deepEqual(new Decoder({ maxBytes: 2 }).decodeFirst(bytes("9101ffffffff")).value, [1]);
  assert.equal(encode(v, { maxBytes: written.length }).length, written.length);
  assert.throws(() => encode(v, { maxBytes: written.length - 1 }), { code: "limit_total" });
  assert.throws(() => encode("x".repeat(100000), { maxBytes: 10 }), { code: "limit_total" });
});

test("announced lengths allocate nothing before the bytes arrive", () => {
  const decoder = new Decoder();
  const nested = bytes("(dd00100000*250)(c0*1048576)");
  globalThis.gc?.();
  const before = process.memoryUsage();
  for (let i = 0; i < 20; i++) {
    assert.throws(() => decoder.decode(nested), { code: "truncated" });
    for (const bomb of ["ddffffffff", "dfffffffff", "c6ffffffff", "dbffffffff", "c9ffffffff01"]) {
      assert.throws(() => decoder.decode(bytes(bomb)), { code: "truncated" });
    }
  }
  const after = process.memoryUsage();
  assert.ok(after.rss - before.rss < 400 * 1024 * 1024, `grew by ${after.rss - before.rss}`);
});

test("invalid UTF-8 is refused with strictUtf8, and otherwise decoded with U+FFFD", () => {
  for (const hex of ["a2c0af", "a3e080af", "a2c328", "a3eda080", "a1ff", "d928(61*38)c328", "d92a(61*40)c0af"]) {
    assert.throws(() => decode(bytes(hex), { strictUtf8: true }), { code: "invalid_utf8" });
    const s = decode(bytes(hex));
    assert.ok(s.includes("\ufffd") && !s.includes("/"), JSON.stringify(s));
  }
  assert.equal(decode(encode("really \ufffd"), { strictUtf8: true }), "really \ufffd");
});

test("ill-formed UTF-8 of every length is decoded as in the standard", () => {
  const platform = new TextDecoder("utf-8", { ignoreBOM: true });
  const lax = new Decoder();
  const strict = new Decoder({ strictUtf8: true });
  const wrong = ["80", "bf", "c0af", "c1bf", "c3", "c328", "e0a0", "e08080", "e282", "e28228", "eda080", "edbfbf", "f0908d", "f08080af", "f0908d28", "f4908080", "f5808080", "ff"];
  const letters = { a: "61", é: "c3a9", "€": "e282ac", "😀": "f09f9880" };
  for (const bad of wrong) {
    for (const unit of Object.values(letters)) {
      for (const times of [0, 1, 3, 8, 15, 20, 40, 90, 300, 700]) {
        for (const text of [bytes(`(${unit}*${times})${bad}`), bytes(`${bad}(${unit}*${times})`), bytes(`(${unit}*${times})${bad}(${unit}*${times})`)]) {
          // At the end of its memory, and before bytes that would continue the character.
          for (const after of ["", "80"]) {
            const message = Uint8Array.of(0xda, text.length >> 8, text.length, ...text, ...bytes(after));
            const input = message.subarray(0, 3 + text.length);
            assert.equal(lax.decode(input), platform.decode(text));
            assert.throws(() => strict.decode(input), { code: "invalid_utf8" });
          }
        }
      }
    }
  }
  for (const unit of Object.keys(letters)) {
    for (let times = 0; times < 1100; times += times < 100 ? 1 : 37) {
      const s = unit.repeat(times);
      assert.equal(strict.decode(encode(s)), s);
      assert.equal(strict.decode(encode(`a${s}`)), `a${s}`);
    }
  }
});

test("names that differ in any byte are distinct, regardless of their length", () => {
  const decoder = new Decoder({ learnShapes: false });
  for (let n = 0; n <= 40; n++) {
    const name = "k".repeat(n);
    const others = Array.from({ length: n }, (_, i) => `${name.slice(0, i)}x${name.slice(i + 1)}`);
    for (let round = 0; round < 3; round++) {
      for (const key of [name, ...others, `${name}k`, "é".repeat(n), `${name}é`, `é${name}`]) {
        assert.deepEqual(Object.keys(decoder.decode(encode({ [key]: 1 }))), [key]);
      }
    }
  }
});

test("a cached name never matches other bytes", () => {
  for (const options of [{ generate: true }, { generate: false }, { learnShapes: false }]) {
    const decoder = new Decoder({ ...options, strictUtf8: true });
    for (let c = 0x80; c < 0x100; c++) {
      const name = String.fromCharCode(c);
      assert.deepEqual(decoder.decode(encode({ a: 1, [name]: 1 })), { a: 1, [name]: 1 });
      assert.throws(() => decoder.decode(Uint8Array.of(0x82, 0xa1, 0x61, 1, 0xa1, c, 1)), { code: "invalid_utf8" });
    }
    for (let c = 0x80; c < 0x100; c++) assert.throws(() => decoder.decode(Uint8Array.of(0x81, 0xa1, c, 1)), { code: "invalid_utf8" });
  }
});

test("a decoder remains usable after any error", () => {
  const decoder = new Decoder();
  for (const bad of ["c1", "9201", "81a161", "ddffffffff", "(91*300)90", "0101"]) {
    assert.throws(() => decoder.decode(bytes(bad)));
    assert.deepEqual(decoder.decode(encode({ a: [1, "two", 3.5] })), { a: [1, "two", 3.5] });
  }
});

test("random and mutated bytes give a value or a MsgpackError, the same with and without shapes", () => {
  let state = 12345;
  const next = (n) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % n;
  };
  const decoders = [{ generate: true }, { generate: false }, { learnShapes: false }].map((options) => new Decoder({ ...options, timestamps: "exact" }));
  const good = encode([{ id: 1, name: "first", at: 1.5 }, { id: 2, name: "second", at: 2.5 }, { id: 3, name: "third", at: null, ok: true }]);
  const outcome = (decoder, input) => {
    try {
      return { value: decoder.decode(input) };
    } catch (error) {
      if (error.name !== "MsgpackError") throw error;
      return { code: error.code, offset: error.offset };
    }
  };
  for (let i = 0; i < 20000; i++) {
    let input;
    if (i % 2) {
      input = Uint8Array.from({ length: next(40) }, () => next(256));
    } else {
      input = good.slice(0, i % 3 ? good.length : next(good.length));
      for (let j = next(3); j >= 0 && i % 8; j--) input[next(input.length)] = next(256);
    }
    const [first, ...others] = decoders.map((decoder) => outcome(decoder, input));
    for (const other of others) assert.deepEqual(other, first, Buffer.from(input).toString("hex"));
  }
});
