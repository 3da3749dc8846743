// Compares this package with mqtt-packet and prints the figures of each round as JSON. ROUNDS (3) processes for each library,
// alternating; each figure is the median of SAMPLES (7). COUNT (10,000,000): packets of the long runs.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const ROUNDS = Number(process.env.ROUNDS ?? 3);
const SAMPLES = process.env.SAMPLES ?? "7";
const COUNT = process.env.COUNT ?? "10000000";
const here = new URL("./", import.meta.url);
const NAMES = ["tautwire", "mqtt-packet"];

function run(script, ...args) {
  return JSON.parse(execFileSync(process.execPath, [fileURLToPath(new URL(script, here)), ...args], { encoding: "utf8" }));
}

const runs = Object.fromEntries(NAMES.map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round++) {
  for (const name of NAMES) runs[name].push(run("one.mjs", name, SAMPLES));
  console.error(`round ${round + 1} of ${ROUNDS}`);
}
const millions = Object.fromEntries(
  ["decode", "encode"].map((way) => [way, Object.fromEntries(NAMES.map((name) => [name, run("millions.mjs", name, way, COUNT)]))]),
);

const require = createRequire(import.meta.url);
const versions = {
  node: process.version,
  "@tautwire/mqtt-codec": JSON.parse(readFileSync(new URL("../package.json", here))).version,
  "mqtt-packet": require("mqtt-packet/package.json").version,
};
console.log(JSON.stringify({ versions, samples: Number(SAMPLES), packets_of_long_runs: Number(COUNT), runs, millions }));
