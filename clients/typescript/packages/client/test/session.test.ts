import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { json, MqttError, type Client, type ClientOptions } from "@tautwire/client";
import type { Packet } from "@tautwire/mqtt-codec";
import { createClient } from "./support/clients.js";
import { FakeBroker, type FakeConnection } from "./support/fake-broker.js";
import { FakeClock } from "./support/fake-clock.js";
import { failure, settled, within } from "./support/waiting.js";

const URL_OF_NOBODY = "mqtt://broker.example";
const FAST = { minDelayMs: 1, maxDelayMs: 2 };

interface Setup {
  broker: FakeBroker;
  client: Client;
}

function setup(options: ClientOptions = {}): Setup {
  const broker = new FakeBroker();
  const client = createClient(URL_OF_NOBODY, { transport: broker.transport, reconnect: FAST, ...options });
  return { broker, client };
}

async function connected(
  options: ClientOptions = {},
  connack: Parameters<FakeBroker["accept"]>[0] = {},
): Promise<Setup & { link: FakeConnection }> {
  const { broker, client } = setup(options);
  const link = await broker.accept(connack);
  await client.connected();
  return { broker, client, link };
}

const text = (packet: { payload: Uint8Array }): string => new TextDecoder().decode(packet.payload);

describe("connecting", () => {
  test("CONNECT contains the options", async () => {
    const { broker, client } = setup({
      clientId: "c1",
      userName: "u",
      password: "p",
      keepAliveS: 30,
      sessionExpiryS: 77,
      receiveMaximum: 5,
      maximumPacketSize: 1000,
      topicAliasMaximum: 3,
      requestResponseInformation: true,
      userProperties: [["a", "b"]],
      will: { topic: "w", payload: "gone", qos: 1, retain: true, properties: { willDelayInterval: 3 } },
    });
    const connect = await (await broker.next()).accept();
    assert.deepEqual(
      { ...connect, password: text({ payload: connect.password! }), will: null },
      {
        type: "connect",
        protocolVersion: 5,
        cleanStart: true,
        clientId: "c1",
        userName: "u",
        password: "p",
        keepAliveS: 30,
        will: null,
        properties: {
          sessionExpiryInterval: 77,
          receiveMaximum: 5,
          maximumPacketSize: 1000,
          topicAliasMaximum: 3,
          userProperties: [["a", "b"]],
          requestResponseInformation: true,
        },
      },
    );
    assert.equal(connect.will?.topic, "w");
    assert.equal(connect.will.properties.willDelayInterval, 3);
    await client.close();
  });

  test("the credentials function is called for each connection", async () => {
    let count = 0;
    const { broker, client } = setup({ credentials: () => Promise.resolve({ userName: `u${++count}` }) });
    const first = await broker.next();
    assert.equal((await first.accept()).userName, "u1");
    await client.connected();
    first.drop();
    assert.equal((await (await broker.next()).accept()).userName, "u2");
    await client.close();
  });

  test("3.1.1 sends no properties, and a random client identifier", async () => {
    const { broker, client } = setup({ protocolVersion: 4, will: { topic: "w", payload: "", properties: { contentType: "x" } } });
    const connect = await (await broker.next()).accept();
    assert.equal(connect.protocolVersion, 4);
    assert.match(connect.clientId, /^tautwire-\w{16}$/);
    assert.equal(connect.cleanStart, true);
    await client.close();
  });

  test("the assigned client identifier is used for reconnections, and the session continues", async () => {
    const { broker, client, link } = await connected({}, { properties: { assignedClientIdentifier: "given" } });
    assert.equal(client.clientId, "given");
    link.drop();
    const connect = await (await broker.next()).accept({ sessionPresent: true });
    assert.equal(connect.clientId, "given");
    assert.equal(connect.cleanStart, false);
    assert.equal(connect.properties.sessionExpiryInterval, 300);
    await client.close();
  });

  test("close() ends the session, unless sessionExpiryS is set", async () => {
    const one = await connected();
    const closing = one.client.close();
    const disconnect = await one.link.expect("disconnect");
    assert.deepEqual(disconnect.properties, { sessionExpiryInterval: 0 });
    await closing;
    const two = await connected({ sessionExpiryS: 60 });
    const closingTwo = two.client.close({ reason: 4 });
    const kept = await two.link.expect("disconnect");
    assert.deepEqual(kept.properties, {});
    assert.equal(kept.reason, 4);
    await closingTwo;
  });
});

describe("the limits of the server", () => {
  test("maximum QoS, retain, packet size", async () => {
    const { client, link } = await connected(
      {},
      { properties: { maximumQoS: 1, retainAvailable: false, maximumPacketSize: 40 } },
    );
    assert.equal((await failure(client.publish("t", "x", { qos: 2 }))).code, "qos_not_supported");
    assert.equal((await failure(client.publish("t", "x", { retain: true }))).code, "retain_not_supported");
    assert.equal((await failure(client.publish("t", "x", { retain: true, qos: 1 }))).code, "retain_not_supported");
    assert.equal((await failure(client.publish("t", "x".repeat(50)))).code, "packet_too_large");
    assert.equal((await failure(client.publish("t", "x".repeat(50), { qos: 1 }))).code, "packet_too_large");
    assert.throws(() => client.send("t", "x".repeat(50)), { code: "packet_too_large" });
    await client.publish("t", "ok");
    assert.equal(text(await link.expect("publish")), "ok");
    assert.deepEqual(client.pending, { queued: 0, inflight: 0 });
    await client.close();
  });

  test("receive maximum: limits messages in flight, and an acknowledgement releases the next one", async () => {
    const { client, link } = await connected({}, { properties: { receiveMaximum: 2 } });
    const results = [0, 1, 2, 3].map((n) => client.publish("t", String(n), { qos: n % 2 === 0 ? 1 : 2 }));
    const first = await link.expect("publish");
    const second = await link.expect("publish");
    await link.fence();
    link.give({ type: "pubrec", packetId: second.packetId! });
    await link.expect("pubrel");
    await link.fence();
    link.give({ type: "puback", packetId: first.packetId! });
    const third = await link.expect("publish");
    assert.equal(text(third), "2");
    await link.fence();
    link.give({ type: "pubcomp", packetId: second.packetId! });
    const fourth = await link.expect("publish");
    link.give({ type: "puback", packetId: third.packetId! }, { type: "pubrec", packetId: fourth.packetId!, reason: 0x87 });
    await Promise.all(results.slice(0, 3));
    const refused = await failure(results[3]!);
    assert.equal(refused.code, "publish_refused");
    assert.equal(refused.reason, 0x87);
    await client.close();
  });

  test("wildcards, shared subscriptions and identifiers that the server does not support", async () => {
    const { client, link } = await connected(
      {},
      {
        properties: {
          wildcardSubscriptionAvailable: false,
          sharedSubscriptionAvailable: false,
          subscriptionIdentifierAvailable: false,
        },
      },
    );
    assert.equal((await failure(client.subscribe("a/#").ready)).code, "not_supported");
    assert.equal((await failure(client.subscribe("$share/g/a").ready)).code, "not_supported");
    const { ready } = client.subscribe("a", { qos: 1 });
    assert.deepEqual((await link.grant()).properties, {});
    assert.equal(await ready, 1);
    await client.close();
  });

  test("server keep alive overrides the client's", async () => {
    const clock = new FakeClock();
    const { client, link } = await connected({ clock, keepAliveS: 60 }, { properties: { serverKeepAlive: 10 } });
    await clock.advance(7_500);
    await link.expect("pingreq");
    link.give({ type: "pingresp" });
    await settled();
    await client.close();
  });

  test("topic aliases: the topic once, then only the alias; again on a new connection", async () => {
    const { broker, client, link } = await connected({}, { properties: { topicAliasMaximum: 2 } });
    const publish = (topic: string) => client.publish(topic, "", { properties: { contentType: "c" } });
    await publish("sensors/one");
    await publish("sensors/one");
    await publish("sensors/two");
    await publish("sensors/six");
    await client.publish("sensors/two", "");
    const seen = [];
    for (let n = 0; n < 5; n++) {
      const { topic, properties } = await link.expect("publish");
      seen.push([topic, properties.topicAlias]);
    }
    assert.deepEqual(seen, [
      ["sensors/one", 1],
      ["", 1],
      ["sensors/two", 2],
      ["sensors/six", undefined],
      ["", 2],
    ]);
    link.drop();
    const again = await broker.accept({ sessionPresent: true, properties: { topicAliasMaximum: 2 } });
    await client.connected();
    await client.publish("sensors/two", "");
    assert.equal((await again.expect("publish")).topic, "sensors/two");
    await client.close();
  });

  test("the least recently used topic loses its alias after it has not been used for long", async () => {
    const { client, link } = await connected({}, { properties: { topicAliasMaximum: 1 } });
    await client.publish("topic/of/old", "");
    for (let n = 0; n < 20; n++) await client.publish("topic/of/new", "");
    await client.close();
    const topics = link.received.filter((packet) => packet.type === "publish").map((packet) => packet.topic);
    assert.equal(topics[0], "topic/of/old");
    assert.equal(topics.at(-1), "");
  });

  test("aliases of the server are resolved; others end the connection with 0x94", async () => {
    const { client, link } = await connected({ topicAliasMaximum: 1 });
    const subscription = client.subscribe("#");
    await link.grant();
    link.give(
      { type: "publish", topic: "a/b", payload: "1", properties: { topicAlias: 1 } },
      { type: "publish", topic: "", payload: "2", properties: { topicAlias: 1 } },
    );
    const loop = subscription[Symbol.asyncIterator]();
    await loop.next();
    const second = await loop.next();
    assert.equal(second.done === true ? null : second.value.topic, "a/b");
    link.give({ type: "publish", topic: "x", properties: { topicAlias: 2 } });
    assert.equal((await link.expect("disconnect")).reason, 0x94);
    await client.close();
  });
});

describe("exactly once, at least once", () => {
  // The points at which a connection can be lost, and the packets that must be resent.
  const POINTS: { name: string; qos: 1 | 2; answer: "none" | "pubrec"; again: Packet["type"] }[] = [
    { name: "before PUBACK", qos: 1, answer: "none", again: "publish" },
    { name: "before PUBREC", qos: 2, answer: "none", again: "publish" },
    { name: "between PUBREC and PUBCOMP", qos: 2, answer: "pubrec", again: "pubrel" },
  ];
  for (const { name, qos, answer, again } of POINTS) {
    test(`QoS ${qos} over a connection lost ${name}`, async () => {
      const { broker, client, link } = await connected();
      const published = client.publish("t", "x", { qos });
      const { packetId, dup } = await link.expect("publish");
      assert.equal(dup, false);
      if (answer === "pubrec") {
        link.give({ type: "pubrec", packetId: packetId! });
        await link.expect("pubrel");
      }
      link.drop();
      const second = await broker.accept({ sessionPresent: true });
      const repeated = await second.expect(again);
      assert.equal("packetId" in repeated && repeated.packetId, packetId);
      if (repeated.type === "publish") {
        assert.equal(repeated.dup, true);
        if (qos === 2) {
          second.give({ type: "pubrec", packetId: packetId! });
          await second.expect("pubrel");
        }
      }
      second.give(qos === 1 ? { type: "puback", packetId: packetId! } : { type: "pubcomp", packetId: packetId! });
      assert.deepEqual(await published, { reason: 0 });
      await second.fence();
      await client.close();
    });
  }

  test("messages are resent in the original order, before new ones", async () => {
    const { broker, client, link } = await connected();
    const all = [0, 1, 2, 3].map((n) => client.publish("t", String(n), { qos: 1 }));
    for (let n = 0; n < 4; n++) await link.expect("publish");
    link.drop();
    all.push(client.publish("t", "4", { qos: 1 }));
    const second = await broker.accept({ sessionPresent: true, properties: { receiveMaximum: 3 } });
    for (let n = 0; n < 5; n++) {
      const packet = await second.expect("publish");
      assert.equal(text(packet), String(n));
      assert.equal(packet.dup, n < 4);
      if (n === 2) await second.fence();
      if (n >= 2) second.give({ type: "puback", packetId: packet.packetId! });
    }
    for (const packetId of [1, 2]) second.give({ type: "puback", packetId });
    await Promise.all(all);
    await client.close();
  });

  test("a lost session: QoS 1 is published again, QoS 2 is rejected, unsent messages keep waiting", async () => {
    const { broker, client, link } = await connected({}, { properties: { receiveMaximum: 2 } });
    const one = client.publish("t", "1", { qos: 1 });
    const two = client.publish("t", "2", { qos: 2 });
    const three = client.publish("t", "3", { qos: 2 });
    await link.expect("publish");
    await link.expect("publish");
    link.drop();
    const second = await broker.accept({ sessionPresent: false });
    assert.equal((await failure(two)).code, "session_lost");
    const first = await second.expect("publish");
    assert.deepEqual([text(first), first.dup], ["1", false]);
    const last = await second.expect("publish");
    assert.equal(text(last), "3");
    second.give({ type: "puback", packetId: first.packetId! }, { type: "pubrec", packetId: last.packetId! });
    await second.expect("pubrel");
    second.give({ type: "pubcomp", packetId: last.packetId! });
    await Promise.all([one, three]);
    await client.close();
  });

  test("onSessionLost: reject rejects QoS 1 too", async () => {
    const { broker, client, link } = await connected({ onSessionLost: "reject" });
    const one = client.publish("t", "1", { qos: 1 });
    await link.expect("publish");
    link.drop();
    await broker.accept({ sessionPresent: false });
    assert.equal((await failure(one)).code, "session_lost");
    await client.close();
  });

  test("a QoS 2 message arrives once, regardless of when the connection is lost", async () => {
    const { broker, client, link } = await connected();
    const got: string[] = [];
    client.subscribe("t", { qos: 2 }, (message) => got.push(message.text()));
    await link.grant();
    const give = (to: FakeConnection, dup: boolean) => {
      to.give({ type: "publish", topic: "t", qos: 2, packetId: 9, dup, payload: "x" });
    };
    give(link, false);
    await link.expect("pubrec");
    link.drop();
    const second = await broker.accept({ sessionPresent: true });
    give(second, true);
    await second.expect("pubrec");
    second.give({ type: "pubrel", packetId: 9 });
    await second.expect("pubcomp");
    second.drop();
    const third = await broker.accept({ sessionPresent: true });
    third.give({ type: "pubrel", packetId: 9 });
    assert.equal((await third.expect("pubcomp")).reason, 0x92);
    assert.deepEqual(got, ["x"]);
    give(third, false);
    await third.expect("pubrec");
    assert.deepEqual(got, ["x", "x"]);
    await client.close();
  });

  test("an unacknowledged message is not delivered again after a reconnection", async () => {
    const { broker, client, link } = await connected();
    const loop = client.subscribe("t", { qos: 1, ack: "manual" })[Symbol.asyncIterator]();
    await link.grant();
    link.give({ type: "publish", topic: "t", qos: 1, packetId: 4, payload: "x" });
    const first = await loop.next();
    assert.ok(first.done !== true);
    link.drop();
    const second = await broker.accept({ sessionPresent: true });
    second.give({ type: "publish", topic: "t", qos: 1, packetId: 4, dup: true, payload: "x" });
    await second.fence();
    first.value.acknowledge();
    assert.equal((await second.expect("puback")).packetId, 4);
    second.give({ type: "publish", topic: "t", qos: 1, packetId: 5, payload: "y" });
    const next = await loop.next();
    assert.equal(next.done === true ? "" : next.value.text(), "y");
    await client.close({ drainMs: 0 });
  });

  test("acknowledgements keep the order of the messages, regardless of the application's order", async () => {
    const { client, link } = await connected();
    const messages: { acknowledge: () => void }[] = [];
    client.subscribe("t", { qos: 1, ack: "manual" }, (message) => messages.push(message));
    await link.grant();
    for (const packetId of [7, 8, 9]) link.give({ type: "publish", topic: "t", qos: 1, packetId });
    await link.fence();
    messages[2]!.acknowledge();
    messages[1]!.acknowledge();
    await link.fence();
    messages[0]!.acknowledge();
    for (const packetId of [7, 8, 9]) assert.equal((await link.expect("puback")).packetId, packetId);
    await client.close();
  });

  test("exceeding the receive maximum ends the connection with 0x93", async () => {
    const { client, link } = await connected({ receiveMaximum: 2 });
    client.subscribe("t", { qos: 1, ack: "manual" }, () => undefined);
    await link.grant();
    for (const packetId of [1, 2, 3]) link.give({ type: "publish", topic: "t", qos: 1, packetId });
    assert.equal((await link.expect("disconnect")).reason, 0x93);
    await client.close();
  });

  test("a PUBREC for an unknown exchange is answered with 0x92", async () => {
    const { client, link } = await connected();
    link.give({ type: "pubrec", packetId: 3 });
    assert.equal((await link.expect("pubrel")).reason, 0x92);
    await client.close();
  });
});

describe("the queue", () => {
  test("messages wait for the connection and go in order", async () => {
    const { broker, client } = setup();
    const all = [client.publish("t", "0"), client.publish("t", "1", { qos: 1 }), client.publish("t", "2")];
    assert.equal(client.send("t", "now or never"), false);
    assert.equal(client.counters.sendsRefused, 1);
    assert.deepEqual(client.pending, { queued: 3, inflight: 0 });
    const link = await broker.accept();
    for (const n of ["0", "1", "2"]) {
      const packet = await link.expect("publish");
      assert.equal(text(packet), n);
      if (packet.qos === 1) link.give({ type: "puback", packetId: packet.packetId });
    }
    await Promise.all(all);
    await client.close();
  });

  test("limits by count and by bytes: reject", async () => {
    const { client } = setup({ queue: { maxMessages: 2, maxBytes: 100 } });
    void client.publish("t", "x".repeat(90));
    assert.equal((await failure(client.publish("t", "x".repeat(20)))).code, "queue_full");
    void client.publish("t", "x");
    assert.equal((await failure(client.publish("t", "x"))).code, "queue_full");
    assert.equal(client.counters.queueFull, 2);
    await client.close();
  });

  test("a topic or a filter that is not a string is named", async () => {
    const { client } = setup();
    const nothing = undefined as unknown as string;
    for (const how of [client.publish(nothing, "x"), client.publish(nothing, "x", { qos: 1 })]) {
      const { code, message } = await failure(how);
      assert.equal(code, "invalid_argument");
      assert.match(message, /the topic is undefined: must be a string/);
    }
    assert.throws(() => client.subscribe(nothing), { code: "invalid_argument", message: /a filter is undefined/ });
    await client.close();
  });

  test("a message larger than the queue waits in it alone", async () => {
    const { broker, client } = setup({ queue: { maxBytes: 100 } });
    const large = client.publish("t", "x".repeat(1_000), { qos: 1 });
    assert.equal((await failure(client.publish("t", "y"))).code, "queue_full");
    const link = await broker.accept();
    const { packetId } = await link.expect("publish");
    link.give({ type: "puback", packetId: packetId! });
    await large;
    await client.close();
  });

  test("limits by count and by bytes: drop-oldest", async () => {
    const { broker, client } = setup({ queue: { maxMessages: 2, maxBytes: 100, policy: "drop-oldest" } });
    const first = client.publish("t", "1");
    const second = client.publish("t", "2");
    const third = client.publish("t", "3");
    assert.equal((await failure(first)).code, "dropped");
    const fourth = client.publish("t", "4".repeat(98));
    assert.equal((await failure(second)).code, "dropped");
    // Alone it may be larger than the queue.
    const fifth = client.publish("t", "5".repeat(101));
    assert.equal((await failure(third)).code, "dropped");
    assert.equal((await failure(fourth)).code, "dropped");
    const last = client.publish("t", "6");
    assert.equal((await failure(fifth)).code, "dropped");
    assert.equal(client.counters.dropped, 5);
    const link = await broker.accept();
    assert.equal(text(await link.expect("publish")), "6");
    await last;
    await client.close();
  });

  test("queueQoS0: false lets QoS 0 messages fail without a connection", async () => {
    const { client } = setup({ queueQoS0: false });
    assert.equal((await failure(client.publish("t", "x"))).code, "not_connected");
    await client.close();
  });

  test("a message is sent with its remaining lifetime, and not after it expired", async () => {
    const clock = new FakeClock();
    const { broker, client } = setup({ clock, connectTimeoutMs: 1e6 });
    broker.onConnection = () => true;
    const short = client.publish("t", "short", { qos: 1, properties: { messageExpiryInterval: 5 } });
    const long = client.publish("t", "long", { qos: 1, properties: { messageExpiryInterval: 60 } });
    const link = await broker.next();
    await link.expect("connect");
    await clock.advance(20_000);
    link.give({ type: "connack", reason: 0 });
    assert.equal((await failure(short)).code, "expired");
    const packet = await link.expect("publish");
    assert.equal(packet.properties.messageExpiryInterval, 40);
    link.give({ type: "puback", packetId: packet.packetId! });
    await long;
    assert.equal(client.counters.expired, 1);
    await client.close();
  });

  test("messages wait while the transport's buffer is full", async () => {
    const { client, link } = await connected({ writeBufferBytes: 1000 });
    link.bufferedBytes = 2000;
    await client.publish("t", "1");
    await settled();
    assert.equal(client.send("t", "refused"), false);
    const second = client.publish("t", "2");
    assert.equal(client.pending.queued, 1);
    link.bufferedBytes = 0;
    link.events.onDrain();
    await second;
    assert.equal(text(await link.expect("publish")), "1");
    assert.equal(text(await link.expect("publish")), "2");
    await client.close();
  });

  test("invalid arguments are rejected at once, also without a connection", async () => {
    const { client } = setup();
    assert.equal((await failure(client.publish("a/#", "x"))).code, "invalid_argument");
    assert.equal((await failure(client.publish("", "x", { qos: 1 }))).code, "invalid_argument");
    assert.equal((await failure(client.publish("t", { a: 1 }))).code, "payload_invalid");
    assert.equal((await failure(client.publish("t", 1n, { codec: json() }))).code, "payload_invalid");
    for (const filter of ["", "a/#/b", "a+", "a#", "$share/g", "$share//x", "$share/+/x", "a\0"]) {
      assert.throws(() => client.subscribe(filter), MqttError, filter);
    }
    for (const filter of ["#", "+", "/", "a//b", "/#", "+/+/#", "$share/g/#", "$SYS/#", "a/+", "//"]) {
      void client.subscribe(filter);
    }
    await client.close();
  });
});

describe("3.1.1", () => {
  test("publishes without properties, subscribes without options", async () => {
    const { client, link } = await connected({ protocolVersion: 4 });
    await client.publish("t", { a: 1 }, { codec: json(), properties: { responseTopic: "r" } });
    const packet = await link.expect("publish");
    assert.deepEqual(packet.properties, {});
    assert.equal(text(packet), '{"a":1}');
    void client.subscribe("t", { qos: 1, retainAsPublished: true });
    assert.equal((await link.grant()).requests[0]!.retainAsPublished, false);
    assert.throws(() => client.subscribe("t", { noLocal: true }), { code: "not_supported" });
    await client.close();
  });

  test("with cleanStart false the session survives reconnections; otherwise each is new", async () => {
    for (const cleanStart of [true, false]) {
      const { broker, client, link } = await connected({ protocolVersion: 4, cleanStart, clientId: "me" });
      void client.subscribe("t", { qos: 1 });
      await link.grant();
      link.drop();
      const second = await broker.next();
      const connect = await second.accept({ sessionPresent: !cleanStart });
      assert.equal(connect.cleanStart, cleanStart);
      await client.connected();
      if (cleanStart) await second.grant();
      await second.fence();
      await within(client.close(), "end");
    }
  });
});
