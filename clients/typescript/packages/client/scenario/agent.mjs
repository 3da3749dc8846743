// The TypeScript agent for the scenarios: `agent.mjs ADDRESS`. tests/scenario/README.md describes its input and output.

import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import process from "node:process";
import { connect, createClient, request, respond, ResponseFailure } from "@tautwire/client";

const STDOUT = 1;
/** The first delay between attempts, unless the maximum is shorter. */
const MIN_DELAY_MS = 500;

const address = process.argv[2];
let client;
let timeoutMs;
let queueMessages;
/** The subscriptions, newest last. */
const subscriptions = [];
/** Messages that wait for the command `acknowledge`, by payload. */
const held = new Map();
/** The running commands. */
const running = new Set();

function print(...words) {
  writeSync(STDOUT, `${words.filter((word) => word !== undefined).join(" ")}\n`);
}

const hex = (reason) => (reason === undefined ? undefined : `0x${reason.toString(16).padStart(2, "0")}`);

function settings(words) {
  const given = new Map(words.map((word) => [word.split("=", 1)[0], word.slice(word.indexOf("=") + 1)]));
  const number = (name) => (given.has(name) ? Number(given.get(name)) : undefined);
  const maxDelayMs = number("attempts_ms");
  timeoutMs = number("timeout_ms");
  queueMessages = number("queue");
  return {
    clientId: given.get("client"),
    protocolVersion: number("version"),
    sessionExpiryS: number("expiry"),
    cleanStart: given.has("resume") ? false : undefined,
    userName: given.get("user"),
    password: given.get("password"),
    connectTimeoutMs: number("connect_ms"),
    reconnect: maxDelayMs === undefined ? undefined : { minDelayMs: Math.min(MIN_DELAY_MS, maxDelayMs), maxDelayMs },
  };
}

/** Prints events of the connection. */
function watch() {
  let lost;
  client.on("connected", ({ sessionPresent }) => print("connected", Number(sessionPresent)));
  client.on("disconnected", ({ error }) => (lost = error));
  client.on("reconnecting", ({ error }) => {
    print(error === lost ? "disconnected" : "attempt", error.code, hex(error.reason));
  });
  client.on("closed", ({ error }) => {
    if (error !== null) print("ended", error.code, hex(error.reason));
  });
  client.on("held_up", ({ subscription }) => print("held_up", ...subscription.filters));
  client.on("error", ({ code, detail, reason }) => {
    if (code === "subscribe_refused") print("lost", detail, code, hex(reason));
  });
}

/** Prints each message, which is acknowledged when this returns, unless it is held. */
function receive({ topic, qos, retain, payload }) {
  print("message", topic, qos, Number(retain), Buffer.from(payload).toString());
}

function hold(message) {
  held.set(message.text(), message);
  receive(message);
}

/** Fails on the first message of a subscription. */
async function stumble(subscription) {
  let payload;
  try {
    for await (const message of subscription) {
      receive(message);
      payload = message.text();
      throw new Error("stumbled");
    }
  } catch {
    print("stumbled", payload);
  }
}

async function subscribed(subscription) {
  const [filter] = subscription.filters;
  const qos = await subscription.ready;
  subscriptions.push(subscription);
  print("subscribed", filter, qos);
}

/** The rest of a line after `count` words. */
const rest = (words, count) => words.slice(count).join(" ");

const RESPONDERS = {
  echo: () => ({ payload }) => payload,
  failure: (text) => () => {
    throw new ResponseFailure(text);
  },
  crash: (text) => () => {
    throw new Error(text);
  },
};

const COMMANDS = {
  async connect(words) {
    client = await connect(address, settings(words));
    print("connected", Number(client.connack.sessionPresent));
    watch();
  },
  start(words) {
    client = createClient(address, settings(words));
    watch();
  },
  subscribe: ([qos, ...words]) => subscribed(client.subscribe(rest(words, 0), { qos: Number(qos) }, receive)),
  hold: ([qos, ...words]) => subscribed(client.subscribe(rest(words, 0), { qos: Number(qos), ack: "manual" }, hold)),
  stall: ([qos, ...words]) =>
    subscribed(client.subscribe(rest(words, 0), { qos: Number(qos), maxQueueMessages: queueMessages }, () => new Promise(() => undefined))),
  async stumble([qos, ...words]) {
    const subscription = client.subscribe(rest(words, 0), { qos: Number(qos) });
    void stumble(subscription);
    print("subscribed", rest(words, 0), await subscription.ready);
  },
  acknowledge(words) {
    const payload = rest(words, 0);
    held.get(payload).acknowledge();
    print("acknowledged", payload);
  },
  async unsubscribe(words) {
    const filter = rest(words, 0);
    const at = subscriptions.findLastIndex(({ filters }) => filters[0] === filter);
    if (at < 0) throw new Error("unknown");
    const [subscription] = subscriptions.splice(at, 1);
    await subscription.unsubscribe();
    print("unsubscribed", filter);
  },
  async publish([qos, topic, ...words]) {
    const payload = rest(words, 0);
    try {
      const { reason } = await client.publish(topic, payload, { qos: Number(qos) });
      print("published", payload, hex(reason));
    } catch ({ code, reason }) {
      print("failed publish", code, hex(reason), payload);
    }
  },
  respond: ([filter, kind, ...words]) => subscribed(respond(client, filter, RESPONDERS[kind](rest(words, 0)))),
  async request([qos, topic, ...words]) {
    const response = await request(client, topic, rest(words, 0), { qos: Number(qos), timeoutMs });
    print("response", response.text());
  },
  async close() {
    await client.close();
    print("closed");
  },
};

/** Runs a command and prints its failure. */
async function run([command, ...words]) {
  try {
    await COMMANDS[command](words);
  } catch (error) {
    const said = (error.code === "request_failed" && error.detail) || undefined;
    print("failed", command, error.code ?? error.message, hex(error.reason), said);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const words = line.split(" ");
  const command = run(words);
  running.add(command);
  void command.finally(() => running.delete(command));
  // The following commands are for this client.
  if (words[0] === "connect") await command;
}
await client?.close();
await Promise.all(running);
