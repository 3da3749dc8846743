// Measures one library in one process: CPU nanoseconds per operation, as JSON on standard output.
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { guards, sets, streams } from "./data.js";

const SAMPLE_MS = Number(process.env.SAMPLE_MS ?? 10);
const SAMPLES = Number(process.env.SAMPLES ?? 9);

const ours = () => import("../dist/esm/index.js");
const functions = ({ encode, decode }) => ({ encode: (v) => encode(v), decode: (b) => decode(b) });

const libraries = {
  async "tautwire"() {
    const { Encoder, Decoder } = await ours();
    const encoder = new Encoder();
    const decoder = new Decoder();
    return { encode: (v) => encoder.encode(v), decode: (b) => decoder.decode(b) };
  },
  async "tautwire (functions)"() {
    return functions(await ours());
  },
  async "tautwire (generate off)"() {
    const { Encoder, Decoder } = await ours();
    const encoder = new Encoder({ generate: false });
    const decoder = new Decoder({ generate: false });
    return { encode: (v) => encoder.encode(v), decode: (b) => decoder.decode(b) };
  },
  async "msgpackr (JS)"() {
    process.env.MSGPACKR_NATIVE_ACCELERATION_DISABLED = "true";
    return functions(await import("msgpackr"));
  },
  async "msgpackr (native)"() {
    const msgpackr = await import("msgpackr");
    assert.ok(msgpackr.isNativeAccelerationEnabled);
    return functions(msgpackr);
  },
  async "@msgpack/msgpack"() {
    const { Encoder, Decoder } = await import("@msgpack/msgpack");
    const encoder = new Encoder();
    const decoder = new Decoder();
    return { encode: (v) => encoder.encode(v), decode: (b) => decoder.decode(b) };
  },
  async "notepack.io"() {
    return functions((await import("notepack.io")).default);
  },
  async "msgpack-lite"() {
    return functions((await import("msgpack-lite")).default);
  },
  // Another format that has only documents: an array is the one field of an object.
  async "bson"() {
    const { serialize, deserialize } = await import("bson");
    const wrap = (v) => (Array.isArray(v) ? { v } : v);
    const unwrap = (o) => ("v" in o ? o.v : o);
    return { encode: (v) => serialize(wrap(v)), decode: (b) => unwrap(deserialize(b)) };
  },
  // Another format.
  async "cbor-x (native)"() {
    const cbor = await import("cbor-x");
    assert.ok(cbor.isNativeAccelerationEnabled);
    return functions(cbor);
  },
  async "JSON"() {
    return {
      encode: (v) => Buffer.from(JSON.stringify(v)),
      decode: (b) => JSON.parse(b.toString()),
    };
  },
};

const library = process.argv[2];
if (library === undefined) {
  console.log(JSON.stringify(Object.keys(libraries)));
} else {
  console.log(JSON.stringify(await measure(await libraries[library]())));
}

async function measure({ encode, decode }) {
  const work = [];
  for (const [name, value] of Object.entries({ ...sets, ...guards })) {
    const bytes = Buffer.from(encode(value));
    const exact = isDeepStrictEqual(JSON.parse(JSON.stringify(decode(bytes))), value);
    work.push({ name, kind: "encode", bytes: bytes.length, exact, run: () => encode(value) });
    work.push({ name, kind: "decode", bytes: bytes.length, exact, run: () => decode(bytes) });
  }
  for (const [name, values] of Object.entries(streams)) {
    const messages = values.map((value) => Buffer.from(encode(value)));
    const exact = isDeepStrictEqual(messages.map((bytes) => JSON.parse(JSON.stringify(decode(bytes)))), values);
    const bytes = Math.round(messages.reduce((sum, message) => sum + message.length, 0) / messages.length);
    const inTurn = (items, run) => {
      let at = 0;
      return () => run(items[(at = at + 1 < items.length ? at + 1 : 0)]);
    };
    work.push({ name, kind: "encode", bytes, exact, run: inTurn(values, encode) });
    work.push({ name, kind: "decode", bytes, exact, run: inTurn(messages, decode) });
  }
  // Run everything once before timing: engines specialize for the types that they have seen, as in programs.
  for (let round = 0; round < 2; round++) for (const job of work) sample(job, SAMPLE_MS);
  for (const job of work) sample(job, SAMPLE_MS * 3);
  const samples = work.map(() => []);
  for (let round = 0; round < SAMPLES; round++) work.forEach((job, i) => samples[i].push(sample(job, SAMPLE_MS)));
  return work.map(({ name, kind, bytes, exact }, i) => ({ set: name, kind, bytes, exact, ns: median(samples[i]) }));
}

function sample(job, ms) {
  const count = (job.count ??= calibrate(job.run, ms));
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) globalThis.sink = job.run();
  const { user, system } = process.cpuUsage(before);
  const ns = ((user + system) * 1000) / count;
  job.count = Math.max(1, Math.round((ms * 1e6) / Math.max(ns, 1)));
  return ns;
}

function calibrate(run, ms) {
  let count = 0;
  const until = performance.now() + ms;
  while (performance.now() < until) {
    globalThis.sink = run();
    count++;
  }
  return Math.max(1, count);
}

function median(values) {
  const sorted = values.toSorted ? values.toSorted((a, b) => a - b) : [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

