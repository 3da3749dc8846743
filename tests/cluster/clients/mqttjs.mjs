// Clients of MQTT.js. `mqttjs.mjs FILE` reads their roles from a file, and commands from standard input.

import { readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// The interop tests install it there.
const mqtt = createRequire(new URL("../../interop/mqttjs/package.json", import.meta.url))("mqtt");

const FOR_EVER_S = 0xffffffff;
const LARGE_EVERY = 101;
const LARGE_BYTES = 20_000;
const FIRST_ERROR = 0x80;

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));

function say(who, what, more) {
  // Nanoseconds since boot soon exceed the integers that a JavaScript number can represent.
  const at = process.hrtime.bigint();
  const rest = JSON.stringify({ who, what, ...more });
  writeAll(`{"at":${at},${rest.slice(1)}\n`);
}

function writeAll(line) {
  let left = Buffer.from(line);
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(1, left));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

function payloadOf(topic, number) {
  const filler = number % LARGE_EVERY === 0 ? LARGE_BYTES : (number * 7919) % 97;
  return `${topic} ${number} ${".".repeat(filler)}`;
}

function numberOf(topic, payload) {
  const number = Number(payload.split(" ", 2)[1]);
  return payload === payloadOf(topic, number) ? number : null;
}

// A random number generator for each client, from the seed (mulberry32).
function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

class Client {
  constructor(spec, place) {
    this.spec = spec;
    this.random = randomFrom(config.seed + place);
    this.isLoaded = true;
    this.link = 0;
    this.underWay = 0;
    this.isSubscribed = false;
    this.sent = new Map();
    const isV5 = spec.version === 5;
    const brokers = [...config.brokers.slice(spec.home), ...config.brokers.slice(0, spec.home)];
    this.brokers = brokers;
    this.client = mqtt.connect({
      servers: brokers.map(({ host, port }) => ({ host, port, protocol: "mqtt" })),
      protocol: "mqtt",
      clientId: spec.who,
      clean: false,
      protocolVersion: spec.version,
      properties: isV5 ? { sessionExpiryInterval: FOR_EVER_S } : undefined,
      keepalive: 3,
      reconnectPeriod: 200,
      connectTimeout: 5_000,
      reconnectOnConnackError: true,
      resubscribe: false,
      // Otherwise the first CONNECT is sent before there is a listener.
      manualConnect: true,
    });
    this.client.on("packetsend", (packet) => this.onSend(packet));
    this.client.on("packetreceive", (packet) => this.onPacket(packet));
    this.client.on("message", (topic, payload, { qos }) => {
      say(spec.who, "message", { topic, number: numberOf(topic, payload.toString()), qos });
    });
    this.client.on("close", () => say(spec.who, "closed", { link: this.link }));
    // Later events report errors.
    this.client.on("error", () => {});
    this.client.connect();
    if (spec.topics) setInterval(() => this.publishOn(), 1_000 / spec.rate);
  }

  onSend(packet) {
    if (packet.cmd === "connect") {
      this.link += 1;
      const { host, port } = this.client.options;
      const broker = this.brokers.find((each) => each.host === host && each.port === port);
      say(this.spec.who, "connect", { link: this.link, to: broker.name, version: this.spec.version });
    }
  }

  onPacket(packet) {
    if (packet.cmd !== "connack") return;
    const { who, filter, qos } = this.spec;
    const reason = packet.reasonCode ?? packet.returnCode;
    if (reason !== 0) {
      say(who, "refused", { link: this.link, reason });
      return;
    }
    say(who, "connected", { link: this.link, present: packet.sessionPresent });
    if (!packet.sessionPresent) this.isSubscribed = false;
    if (filter && !this.isSubscribed) setImmediate(() => this.subscribe(filter, qos));
  }

  subscribe(filter, qos) {
    say(this.spec.who, "subscribe", { filter, qos });
    this.client.subscribe(filter, { qos }, (error, granted, packet) => {
      const reason = packet?.granted?.[0];
      if (reason === undefined) return;
      this.isSubscribed = true;
      say(this.spec.who, "subscribed", { filter, reason });
    });
  }

  publishOn() {
    if (this.isLoaded && this.client.connected && this.underWay < this.spec.window) {
      const { topics } = this.spec;
      this.publish(...topics[Math.floor(this.random() * topics.length)]);
    }
  }

  publish(topic, qos) {
    const { who } = this.spec;
    const number = (this.sent.get(topic) ?? 0) + 1;
    this.sent.set(topic, number);
    this.underWay += 1;
    say(who, "publish", { topic, number, qos, link: null });
    this.send(topic, number, qos);
  }

  send(topic, number, qos) {
    this.client.publish(topic, payloadOf(topic, number), { qos }, (error) => {
      if (error && !(error.code >= FIRST_ERROR)) {
        // While MQTT.js resends messages of an earlier connection, it queues nothing: it returns unsent messages when the
        // connection ends. Not in the callback, which would repeat for ever.
        setImmediate(() => this.send(topic, number, qos));
        return;
      }
      this.underWay -= 1;
      say(this.spec.who, "acknowledged", { topic, number, link: null, reason: error ? error.code : 0 });
    });
  }

  fence() {
    for (const [topic, qos] of this.spec.topics ?? []) this.publish(topic, qos);
  }

  move() {
    this.client.stream?.destroy();
  }
}

const clients = config.clients.map((each, place) => new Client(each, place));
const commands = {
  quiet: (client) => (client.isLoaded = false),
  move: (client) => client.move(),
  fence: (client) => client.fence(),
};
createInterface({ input: process.stdin })
  .on("line", (line) => clients.forEach(commands[line]))
  .on("close", () => process.exit(0));
