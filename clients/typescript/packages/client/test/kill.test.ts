// Processes with a store that are killed, while the broker is killed, too.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FileStore } from "@tautwire/client/file-store";
import type { Client } from "@tautwire/client";
import { connect, createClient } from "./support/clients.js";
import { temporaryFolder } from "./support/folder.js";
import { MortalBroker } from "./support/mortal-broker.js";
import { noBroker } from "./support/real-broker.js";
import { within } from "./support/waiting.js";

/** The number of kills; TAUTWIRE_KILLS sets it. */
const KILLS = Number(process.env["TAUTWIRE_KILLS"] ?? 6);
const SEED = Number(process.env["TAUTWIRE_SEED"] ?? Date.now() % 100_000);
const LIMIT_MS = 60_000;
const PROGRAM = fileURLToPath(new URL("support/killed.js", import.meta.url));
const FAST = { minDelayMs: 5, maxDelayMs: 20 };

const folder = temporaryFolder();

/** A generator of pseudo-random numbers below 1, reproducible by its seed. */
function randomBy(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return state / 0x8000_0000;
  };
}

/** Runs the program until it has printed `count` lines, and passes each line to the function. */
async function live(words: readonly string[], lines: number, onLine: (word: string, number: number) => void): Promise<void> {
  const child = spawn(process.execPath, [PROGRAM, ...words], { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
  const exit = once(child, "exit") as Promise<[number | null, string | null]>;
  let count = 0;
  for await (const line of createInterface(child.stdout)) {
    const [word, number] = line.split(" ");
    onLine(word!, Number(number));
    // Read all output that it printed before it was killed.
    if (++count === lines) child.kill("SIGKILL");
  }
  const [, signal] = await within(exit, "end of the program", LIMIT_MS);
  assert.equal(signal, "SIGKILL", log);
}

/** Collects the received numbers across restarts of the broker. */
async function witness(url: string): Promise<{ client: Client; numbers: number[]; until: (number: number) => Promise<void> }> {
  const client = await connect(url, { clientId: "witness", sessionExpiryS: 600, reconnect: FAST });
  const numbers: number[] = [];
  let look = (): void => undefined;
  await client.subscribe("numbers", { qos: 2 }, (message) => {
    numbers.push(Number(message.text()));
    look();
  }).ready;
  const until = (number: number) =>
    within(
      new Promise<void>((resolve) => {
        look = () => {
          if (numbers.includes(number)) resolve();
        };
        look();
      }),
      `number ${number}`,
      LIMIT_MS,
    );
  return { client, numbers, until };
}

for (const version of ["5", "4"]) {
  test(`nothing is lost and QoS 2 arrives once, though publisher and broker are killed (MQTT ${version})`, { skip: noBroker }, async (t) => {
    const random = randomBy(SEED);
    const broker = await MortalBroker.start(join(folder, `data ${version}`));
    t.after(() => broker.stop());
    const { numbers, until } = await witness(broker.url);
    const path = join(folder, `session ${version}`);
    const acknowledged = new Set<number>();
    const stored = new Set<number>();
    let first = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      let restart: Promise<void> | undefined;
      const lines = 1 + Math.floor(random() * 300);
      const brokerDiesAt = kill % 2 === 0 ? Math.floor(random() * lines) : -1;
      let count = 0;
      await live(["publish", broker.url, path, version, String(first)], lines, (word, number) => {
        if (word === "publishing") first = Math.max(first, number + 1);
        else if (word === "stored") stored.add(number);
        else acknowledged.add(number);
        if (count++ === brokerDiesAt) restart = broker.kill();
      });
      await restart;
    }
    const store = await FileStore.open(path);
    const client = createClient(broker.url, { clientId: "killed", store, protocolVersion: version === "4" ? 4 : 5, reconnect: FAST });
    const lost: string[] = [];
    client.on("error", (error) => lost.push(error.message));
    const last = first + (first % 2);
    await within(client.publish("numbers", String(last), { qos: 2 }), "answer", LIMIT_MS);
    await until(last);
    await client.close();
    assert.deepEqual(lost, []);
    const arrived = new Set(numbers);
    const missing = [...stored, ...acknowledged].filter((number) => !arrived.has(number));
    assert.deepEqual(missing, [], `seed ${SEED}`);
    const twice = numbers.filter((number, at) => number % 2 === 0 && numbers.indexOf(number) !== at);
    assert.deepEqual(twice, [], `seed ${SEED}`);
    assert.ok(acknowledged.size > 0 && stored.size > acknowledged.size);
  });
}

test("an accepted QoS 2 message is not delivered to the next process", { skip: noBroker }, async (t) => {
  const COUNT = 40;
  const random = randomBy(SEED);
  const broker = await MortalBroker.start(join(folder, "data of the receiver"));
  t.after(() => broker.stop());
  const publisher = await connect(broker.url, { clientId: "publisher", reconnect: FAST });
  const got = new Set<number>();
  const kept = new Set<number>();
  const again: number[] = [];
  let isPublished = false;
  while (got.size < COUNT) {
    // At least this many must have been published.
    const lines = Math.min(2 + Math.floor(random() * 25), 1 + COUNT - got.size);
    await live(["receive", broker.url, join(folder, "session of the receiver"), "5", "0"], lines, (word, number) => {
      if (word === "kept") kept.add(number);
      if (word === "got") {
        got.add(number);
        if (kept.has(number)) again.push(number);
      }
      if (isPublished) return;
      isPublished = true;
      for (let n = 0; n < COUNT; n++) void publisher.publish("numbers", String(n), { qos: 2 });
    });
  }
  assert.deepEqual(again, [], `seed ${SEED}`);
  await publisher.close();
});
