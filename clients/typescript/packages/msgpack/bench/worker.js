// Measures one library in one process: CPU nanoseconds per operation, as JSON on standard output.
import assert from "node:assert/strict";
import { guards, sets } from "./data.js";

const SAMPLE_MS = Number(process.env.SAMPLE_MS ?? 10);
const SAMPLES = Number(process.env.SAMPLES ?? 9);

const libraries = {
  async "tautwire"() {
    const { encode, decode } = await import("@tautwire/msgpack");
    return { encode: (v) => encode(v), decode: (b) => decode(b) };
  },
  async "tautwire (generate off)"() {
    const { Encoder, Decoder } = await import("@tautwire/msgpack");
    const encoder = new Encoder({ generate: false });
    const decoder = new Decoder({ generate: false });
    return { encode: (v) => encoder.encode(v), decode: (b) => decoder.decode(b) };
  },
  async "msgpackr (JS)"() {
    process.env.MSGPACKR_NATIVE_ACCELERATION_DISABLED = "true";
    const { pack, unpack } = await import("msgpackr");
    return { encode: (v) => pack(v), decode: (b) => unpack(b) };
  },
  async "msgpackr (native)"() {
    const { pack, unpack, isNativeAccelerationEnabled } = await import("msgpackr");
    assert.ok(isNativeAccelerationEnabled);
    return { encode: (v) => pack(v), decode: (b) => unpack(b) };
  },
  async "@msgpack/msgpack"() {
    const { Encoder, Decoder } = await import("@msgpack/msgpack");
    const encoder = new Encoder();
    const decoder = new Decoder();
    return { encode: (v) => encoder.encode(v), decode: (b) => decoder.decode(b) };
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
    assert.deepEqual(decode(bytes), value);
    work.push({ name, kind: "encode", bytes: bytes.length, run: () => encode(value) });
    work.push({ name, kind: "decode", bytes: bytes.length, run: () => decode(bytes) });
  }
  // Everything once before anything is timed: engines specialise for what they have seen, as they do in programs.
  for (let round = 0; round < 2; round++) for (const job of work) sample(job, SAMPLE_MS);
  for (const job of work) sample(job, SAMPLE_MS * 3);
  const samples = work.map(() => []);
  for (let round = 0; round < SAMPLES; round++) work.forEach((job, i) => samples[i].push(sample(job, SAMPLE_MS)));
  return work.map(({ name, kind, bytes }, i) => ({ set: name, kind, bytes, ns: median(samples[i]) }));
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

