import assert from "node:assert/strict";
import { test } from "node:test";
import { Decoder, Encoder } from "@tautwire/msgpack";
import { hex } from "./notation.js";

/** Enough objects for a shape to be learned and compiled. */
const LEARNED = 50;
const modes = [{ generate: true }, { generate: false }];
const plainEncoder = new Encoder({ learnShapes: false });
const plainDecoder = new Decoder({ learnShapes: false });

function agree(encoder, decoder, v) {
  const expected = plainEncoder.encode(v);
  assert.equal(hex(encoder.encode(v)), hex(expected));
  assert.deepEqual(decoder.decode(expected), v);
  assert.deepEqual(plainDecoder.decode(expected), v);
}

const base = { id: 1, name: "n", temperature: 1.5, unicodé: "é", "": null, "key with spaces": [1], "quote\"\\\n\u2028": true, sub: { a: 1 } };

for (const mode of modes) {
  const label = JSON.stringify(mode);

  test(`a learned shape gives the same for every kind of value in every field ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    for (let i = 0; i < LEARNED; i++) agree(encoder, decoder, base);
    const values = [0, -0, 1, 127, 128, 255, 256, 65535, 65536, -1, -33, -129, 2 ** 40, 1.5, NaN, 1e300, "", "short", "é", "x".repeat(300), null, true, false, [], [1, 2], {}, { b: 2 }];
    for (const key of Object.keys(base)) for (const v of values) agree(encoder, decoder, { ...base, [key]: v });
    assert.equal(hex(encoder.encode({ ...base, name: 2n ** 60n })), hex(plainEncoder.encode({ ...base, name: 2n ** 60n })));
  });

  test(`a map that differs at any key from its learned shape is decoded correctly ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    for (let i = 0; i < LEARNED; i++) agree(encoder, decoder, base);
    const keys = Object.keys(base);
    for (let at = 0; at < keys.length; at++) {
      for (const other of ["other", `${keys[at]}x`, keys[at].slice(1), "__proto__", "é", "k".repeat(40)]) {
        if (keys.includes(other)) continue;
        const entries = keys.map((key, i) => [i === at ? other : key, base[key]]);
        const v = {};
        for (const [key, item] of entries) Object.defineProperty(v, key, { value: item, enumerable: true, writable: true, configurable: true });
        agree(encoder, decoder, v);
      }
    }
    agree(encoder, decoder, Object.fromEntries(Object.entries(base).reverse()));
  });

  test(`a learned shape truncated anywhere is an error, also within a larger buffer ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    for (let i = 0; i < LEARNED; i++) agree(encoder, decoder, base);
    const whole = plainEncoder.encode(base).slice();
    for (let n = 0; n < whole.length; n++) {
      assert.throws(() => decoder.decode(whole.subarray(0, n)), { code: "truncated" });
      assert.throws(() => decoder.decode(whole.slice(0, n)), { code: "truncated" });
    }
  });

  test(`a duplicate key has its last value ${label}`, () => {
    const decoder = new Decoder(mode);
    for (let i = 0; i < LEARNED; i++) {
      assert.deepEqual(decoder.decode(Uint8Array.of(0x82, 0xa1, 0x61, 1, 0xa1, 0x61, 2)), { a: 2 });
      assert.deepEqual(decoder.decode(Uint8Array.of(0x82, 0xa1, 0x61, 1, 0xa1, 0x62, 2)), { a: 1, b: 2 });
    }
  });

  test(`numeric names keep their values ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    for (let i = 0; i < LEARNED; i++) {
      agree(encoder, decoder, { b: 1, 2: "two", 1: "one", a: 3 });
      assert.deepEqual(decoder.decode(Uint8Array.of(0x82, 0xa1, 0x62, 1, 0xa1, 0x31, 2)), { b: 1, 1: 2 });
    }
  });

  test(`shapes with a common prefix are distinct ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    for (let i = 0; i < 200; i++) {
      agree(encoder, decoder, { type: "a", one: i, two: 2 });
      agree(encoder, decoder, { type: "b", three: i, four: 4 });
      agree(encoder, decoder, { temperatureIn: i, x: 1 });
      agree(encoder, decoder, { temperatureOut: i, x: 1 });
      agree(encoder, decoder, { a: i, x: 1 });
      agree(encoder, decoder, { a: "text", x: 1 });
    }
  });

  test(`the output is valid if a property disappears or appears while the object is encoded ${label}`, () => {
    const encoder = new Encoder(mode);
    const make = (meddle) => {
      const o = { first: null, second: 2, third: 3 };
      o.first = {
        toJSON() {
          meddle(o);
          return 1;
        },
      };
      return o;
    };
    for (let i = 0; i < LEARNED; i++) {
      const gone = make((o) => delete o.second);
      assert.deepEqual(plainDecoder.decode(encoder.encode(gone)), { first: 1, third: 3 });
      const changed = make((o) => (o.second = "x".repeat(9000)));
      assert.deepEqual(plainDecoder.decode(encoder.encode(changed)), { first: 1, second: "x".repeat(9000), third: 3 });
      const more = make((o) => (o.fourth = 4));
      assert.deepEqual(plainDecoder.decode(encoder.encode(more)), { first: 1, second: 2, third: 3 });
    }
  });

  test(`objects of 15, 16, 64, 65, 128, 129 and 70,000 fields ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    for (const n of [15, 16, 17, 64, 65, 128, 129, 70000]) {
      const v = Object.fromEntries(Array.from({ length: n }, (_, i) => [`field${i}`, i]));
      for (let i = 0; i < (n > 1000 ? 3 : LEARNED); i++) agree(encoder, decoder, v);
    }
  });

  test(`alternating shapes with a common prefix and the same length are decoded correctly ${label}`, () => {
    const decoder = new Decoder(mode);
    const shapes = [{ name: 1, level: 2, left: 3 }, { name: "a", level: "b", ratio: 0.5 }, { name: [], other: {}, left: null }];
    for (let i = 0; i < 8 * LEARNED; i++) {
      const v = shapes[(i < 4 * LEARNED ? i >> 6 : i) % 3];
      assert.deepEqual(decoder.decode(plainEncoder.encode(v)), v);
    }
  });

  test(`a wide map that differs at any key from its learned shape is decoded correctly ${label}`, () => {
    const decoder = new Decoder(mode);
    const keys = Array.from({ length: 100 }, (_, i) => `field${i}`);
    const values = [1, 300, -5, 1.5, "text", "é", null, true, [1], { a: 1 }];
    const read = (v) => assert.deepEqual(decoder.decode(plainEncoder.encode(v)), v);
    const wide = Object.fromEntries(keys.map((key, i) => [key, values[i % 10]]));
    for (let i = 0; i < LEARNED; i++) read(wide);
    for (let at = 0; at < keys.length; at++) {
      read(Object.fromEntries(keys.map((key, i) => [i === at ? "other" : key, values[(i + at) % 10]])));
      read(Object.fromEntries(keys.slice(0, at).map((key) => [key, at])));
    }
    const bytes = plainEncoder.encode(wide);
    for (let n = 0; n < bytes.length; n++) assert.throws(() => decoder.decode(bytes.subarray(0, n)), { code: "truncated" });
  });

  test(`random keys are correct and do not grow the memory without limit ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    let state = 1;
    const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0);
    for (let i = 0; i < 9000; i++) agree(encoder, decoder, { [`k${next()}`]: i, [`m${next() % 50}`]: 1, same: "s" });
    // Learning resumes when names repeat.
    for (let i = 0; i < 3000; i++) agree(encoder, decoder, { steady: i, shape: "s" });
  });

  test(`empty and short maps are correct while learning is paused ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    // More names than are collected before the evaluation of objects that repeat none.
    for (let i = 0; i < 2600; i++) agree(encoder, decoder, { [`only${i}`]: i });
    const wide = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`field${i}`, { value: i }]));
    for (let i = 0; i < LEARNED; i++) for (const v of [{}, [{}], { a: {} }, wide]) agree(encoder, decoder, v);
    const target = new Uint8Array(plainEncoder.encode(wide).length);
    assert.equal(encoder.encodeInto(wide, target), target.length);
    assert.deepEqual(plainDecoder.decode(target), wide);
  });

  test(`many shapes at once ${label}`, () => {
    const encoder = new Encoder(mode);
    const decoder = new Decoder(mode);
    const shapes = Array.from({ length: 600 }, (_, i) => ({ [`name${i}`]: i, common: "c", [`tail${i % 7}`]: [i, { inner: i }] }));
    for (let round = 0; round < 20; round++) for (const v of shapes) agree(encoder, decoder, v);
  });
}

/** Calls `run` with a function that returns the number of functions compiled since its last call. */
function counting(run) {
  const original = globalThis.Function;
  let made = 0;
  globalThis.Function = new Proxy(original, {
    construct(target, args) {
      made++;
      return Reflect.construct(target, args);
    },
  });
  try {
    run(() => {
      const count = made;
      made = 0;
      return count;
    });
  } finally {
    globalThis.Function = original;
  }
}

test("a shape in use is compiled only if that is allowed", () => {
  counting((compiled) => {
    for (const [mode, expected] of [[{ generate: true }, 2], [{ generate: "auto" }, 2], [{ generate: false }, 0], [{ learnShapes: false }, 0]]) {
      const encoder = new Encoder(mode);
      const decoder = new Decoder(mode);
      for (let i = 0; i < LEARNED; i++) agree(encoder, decoder, { a: i, b: "text" });
      assert.equal(compiled(), expected, JSON.stringify(mode));
    }
  });
});

test("a shape in steady use survives names that do not repeat, and is compiled once", () => {
  counting((compiled) => {
    const encoder = new Encoder({ generate: true });
    const decoder = new Decoder({ generate: true });
    let fresh = 0;
    for (let round = 0; round < 2; round++) {
      // Longer than a pause of learning.
      for (let i = 0; i < 5000; i++) agree(encoder, decoder, { a: i, b: "text" });
      assert.equal(compiled(), round === 0 ? 2 : 0, `round ${round}`);
      for (let i = 0; i < 2000; i++) agree(encoder, decoder, { [`k${fresh++}`]: i, [`l${fresh++}`]: i });
      assert.equal(compiled(), 0, `names of round ${round}`);
    }
  });
});

test("rare shapes are not compiled", () => {
  counting((compiled) => {
    const encoder = new Encoder({ generate: true });
    const decoder = new Decoder({ generate: true });
    for (let round = 0; round < 2 * LEARNED; round++) {
      for (let i = 0; i < 100; i++) agree(encoder, decoder, { id: i, [`name${i}`]: 1 });
    }
    assert.equal(compiled(), 0);
  });
});
