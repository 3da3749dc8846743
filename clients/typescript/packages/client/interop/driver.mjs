// Tests this client with any broker: `driver.mjs HOST PORT [CASE…]` or `driver.mjs --list`. Prints
// `ok NAME` or `FAIL NAME: reason` for each case.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { connect } from "@tautwire/client";

const CASE_TIMEOUT_MS = 20_000;

/** One run of one case: unique names, and clients that are closed at its end. */
class Context {
  #tag = randomBytes(6).toString("hex");
  #clients = [];

  constructor(url, protocolVersion) {
    this.url = url;
    this.protocolVersion = protocolVersion;
  }

  topic(suffix) {
    return `interop/${this.#tag}/${suffix}`;
  }

  clientId(suffix) {
    return `tw${this.#tag}${suffix}`;
  }

  async connect(options = {}) {
    const { protocolVersion } = this;
    const client = await connect(this.url, { protocolVersion, reconnect: { minDelayMs: 20, maxDelayMs: 500 }, ...options });
    this.#clients.push(client);
    return client;
  }

  async cleanUp() {
    await Promise.all(this.#clients.map((client) => client.close({ drainMs: 0 })));
  }
}

/** A subscription whose messages are read one by one. */
async function receive(client, filter, options) {
  const subscription = client.subscribe(filter, options);
  await subscription.ready;
  const loop = subscription[Symbol.asyncIterator]();
  return { next: async () => (await loop.next()).value, unsubscribe: () => subscription.unsubscribe() };
}

async function connects(context) {
  const client = await context.connect({ clientId: context.clientId("c") });
  assert.equal(client.state, "connected");
  assert.equal(client.connack.reason, 0);
  assert.equal(client.connack.sessionPresent, false);
  await client.close();
  assert.equal(client.state, "closed");
}

/** Checks that a hundred messages arrive once each, in order, with that QoS. */
const delivers = (qos) => async (context) => {
  const topic = context.topic("t");
  const [sender, receiver] = await Promise.all([context.connect(), context.connect()]);
  const messages = await receive(receiver, topic, { qos });
  const sent = [];
  for (let n = 0; n < 100; n++) sent.push(sender.publish(topic, `message ${n}`, { qos }));
  await Promise.all(sent);
  await sender.publish(topic, "fence", { qos });
  for (let n = 0; n < 100; n++) {
    const message = await messages.next();
    assert.equal(message.text(), `message ${n}`);
    assert.equal(message.qos, qos);
    assert.equal(message.retain, false);
  }
  assert.equal((await messages.next()).text(), "fence");
};

async function retains(context) {
  const topic = context.topic("retained");
  const client = await context.connect();
  await client.publish(topic, "old", { qos: 1, retain: true });
  await client.publish(topic, "kept", { qos: 1, retain: true });
  const messages = await receive(client, topic, { qos: 1 });
  const first = await messages.next();
  assert.equal(first.text(), "kept");
  assert.equal(first.retain, true);
  await client.publish(topic, "live", { qos: 1 });
  const live = await messages.next();
  assert.equal(live.text(), "live");
  assert.equal(live.retain, false);
  await client.publish(topic, "", { qos: 1, retain: true });
  assert.equal((await messages.next()).payload.length, 0);
  await messages.unsubscribe();
  const again = await receive(client, topic, { qos: 1 });
  await client.publish(topic, "fence", { qos: 1 });
  assert.equal((await again.next()).text(), "fence");
}

async function leavesAWill(context) {
  const topic = context.topic("will");
  const watcher = await context.connect();
  const messages = await receive(watcher, topic, { qos: 1 });
  const polite = await context.connect({ will: { topic, payload: "wrong", qos: 1 } });
  await polite.close();
  const doomed = await context.connect({ will: { topic, payload: "gone", qos: 1 }, reconnect: false, sessionExpiryS: 0 });
  doomed.cut();
  const will = await messages.next();
  assert.equal(will.text(), "gone");
  assert.equal(will.qos, 1);
}

async function comesBack(context) {
  const topic = context.topic("session");
  const sender = await context.connect();
  const receiver = await context.connect({
    clientId: context.clientId("r"),
    cleanStart: context.protocolVersion === 5,
    sessionExpiryS: 60,
    reconnect: { minDelayMs: 500, maxDelayMs: 500 },
  });
  const messages = await receive(receiver, topic, { qos: 1 });
  const back = new Promise((resolve) => receiver.on("connected", resolve));
  receiver.cut();
  assert.equal(receiver.state, "waiting");
  await sender.publish(topic, "meanwhile", { qos: 1 });
  assert.equal((await back).sessionPresent, true);
  assert.equal((await messages.next()).text(), "meanwhile");
  await sender.publish(topic, "fence", { qos: 1 });
  assert.equal((await messages.next()).text(), "fence");
  await receiver.close();
}

async function carriesProperties(context) {
  const topic = context.topic("properties");
  const client = await context.connect();
  const identified = client.connack.properties.subscriptionIdentifierAvailable !== false;
  const messages = await receive(client, topic, { qos: 1, ...(identified && { subscriptionIdentifier: 4711 }) });
  const properties = {
    payloadFormatIndicator: 1,
    contentType: "text/plain",
    responseTopic: context.topic("answer"),
    correlationData: Uint8Array.of(0, 1, 254, 255),
    userProperties: [
      ["b", "1"],
      ["a", "2"],
      ["b", "3"],
      ["", "ü"],
    ],
  };
  // QoS 0, because one broker answers user properties with an invalid PUBACK.
  await client.publish(topic, "text", { qos: 0, properties: { ...properties, messageExpiryInterval: 600 } });
  const { properties: got } = await messages.next();
  const { messageExpiryInterval, subscriptionIdentifiers, ...rest } = got;
  assert.deepEqual({ ...rest, correlationData: Uint8Array.from(rest.correlationData) }, properties);
  assert.ok(messageExpiryInterval > 590 && messageExpiryInterval <= 600, `expiry ${messageExpiryInterval}`);
  if (identified) assert.deepEqual(subscriptionIdentifiers, [4711]);
}

const COMMON = {
  connect: connects,
  qos0: delivers(0),
  qos1: delivers(1),
  qos2: delivers(2),
  retained: retains,
  will: leavesAWill,
  reconnect: comesBack,
};

const CASES = {};
for (const [name, body] of Object.entries(COMMON)) CASES[`v3_${name}`] = [4, body];
for (const [name, body] of Object.entries(COMMON)) CASES[`v5_${name}`] = [5, body];
CASES.v5_properties = [5, carriesProperties];

async function run(name, url) {
  const [version, body] = CASES[name];
  const context = new Context(url, version);
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${CASE_TIMEOUT_MS / 1000} s`)), CASE_TIMEOUT_MS);
  });
  try {
    await Promise.race([body(context), late]);
    console.log(`ok ${name}`);
    return true;
  } catch (error) {
    console.log(`FAIL ${name}: ${String(error.message).split("\n").join(" ").slice(0, 300)}`);
    return false;
  } finally {
    clearTimeout(timer);
    await context.cleanUp();
  }
}

async function main(args) {
  if (args.length === 1 && args[0] === "--list") {
    console.log(Object.keys(CASES).join("\n"));
    return 0;
  }
  const [host, port, ...chosen] = args;
  if (host === undefined || !/^\d+$/.test(port ?? "")) {
    console.error("usage: driver.mjs HOST PORT [CASE…] | --list");
    return 2;
  }
  const names = chosen.length > 0 ? chosen : Object.keys(CASES);
  const unknown = names.filter((name) => !Object.hasOwn(CASES, name));
  if (unknown.length > 0) {
    console.error(`no such case: ${unknown.join(", ")}`);
    return 2;
  }
  let failed = 0;
  const authority = host.includes(":") ? `[${host}]` : host;
  for (const name of names) {
    if (!(await run(name, `mqtt://${authority}:${port}`))) failed++;
  }
  return failed === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
