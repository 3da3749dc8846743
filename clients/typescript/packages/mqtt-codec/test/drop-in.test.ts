// Runs Aedes and MQTT.js on this package in place of `mqtt-packet`.

import assert from "node:assert/strict";
import { once, type EventEmitter } from "node:events";
import Module, { createRequire, register } from "node:module";
import { createServer, type AddressInfo } from "node:net";
import { after, test } from "node:test";
import { Parser } from "@tautwire/mqtt-codec/mqtt-packet";

const require = createRequire(import.meta.url);
const ours = {
  esm: import.meta.resolve("@tautwire/mqtt-codec/mqtt-packet"),
  cjs: require.resolve("@tautwire/mqtt-codec/mqtt-packet"),
};

// For `import` of Aedes, and for `require` of MQTT.js.
register(
  `data:text/javascript,${encodeURIComponent(
    `export const resolve = (name, context, next) =>
       name === "mqtt-packet" ? { url: ${JSON.stringify(ours.esm)}, shortCircuit: true } : next(name, context);`,
  )}`,
);
type Resolve = (request: string, ...rest: unknown[]) => string;
const internals = Module as unknown as { _resolveFilename: Resolve };
const original = internals._resolveFilename;
internals._resolveFilename = function (this: unknown, request, ...rest) {
  return request === "mqtt-packet" ? ours.cjs : original.call(this, request, ...rest);
};

const { Aedes } = await import("aedes");
const { default: mqtt } = await import("mqtt");

const broker = await Aedes.createBroker();
const server = createServer((socket) => {
  broker.handle(socket);
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const url = `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`;

after(async () => {
  await new Promise<void>((done) => {
    broker.close(() => {
      server.close(() => {
        done();
      });
    });
  });
});

test("neither of them has loaded mqtt-packet itself", () => {
  const loaded = Object.keys(require.cache);
  assert.ok(loaded.includes(ours.cjs));
  assert.deepEqual(loaded.filter((name) => name.includes("node_modules/mqtt-packet/")), []);
});

for (const protocolVersion of [3, 4] as const) {
  test(`messages of each QoS pass through both, protocol version ${protocolVersion}`, async () => {
    const client = await mqtt.connectAsync(url, {
      protocolVersion,
      protocolId: protocolVersion === 3 ? "MQIsdp" : "MQTT",
      clientId: `drop-in-${protocolVersion}`,
      reconnectPeriod: 0,
      will: { topic: "gone", payload: Buffer.from("gone"), qos: 1, retain: false },
    });
    const got: [string, string, number][] = [];
    let enough: () => void = () => undefined;
    const all = new Promise<void>((done) => (enough = done));
    client.on("message", (topic, payload, packet) => {
      got.push([topic, payload.toString("latin1"), packet.qos]);
      if (got.length === 6) enough();
    });
    await client.subscribeAsync({ "drop/+": { qos: 2 } });
    const large = Buffer.alloc(100_000, "x");
    for (const qos of [0, 1, 2] as const) {
      await client.publishAsync(`drop/${qos}`, `hé ${qos}`, { qos });
      await client.publishAsync(`drop/${qos}`, large, { qos });
    }
    await all;
    const expected = [0, 1, 2].flatMap((qos) => [
      [`drop/${qos}`, Buffer.from(`hé ${qos}`).toString("latin1"), qos],
      [`drop/${qos}`, large.toString("latin1"), qos],
    ]);
    assert.deepEqual(got.sort((a, b) => a[2] - b[2] || a[1].length - b[1].length), expected);
    await client.unsubscribeAsync("drop/+");
    await client.endAsync();
  });
}

test("MQTT.js speaks 5.0 with a broker that is built on the parser alone", async () => {
  const { generate } = await import("@tautwire/mqtt-codec/mqtt-packet");
  const seen: string[] = [];
  const peer = createServer((socket) => {
    const parser = new Parser();
    const answer = (packet: Parameters<typeof generate>[0]): void => {
      socket.write(generate(packet, { protocolVersion: 5 }));
    };
    parser.on("packet", (packet: Parameters<typeof generate>[0]) => {
      seen.push(packet.cmd);
      const { messageId } = packet;
      if (packet.cmd === "connect") {
        answer({ cmd: "connack", reasonCode: 0, sessionPresent: false, properties: { receiveMaximum: 10 } });
      } else if (packet.cmd === "subscribe") {
        answer({ cmd: "suback", messageId, granted: [1] });
      } else if (packet.cmd === "publish") {
        answer({ cmd: "puback", messageId, reasonCode: 0 });
        answer({ ...packet, messageId: 7 });
      }
    });
    socket.on("data", (chunk) => parser.parse(chunk));
  });
  peer.listen(0, "127.0.0.1");
  await once(peer, "listening");
  const port = (peer.address() as AddressInfo).port;
  const client = await mqtt.connectAsync(`mqtt://127.0.0.1:${port}`, { protocolVersion: 5, reconnectPeriod: 0 });
  const message = once(client as unknown as EventEmitter, "message");
  await client.subscribeAsync("a/b", { qos: 1 });
  const userProperties = { unit: ["celsius", "kelvin"], region: "eu" };
  await client.publishAsync("a/b", "21", { qos: 1, properties: { contentType: "text/plain", userProperties } });
  const [topic, payload, packet] = (await message) as [string, Buffer, { properties: Record<string, unknown> }];
  assert.equal(topic, "a/b");
  assert.ok(Buffer.isBuffer(payload));
  assert.equal(payload.toString(), "21");
  assert.equal(packet.properties["contentType"], "text/plain");
  assert.deepEqual({ ...(packet.properties["userProperties"] as object) }, userProperties);
  await client.endAsync();
  await new Promise((done) => peer.close(done));
  assert.deepEqual(seen, ["connect", "subscribe", "publish", "puback", "disconnect"]);
});
