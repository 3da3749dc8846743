// Measures one library in a separate process and writes JSON: CPU time in ns per packet.

import { encode } from "@tautwire/mqtt-codec";
import { CASES, chunks, stream } from "./cases.mjs";
import { kept, LIBRARIES } from "./libraries.mjs";

const [name, samplesText = "9"] = process.argv.slice(2);
const SAMPLES = Number(samplesText);
const SAMPLE_NS = 8e6;

const library = await LIBRARIES[name]();
kept.sum = 0;

function cpuNs() {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
}

/** `run(rounds)` runs that many rounds of `packets` packets each. */
function measure(run, packets) {
  let rounds = 1;
  for (;;) {
    const start = cpuNs();
    run(rounds);
    const took = cpuNs() - start;
    if (took >= SAMPLE_NS / 2) {
      rounds = Math.max(1, Math.round((rounds * SAMPLE_NS) / took));
      break;
    }
    rounds *= 2;
  }
  const samples = [];
  for (let sample = 0; sample < SAMPLES; sample++) {
    const start = cpuNs();
    run(rounds);
    samples.push((cpuNs() - start) / rounds / packets);
  }
  samples.sort((a, b) => a - b);
  return samples[SAMPLES >> 1];
}

const repeat = (once) => (rounds) => {
  for (let round = 0; round < rounds; round++) once();
};

const cases = CASES.map(([title, packet]) => {
  const bytes = library.input(encode(packet, 5));
  return { title, bytes, packet: library.packet(bytes, 5) };
});

const feed = library.decoder(5);
const decodeRuns = cases.map(({ title, bytes }) => [title, repeat(() => feed(bytes))]);
const encodeRuns = cases.map(({ title, packet }) => [title, repeat(() => (kept.value = library.encode(packet, 5)))]);
const intoRuns = library.encodeInto
  ? cases.map(({ title, packet }) => [title, repeat(() => (kept.value = library.encodeInto(packet, 5)))])
  : [];

// All kinds of packets first, so that no case runs code that is specialized for it.
for (const runs of [decodeRuns, encodeRuns, intoRuns]) {
  for (let turn = 0; turn < 20; turn++) for (const [, run] of runs) run(500);
}

const results = { decode: {}, encode: {}, encodeInto: {}, stream: {} };
for (const [title, run] of decodeRuns) results.decode[title] = measure(run, 1);
for (const [title, run] of encodeRuns) results.encode[title] = measure(run, 1);
for (const [title, run] of intoRuns) results.encodeInto[title] = measure(run, 1);

const SIZES = { "1 MB": Infinity, "64 KB": 65_536, "1460 B": 1460, "16 B": 16 };
for (const topics of [50, 20_000]) {
  for (const version of [4, 5]) {
    const { bytes, count } = stream(encode, version, topics);
    for (const [size, average] of Object.entries(SIZES)) {
      const pieces = chunks(library.input(bytes), average);
      const ways = { full: library.decoder, lazy: library.frames, "lazy with topic": library.framesWithTopic };
      for (const [way, make] of Object.entries(ways)) {
        if (!make) continue;
        const take = make(version);
        const run = repeat(() => {
          let got = 0;
          for (const piece of pieces) got += take(piece);
          if (got !== count) throw new Error(`${got} packets in place of ${count}`);
        });
        run(3);
        results.stream[`${topics} topics, v${version}, ${size}, ${way}`] = measure(run, count);
      }
    }
  }
}
console.log(JSON.stringify(results));
