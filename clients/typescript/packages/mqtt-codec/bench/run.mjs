// Compares this package with mqtt-packet and writes bench/results/typescript/mqtt-codec.{json,md}.
// ROUNDS (3) processes for each library by turns; each number is the median of their medians of SAMPLES (7).

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";

const ROUNDS = Number(process.env.ROUNDS ?? 3);
const SAMPLES = process.env.SAMPLES ?? "7";
const here = new URL("./", import.meta.url);
const results = new URL("../../../../../bench/results/typescript/", import.meta.url);
const OURS = "tautwire";
const PEER = "mqtt-packet";

function run(script, ...args) {
  return JSON.parse(execFileSync(process.execPath, [fileURLToPath(new URL(script, here)), ...args], { encoding: "utf8" }));
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const geomean = (values) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

function merge(runs) {
  const merged = {};
  for (const group of Object.keys(runs[0])) {
    merged[group] = {};
    for (const title of Object.keys(runs[0][group])) merged[group][title] = median(runs.map((one) => one[group][title]));
  }
  return merged;
}

const loads = [loadavg()[0]];
const runs = { [OURS]: [], [PEER]: [] };
for (let round = 0; round < ROUNDS; round++) {
  for (const name of [OURS, PEER]) runs[name].push(run("one.mjs", name, SAMPLES));
  loads.push(loadavg()[0]);
}
const ns = { [OURS]: merge(runs[OURS]), [PEER]: merge(runs[PEER]) };
const millions = Object.fromEntries(
  ["decode", "encode"].map((way) => [
    way,
    Object.fromEntries([OURS, PEER].map((name) => [name, run("millions.mjs", name, way)])),
  ]),
);

const require = createRequire(import.meta.url);
const conditions = {
  date: new Date().toISOString().slice(0, 10),
  node: process.version,
  cpu: cpus()[0].model,
  cores: cpus().length,
  load_average: loads.map((load) => Number(load.toFixed(1))),
  rounds: ROUNDS,
  samples: Number(SAMPLES),
  unit: "ns of CPU time per packet, user and system",
  versions: {
    "@tautwire/mqtt-codec": JSON.parse(readFileSync(new URL("../package.json", here))).version,
    "mqtt-packet": require("mqtt-packet/package.json").version,
  },
};

const lines = [
  "# @tautwire/mqtt-codec against mqtt-packet",
  "",
  `CPU time in ns per packet. ${conditions.cpu}, ${conditions.cores} cores, Node.js ${conditions.node}, mqtt-packet`,
  `${conditions.versions["mqtt-packet"]}, ${conditions.date}. One process for each library, ${ROUNDS} by turns, medians. Load average meanwhile:`,
  `${conditions.load_average.join(", ")}. The decoders persist. Made by \`npm run bench\` in clients/typescript.`,
];
const ratios = {};

function table(title, group) {
  lines.push("", `## ${title}`, "", "| packet | tautwire | mqtt-packet | ratio |", "|---|--:|--:|--:|");
  const all = [];
  for (const name of Object.keys(ns[PEER][group === "encodeInto" ? "encode" : group])) {
    const ours = ns[OURS][group][name];
    const theirs = ns[PEER][group === "encodeInto" ? "encode" : group][name];
    all.push(theirs / ours);
    lines.push(`| ${name} | ${ours.toFixed(0)} | ${theirs.toFixed(0)} | ${(theirs / ours).toFixed(1)} |`);
  }
  ratios[group] = { geomean: geomean(all), least: Math.min(...all) };
  lines.push(`| **geometric mean** | | | **${ratios[group].geomean.toFixed(1)}** |`);
}

table("Decode", "decode");
table("Encode, with a view of its own for each packet", "encode");
table("Encode into the caller's buffer", "encodeInto");

lines.push("", "## Streams of PUBLISH", "", "| stream | way | tautwire | mqtt-packet | ratio |", "|---|---|--:|--:|--:|");
ratios.stream = {};
for (const [title, ours] of Object.entries(ns[OURS].stream)) {
  const parts = title.split(", ");
  const way = parts.pop();
  const theirs = ns[PEER].stream[[...parts, "full"].join(", ")];
  ratios.stream[way] = Math.min(ratios.stream[way] ?? Infinity, theirs / ours);
  lines.push(`| ${parts.join(", ")} | ${way} | ${ours.toFixed(0)} | ${theirs.toFixed(0)} | ${(theirs / ours).toFixed(1)} |`);
}

lines.push("", "## Ten million PUBLISH", "", "| | tautwire | mqtt-packet |", "|---|--:|--:|");
for (const [way, { [OURS]: ours, [PEER]: theirs }] of Object.entries(millions)) {
  const cell = ({ cpu_s, max_rss_mb }) => `${cpu_s.toFixed(2)} s, ${max_rss_mb.toFixed(0)} MB at most`;
  lines.push(`| ${way} | ${cell(ours)} | ${cell(theirs)} |`);
}

mkdirSync(results, { recursive: true });
writeFileSync(new URL("mqtt-codec.json", results), `${JSON.stringify({ conditions, ratios, ns, millions, runs }, null, 1)}\n`);
writeFileSync(new URL("mqtt-codec.md", results), `${lines.join("\n")}\n`);
console.log(lines.join("\n"));
