// MQTT.js against Aedes and against a 5.0 broker, each side with this package or with `mqtt-packet`, over TCP,
// WebSocket and TLS. Every test has a deadline.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { IClientOptions, MqttClient } from "mqtt";
import { serveV5 } from "./broker-v5.js";
import { replace, required } from "./replace.js";
import { certificate, serve, TRANSPORTS } from "./servers.js";

const DEADLINE = { timeout: 30_000 };

interface Received {
  topic: string;
  text: string;
  packet: { qos: number; retain: boolean; properties?: Record<string, unknown> };
}

/** Defines the tests, one set per process. `replaced`: the sides that use this package. */
export async function matrix(replaced: { aedes: boolean; mqtt: boolean }): Promise<void> {
  replace(replaced);
  const { Aedes } = await import("aedes");
  const { default: mqtt } = await import("mqtt");
  const ours = await import("@tautwire/mqtt-codec/mqtt-packet");
  const brokerSide = replaced.aedes ? ours : ((await import("mqtt-packet")).default as unknown as typeof ours.default);

  const broker = await Aedes.createBroker({ keepaliveLimit: 1000 });
  broker.authenticate = (_client, userName, _password, done) => {
    if (userName === "mallory") done(Object.assign(new Error("no"), { returnCode: 4 }), false);
    else done(null, true);
  };
  const parsers: unknown[] = [];
  broker.on("client", (client) => parsers.push((client as unknown as { _parser: unknown })._parser));
  const seen: string[] = [];
  const v3 = await serve((stream) => void broker.handle(stream));
  const v5 = await serve((stream) => {
    serveV5(stream, brokerSide, seen);
  });
  after(async () => {
    await new Promise<void>((done) => {
      broker.close(done);
    });
    await Promise.all([v3.close(), v5.close()]);
  });

  const options = (given: IClientOptions): IClientOptions => ({ reconnectPeriod: 0, keepalive: 60, ca: certificate, ...given });
  const connect = (url: string, given: IClientOptions): Promise<MqttClient> => mqtt.connectAsync(url, options(given));

  async function roundTrip(client: MqttClient, properties?: object): Promise<Received[]> {
    const all = receive(client, 6);
    await client.subscribeAsync("drop/+", { qos: 2 });
    for (const qos of [0, 1, 2] as const) {
      await client.publishAsync(`drop/${qos}`, `hé ${qos}`, { qos, ...(properties && { properties }) });
      await client.publishAsync(`drop/${qos}`, Buffer.alloc(100_000, "x"), { qos, ...(properties && { properties }) });
    }
    const got = (await all).sort((a, b) => a.topic.localeCompare(b.topic) || a.text.length - b.text.length);
    const expected = [0, 1, 2].flatMap((qos) => [`hé ${qos}`, "x".repeat(100_000)].map((text) => [`drop/${qos}`, text, qos]));
    assert.deepEqual(got.map(({ topic, text, packet }) => [topic, text, packet.qos]), expected);
    await client.unsubscribeAsync("drop/+");
    return got;
  }

  for (const transport of TRANSPORTS) {
    for (const [protocolVersion, protocolId] of [[3, "MQIsdp"], [4, "MQTT"]] as const) {
      const version = { protocolVersion, protocolId };

      test(`${transport}, version ${protocolVersion}: messages of each QoS, small and large`, DEADLINE, async () => {
        const client = await connect(v3.urls[transport], { ...version, clientId: "messages" });
        await roundTrip(client);
        await client.endAsync();
      });

      test(`${transport}, version ${protocolVersion}: a session, a retained message and a will`, DEADLINE, async () => {
        const url = v3.urls[transport];
        const kept = { ...version, clientId: "session", clean: false };
        const before = await connect(url, kept);
        await before.subscribeAsync("kept/#", { qos: 1 });
        await before.endAsync();

        const will = { topic: "kept/will", payload: Buffer.from("gone"), qos: 1 as const, retain: false };
        const other = await connect(url, { ...version, clientId: "other", will });
        await other.publishAsync("kept/queued", "queued", { qos: 1 });
        await other.publishAsync("retained", "retained", { qos: 1, retain: true });

        const client = mqtt.connect(url, options(kept));
        assert.deepEqual((await receive(client, 1)).map(({ text }) => text), ["queued"]);
        const retained = receive(client, 1);
        await client.subscribeAsync("retained", { qos: 0 });
        assert.equal((await retained)[0]?.packet.retain, true);

        const last = receive(client, 1);
        other.stream.destroy();
        assert.deepEqual((await last).map(({ text }) => text), ["gone"]);
        await other.endAsync(true);
        await client.publishAsync("retained", "", { qos: 1, retain: true });
        await client.endAsync();
        // Clear the state for the next test.
        await (await connect(url, { ...version, clientId: "session", clean: true })).endAsync();
      });
    }

    test(`${transport}: the client gets the reason of a refusal`, DEADLINE, async () => {
      const refused = (given: IClientOptions): Promise<unknown> => connect(v3.urls[transport], { clientId: "refused", ...given });
      // Aedes answers a 5.0 CONNECT in the format of 3.1.1, with an undefined code.
      await assert.rejects(refused({ protocolVersion: 5 }), { code: 1, message: "Connection refused: Unacceptable protocol version" });
      await assert.rejects(refused({ keepalive: 2000 }), { code: 6 });
      await assert.rejects(refused({ username: "mallory" }), { code: 4 });
    });

    test(`${transport}, version 5: messages of each QoS with properties`, DEADLINE, async () => {
      seen.length = 0;
      const client = await connect(v5.urls[transport], { protocolVersion: 5, clientId: "v5" });
      const userProperties = { unit: ["celsius", "kelvin"], region: "eu" };
      const properties = {
        contentType: "text/plain",
        payloadFormatIndicator: true,
        messageExpiryInterval: 60,
        responseTopic: "answers",
        correlationData: Buffer.of(1, 2),
        userProperties,
      };
      for (const { packet } of await roundTrip(client, properties)) {
        const got = { ...packet.properties, userProperties: { ...(packet.properties?.["userProperties"] as object) } };
        assert.deepEqual(got, { ...properties, subscriptionIdentifier: [7, 300] });
      }
      await client.endAsync();
      assert.deepEqual([...new Set(seen)].sort(), [
        "connect", "disconnect", "puback", "pubcomp", "publish", "pubrec", "pubrel", "subscribe", "unsubscribe",
      ]);
    });
  }

  test("each uses the expected library", () => {
    assert.ok(parsers.length > 0);
    for (const parser of parsers) assert.equal(parser instanceof ours.Parser, replaced.aedes);
    assert.deepEqual(required(), { ours: replaced.mqtt, theirs: !replaced.aedes || !replaced.mqtt });
  });
}

/** Resolves with the next messages of a client, in any order. */
function receive(client: MqttClient, count: number): Promise<Received[]> {
  return new Promise((resolve) => {
    const got: Received[] = [];
    const take = (topic: string, payload: Buffer, packet: unknown): void => {
      assert.ok(Buffer.isBuffer(payload));
      got.push({ topic, text: payload.toString(), packet: packet as Received["packet"] });
      if (got.length < count) return;
      client.off("message", take);
      resolve(got);
    };
    client.on("message", take);
  });
}
