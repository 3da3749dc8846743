// Runs every library in separate processes, alternating, and prints the figures of each as JSON. The libraries are in a separate
// package: run `npm ci` in this folder.
//   node bench/run.js [--processes 3] [--only name,name]; SAMPLES and SAMPLE_MS as in worker.js
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const worker = fileURLToPath(new URL("./worker.js", import.meta.url));
const flag = (name, otherwise) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise);
const run = (...args) => JSON.parse(execFileSync(process.execPath, [worker, ...args], { encoding: "utf8" }));
const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url)));

const processes = Number(flag("--processes", "3"));
const names = flag("--only")?.split(",") ?? run();
const runs = Object.fromEntries(names.map((name) => [name, []]));
// Rounds over all libraries, so that other load on the machine affects all of them.
for (let round = 0; round < processes; round++) {
  for (const name of names) runs[name].push(run(name));
  console.error(`round ${round + 1} of ${processes}`);
}
const versions = { node: process.version, "@tautwire/msgpack": read("../package.json").version, ...read("package.json").dependencies };
console.log(JSON.stringify({ versions, runs }));
