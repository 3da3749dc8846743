// Compares this package with MQTT.js over the broker of this repository and writes bench/results/typescript/client.{json,md}.
// ROUNDS (5) of each, by turns; each number is the median. COUNT (400000): messages of a run; TRIPS (20000): round trips.

import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";

const ROUNDS = Number(process.env.ROUNDS ?? 5);
const COUNT = Number(process.env.COUNT ?? 400_000);
const TRIPS = Number(process.env.TRIPS ?? 20_000);
const here = new URL("./", import.meta.url);
const root = new URL("../../../../../", here);
const results = new URL("bench/results/typescript/", root);
const binary = process.env.TAUTWIRE_BIN ?? fileURLToPath(new URL("bin/tautwire", root));

const processes = new Set();
process.on("exit", () => {
  for (const child of processes) child.kill();
});

function start(script, ...args) {
  const child = fork(fileURLToPath(new URL(script, here)), args.map(String));
  processes.add(child);
  child.once("exit", (code) => {
    processes.delete(child);
    if (code) throw new Error(`${script} ${args.join(" ")} ended with ${code}`);
  });
  return child;
}

/** The next message of a child. */
const said = async (child) => (await once(child, "message"))[0];

async function finished(child) {
  const message = await said(child);
  if (child.connected) child.disconnect();
  return message;
}

async function startBroker() {
  const broker = spawn(binary, ["serve", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "ignore"] });
  processes.add(broker);
  const [line] = await once(broker.stdout, "data");
  return Number(/mqtt:\/\/127\.0\.0\.1:(\d+)/.exec(String(line))[1]);
}

const port = await startBroker();

const TASKS = {
  async publish(library, version) {
    return finished(start("one.mjs", library, "publish", port, version, COUNT));
  },
  async publishAwaited(library, version) {
    return finished(start("one.mjs", library, "publishAwaited", port, version, COUNT / 4));
  },
  async receive(library, version, way = "receive") {
    const feeder = start("one.mjs", "tautwire", "feed", port, 5, COUNT);
    await said(feeder);
    const receiver = start("one.mjs", library, way, port, version, COUNT);
    await said(receiver);
    feeder.send("go");
    const result = await finished(receiver);
    feeder.disconnect();
    return result;
  },
  async iterate(library, version) {
    return TASKS.receive(library, version, "iterate");
  },
  async pingSelf(library, version) {
    return finished(start("one.mjs", library, "pingSelf", port, version, TRIPS));
  },
  async pingPeer(library, version) {
    const peer = start("one.mjs", library, "echo", port, version, 0);
    await said(peer);
    const result = await finished(start("one.mjs", library, "pingPeer", port, version, TRIPS));
    peer.disconnect();
    return result;
  },
};

const RAW = {
  async pingSelf() {
    const relay = start("raw.mjs", "relay");
    const { port: at } = await said(relay);
    const result = await finished(start("raw.mjs", "ping", at, TRIPS));
    relay.disconnect();
    return result;
  },
  async pingPeer() {
    const relay = start("raw.mjs", "pass");
    const { port: at } = await said(relay);
    const peer = start("raw.mjs", "echo", at);
    const result = await finished(start("raw.mjs", "pingThrough", at, TRIPS));
    peer.disconnect();
    relay.disconnect();
    return result;
  },
};

const runs = {};
const loads = [loadavg()[0]];
async function record(title, library, version, run) {
  ((runs[title] ??= {})[version ? `${library} v${version}` : library] ??= []).push(await run());
}
for (let round = 0; round < ROUNDS; round++) {
  for (const title of Object.keys(TASKS)) {
    for (const version of [5, 4]) {
      for (const library of ["tautwire", "mqttjs"]) {
        if (title === "iterate" && library === "mqttjs") continue;
        await record(title, library, version, () => TASKS[title](library, version));
      }
    }
    if (RAW[title]) await record(title, "raw", 0, RAW[title]);
  }
  loads.push(loadavg()[0]);
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const perCpuSecond = (samples) => median(samples.map(({ count, cpu_s }) => count / cpu_s));
const perSecond = (samples) => median(samples.map(({ count, wall_s }) => count / wall_s));

const summary = {};
const lines = [
  "# @tautwire/client beside MQTT.js",
  "",
  `QoS 0, 16 bytes. ${cpus()[0].model}, ${cpus().length} cores, Node.js ${process.version}, ${new Date().toISOString().slice(0, 10)}.`,
  `The broker is that of this repository. Each library in a process of its own, ${ROUNDS} by turns, medians. Load average`,
  `meanwhile: ${loads.map((load) => load.toFixed(1)).join(", ")}. Made by \`npm run bench\` in clients/typescript/packages/client.`,
  "",
  "## Messages per second of the client's CPU time",
  "",
  "| | tautwire | MQTT.js | ratio |",
  "|---|--:|--:|--:|",
];
const NAMES = {
  publish: "publish, without a promise each",
  publishAwaited: "publish, each awaited",
  receive: "receive, by a callback",
  iterate: "receive, by `for await` (MQTT.js: its callback)",
};
const thousands = (value) => Math.round(value / 1000).toLocaleString("en") + " k";
for (const [title, name] of Object.entries(NAMES)) {
  for (const version of [5, 4]) {
    const ours = perCpuSecond(runs[title][`tautwire v${version}`]);
    const theirs = perCpuSecond(runs[title === "iterate" ? "receive" : title][`mqttjs v${version}`]);
    summary[`${title} v${version}`] = { tautwire: ours, mqttjs: theirs, ratio: ours / theirs };
    const label = version === 5 ? "MQTT 5.0" : "3.1.1";
    lines.push(`| ${name}, ${label} | ${thousands(ours)} | ${thousands(theirs)} | ${(ours / theirs).toFixed(1)} |`);
  }
}
lines.push(
  "",
  "## Round trips per second, one at a time",
  "",
  "Raw: sockets of Node.js with 40 bytes, through a process of Node.js in the broker's place.",
  "",
  "| | tautwire | MQTT.js | raw | tautwire / raw | MQTT.js / raw |",
  "|---|--:|--:|--:|--:|--:|",
);
for (const [title, name] of [
  ["pingSelf", "through the broker, to itself"],
  ["pingPeer", "through the broker, to another process and back"],
]) {
  const raw = perSecond(runs[title].raw);
  for (const version of [5, 4]) {
    const ours = perSecond(runs[title][`tautwire v${version}`]);
    const theirs = perSecond(runs[title][`mqttjs v${version}`]);
    summary[`${title} v${version}`] = { tautwire: ours, mqttjs: theirs, raw, ratio: ours / raw };
    const cells = [ours, theirs, raw].map((value) => Math.round(value).toLocaleString("en"));
    const label = version === 5 ? "MQTT 5.0" : "3.1.1";
    lines.push(`| ${name}, ${label} | ${cells.join(" | ")} | ${(ours / raw).toFixed(2)} | ${(theirs / raw).toFixed(2)} |`);
  }
}

const require = createRequire(import.meta.url);
const conditions = {
  date: new Date().toISOString().slice(0, 10),
  node: process.version,
  cpu: cpus()[0].model,
  cores: cpus().length,
  load_average: loads.map((load) => Number(load.toFixed(1))),
  rounds: ROUNDS,
  messages: COUNT,
  round_trips: TRIPS,
  versions: {
    "@tautwire/client": JSON.parse(readFileSync(new URL("../package.json", here))).version,
    mqtt: require("mqtt/package.json").version,
  },
};
if (process.env.DRY === undefined) {
  mkdirSync(results, { recursive: true });
  writeFileSync(new URL("client.json", results), `${JSON.stringify({ conditions, summary, runs }, null, 1)}\n`);
  writeFileSync(new URL("client.md", results), `${lines.join("\n")}\n`);
}
console.log(lines.join("\n"));
process.exit();
