// Compares this package with MQTT.js over the broker of this repository and prints the figures of each round as JSON.
// ROUNDS (5) of each, alternating. COUNT (400000): messages of a run; TRIPS (20000): round trips.

import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const ROUNDS = Number(process.env.ROUNDS ?? 5);
const COUNT = Number(process.env.COUNT ?? 400_000);
const TRIPS = Number(process.env.TRIPS ?? 20_000);
const here = new URL("./", import.meta.url);
const root = new URL("../../../../../", here);
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

/** Resolves with the next message of a child process. */
const said = async (child) => (await once(child, "message"))[0];

async function finished(child) {
  const message = await said(child);
  if (child.connected) child.disconnect();
  return message;
}

async function startBroker() {
  const broker = spawn(binary, ["serve", "--memory", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "ignore"] });
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
  console.error(`round ${round + 1} of ${ROUNDS}`);
}

const require = createRequire(import.meta.url);
const versions = {
  node: process.version,
  "@tautwire/client": JSON.parse(readFileSync(new URL("../package.json", here))).version,
  mqtt: require("mqtt/package.json").version,
};
console.log(JSON.stringify({ versions, messages: COUNT, round_trips: TRIPS, payload_bytes: 16, runs }));
process.exit();
