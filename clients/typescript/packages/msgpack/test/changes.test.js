// Values that `toJSON`, getters, proxies and extensions modify while they are encoded. The output must stay valid.
/* global structuredClone */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Decoder, Encoder } from "@tautwire/msgpack";

/** Enough objects for a shape to be learned and compiled. */
const LEARNED = 50;
const modes = [{ generate: true }, { generate: false }, { learnShapes: false }];
const decoder = new Decoder({ learnShapes: false });

/** An item that runs a function when it is encoded, and is encoded as "now". */
const when = (change) => ({
  toJSON() {
    change();
    return "now";
  },
});

for (const mode of modes) {
  const label = JSON.stringify(mode);

  /** Encodes a new result of `make` each time, in both ways. */
  const gives = (make, expected) => {
    const encoder = new Encoder(mode);
    for (let i = 0; i < LEARNED; i++) {
      assert.deepEqual(decoder.decode(encoder.encode(make())), expected);
      const target = new Uint8Array(70000);
      const n = encoder.encodeInto(make(), target, 3);
      assert.deepEqual(decoder.decode(target.subarray(3, 3 + n)), expected);
    }
  };

  test(`an array keeps the count of items that it had ${label}`, () => {
    const array = (change, ...rest) => () => {
      const a = [];
      a.push(when(() => change(a)), ...rest);
      return a;
    };
    gives(array((a) => a.push(9), 1), ["now", 1]);
    gives(array((a) => a.push(..."x".repeat(40)), 1), ["now", 1]);
    gives(array((a) => (a.length = 1), 1, 2), ["now", null, null]);
    gives(array((a) => (a.length = 0), ...Array(20).fill(7)), ["now", ...Array(20).fill(null)]);
    gives(array((a) => a.shift(), 1, 2), ["now", 2, null]);
    gives(array((a) => a.reverse(), 1, 2), ["now", 1, "now"]);
    gives(() => ({ list: array((a) => a.push([a]), 1)(), after: "text" }), { list: ["now", 1], after: "text" });
  });

  test(`a set and a map keep the entries that they had ${label}`, () => {
    gives(() => {
      const set = new Set();
      set.add(when(() => set.add(1).add(2).delete("b"))).add("b");
      return set;
    }, ["now", "b"]);
    gives(() => {
      const set = new Set();
      return set.add(when(() => set.clear())).add("b");
    }, ["now", "b"]);
    gives(() => {
      const map = new Map();
      map.set("a", when(() => map.set("c", 3).delete("b"))).set("b", 2);
      return map;
    }, { a: "now", b: 2 });
    gives(() => {
      const map = new Map();
      return map.set("a", when(() => map.clear())).set("b", 2);
    }, { a: "now", b: 2 });
  });

  test(`an object keeps its properties, except deleted ones ${label}`, () => {
    const object = (change, prototype = Object.prototype) => () => {
      const o = Object.create(prototype);
      return Object.assign(o, { first: when(() => change(o)), second: 2, third: 3 });
    };
    for (const prototype of [Object.prototype, null, class {}.prototype]) {
      gives(object((o) => delete o.second, prototype), { first: "now", third: 3 });
      gives(object((o) => (o.fourth = 4), prototype), { first: "now", second: 2, third: 3 });
      gives(object((o) => (o.third = undefined), prototype), { first: "now", second: 2 });
      gives(object((o) => (o.second = "x".repeat(9000)), prototype), { first: "now", second: "x".repeat(9000), third: 3 });
      gives(object((o) => {
        for (let i = 0; i < 20; i++) o[`more${i}`] = i;
      }, prototype), { first: "now", second: 2, third: 3 });
    }
    gives(() => {
      const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, i]));
      many.k0 = when(() => {
        for (let i = 2; i < 20; i++) delete many[`k${i}`];
      });
      return many;
    }, { k0: "now", k1: 1 });
  });

  test(`a getter can modify its object ${label}`, () => {
    gives(() => {
      const list = [1, 2];
      return {
        get first() {
          list.push(3);
          delete this.third;
          return list;
        },
        second: list,
        third: 3,
      };
    }, { first: [1, 2, 3], second: [1, 2, 3] });
    gives(() => Object.defineProperty([0, 1, 2], 1, {
      get() {
        this.length = 2;
        return "got";
      },
    }), [0, "got", null]);
  });

  test(`a proxy is encoded by its traps ${label}`, () => {
    gives(() => new Proxy([1, 2, 3], {}), [1, 2, 3]);
    gives(() => new Proxy({ a: 1, b: [2] }, {}), { a: 1, b: [2] });
    gives(() => new Proxy([1, 2, 3], { get: (a, k) => (k === "length" ? 2 : Reflect.get(a, k)) }), [1, 2]);
    gives(() => new Proxy([], { get: (_, k) => (k === "length" ? 3 : 7) }), [7, 7, 7]);
    gives(() => new Proxy({ a: 1, b: 2 }, { get: (o, k) => (k === "b" ? undefined : Reflect.get(o, k)) }), { a: 1 });
    gives(() => new Proxy({ a: 1, b: 2 }, { ownKeys: () => ["a"] }), { a: 1 });
    const encoder = new Encoder(mode);
    for (const length of [-1, 1.5, NaN, 2 ** 32, "2"]) {
      const lying = new Proxy([], { get: (a, k) => (k === "length" ? length : Reflect.get(a, k)) });
      assert.throws(() => encoder.encode([lying]), { code: "out_of_range" });
    }
    assert.deepEqual(decoder.decode(encoder.encode({ fine: 1 })), { fine: 1 });
  });

  test(`binary data are copied at once; transferred memory is refused ${label}`, () => {
    const encoder = new Encoder(mode);
    const gone = () => {
      const data = Uint8Array.of(1, 2, 3);
      structuredClone(data.buffer, { transfer: [data.buffer] });
      return data;
    };
    const floats = new Float32Array(2);
    structuredClone(floats.buffer, { transfer: [floats.buffer] });
    for (const v of [gone(), gone().buffer, floats, [gone()], { data: gone() }]) {
      assert.throws(() => encoder.encode(v), { code: "out_of_range" });
    }
    for (const v of [new Uint8Array(0), new ArrayBuffer(0), new Float32Array(0), new DataView(new ArrayBuffer(3), 3)]) {
      assert.deepEqual(decoder.decode(encoder.encode(v)), new Uint8Array(0));
    }
    gives(() => {
      const data = Uint8Array.of(1, 2, 3);
      return [when(() => data.fill(9)), data];
    }, ["now", Uint8Array.of(9, 9, 9)]);
    const target = new Uint8Array(16);
    assert.throws(() => encoder.encodeInto([when(() => structuredClone(target.buffer, { transfer: [target.buffer] })), 1], target), { code: "no_room" });
    assert.deepEqual(decoder.decode(encoder.encode([1])), [1]);
  });

  test(`exceptions propagate, and the encoder remains usable ${label}`, () => {
    const encoder = new Encoder(mode);
    const own = new Error("own");
    const fail = () => {
      throw own;
    };
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    for (let i = 0; i < LEARNED; i++) {
      for (const v of [when(fail), { a: 1, b: when(fail) }, { get a() { return fail(); } }, new Proxy({ a: 1 }, { get: fail })]) {
        assert.throws(() => encoder.encode([1, v]), own);
      }
      assert.throws(() => encoder.encode([revoked.proxy]), TypeError);
      assert.deepEqual(decoder.decode(encoder.encode({ a: 1, b: 2 })), { a: 1, b: 2 });
    }
  });
}
