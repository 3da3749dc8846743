// Compares the mqtt-packet interface of this package with mqtt-packet: ratios of CPU time on the kinds of packets of cases.mjs. Both run
// in one process, alternating, and the minimum time counts, so that other load affects both alike.

import theirs from "mqtt-packet";
import { encode } from "@tautwire/mqtt-codec";
import ours from "@tautwire/mqtt-codec/mqtt-packet";
import { CASES } from "./cases.mjs";

const SAMPLES = Number(process.env.SAMPLES ?? 20);
const ROUNDS = 2000;
const options = { protocolVersion: 5 };
const kept = { value: null };

function cpuNs() {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
}

function runs(library) {
  return CASES.map(([title, packet]) => {
    const bytes = Buffer.from(encode(packet, 5));
    const parser = library.parser(options);
    parser.on("packet", (parsed) => (kept.value = parsed));
    parser.parse(bytes);
    const parsed = kept.value;
    return { title, decode: () => parser.parse(bytes), encode: () => (kept.value = library.generate(parsed, options)) };
  });
}

function time(once) {
  const start = cpuNs();
  for (let round = 0; round < ROUNDS; round++) once();
  return (cpuNs() - start) / ROUNDS;
}

const both = [runs(ours), runs(theirs)];
for (let turn = 0; turn < 5; turn++) for (const all of both) for (const one of all) for (const way of ["decode", "encode"]) time(one[way]);
for (const way of ["decode", "encode"]) {
  const ratios = CASES.map((_, at) => {
    const least = [Infinity, Infinity];
    for (let sample = 0; sample < SAMPLES; sample++) both.forEach((all, who) => (least[who] = Math.min(least[who], time(all[at][way]))));
    return least[1] / least[0];
  });
  ratios.forEach((ratio, at) => console.log(`${way} ${CASES[at][0]}: ${ratio.toFixed(1)}`));
  const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
  console.log(`${way}, geometric mean (least): ${mean.toFixed(1)} (${Math.min(...ratios).toFixed(1)})`);
}
