// Runs every library in a process of its own and writes the table and the raw numbers.
// Its peers are in a package of their own: `npm ci` in this folder, which `npm run bench` does.
//   node bench/run.js [--processes 3] [--only name,name] [--write]
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import os from "node:os";
import { fileURLToPath } from "node:url";

const OUTPUT = new URL("../../../../../bench/results/typescript/msgpack.json", import.meta.url);
const worker = fileURLToPath(new URL("./worker.js", import.meta.url));
const flag = (name, otherwise) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise);
const processes = Number(flag("--processes", "3"));
const names = flag("--only")?.split(",") ?? JSON.parse(execFileSync(process.execPath, [worker], { encoding: "utf8" }));

const runs = Object.fromEntries(names.map((name) => [name, []]));
// Rounds over all libraries, so that a busy moment of the machine meets all of them.
for (let i = 0; i < processes; i++) {
  for (const name of names) runs[name].push(JSON.parse(execFileSync(process.execPath, [worker, name], { encoding: "utf8" })));
}
const results = {};
for (const name of names) {
  results[name] = runs[name][0].map((row, i) => ({ ...row, ns: Math.round(median(runs[name].map((run) => run[i].ns)) * 10) / 10 }));
}

const base = "JSON" in results ? "JSON" : names[0];
const summary = {};
for (const kind of ["encode", "decode"]) {
  const reference = results[base].filter((row) => row.kind === kind);
  console.log(`\n${kind}: times as fast as ${base}, CPU time (first line: ${base}, ns)`);
  console.log(`| |${reference.map((row) => ` ${row.set} |`).join("")} geometric mean |`);
  console.log(`|---|${reference.map(() => "---|").join("")}---|`);
  console.log(`| ns |${reference.map((row) => ` ${row.ns} |`).join("")} |`);
  for (const name of names) {
    const ratios = results[name].filter((row) => row.kind === kind).map((row, i) => reference[i].ns / row.ns);
    const mean = geometricMean(ratios.slice(0, 7));
    (summary[name] ??= {})[kind] = Math.round(mean * 100) / 100;
    console.log(`| ${name} |${ratios.map((ratio) => ` ${ratio.toFixed(2)} |`).join("")} ${mean.toFixed(2)} |`);
  }
}
const inexact = names.flatMap((name) => {
  const sets = results[name].filter((row) => row.kind === "decode" && !row.exact).map((row) => row.set);
  return sets.length ? [`${name} (${sets.join(", ")})`] : [];
});
console.log(`\nround trips that change the value: ${inexact.join("; ") || "none"}`);
if (process.argv.includes("--write")) {
  mkdirSync(new URL(".", OUTPUT), { recursive: true });
  const meta = {
    what: "CPU nanoseconds per operation, median of samples within a process, then of processes; one library per process",
    means: `geometric mean over the seven sets of how many times as fast as ${base}; 'random keys' is outside of it`,
    node: process.version,
    cpu: os.cpus()[0].model,
    processes,
    load_before: os.loadavg()[0],
    date: new Date().toISOString().slice(0, 10),
  };
  writeFileSync(OUTPUT, `${JSON.stringify({ meta, summary, results }, null, 1)}\n`);
}

function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}

function geometricMean(values) {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}
