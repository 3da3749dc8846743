// A client with a store, with a scripted broker.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client, ClientOptions, MqttError } from "@tautwire/client";
import { MemoryStore, Store, type Change, type StoredSession } from "@tautwire/client/store";
import { encode } from "@tautwire/mqtt-codec";
import { createClient } from "./support/clients.js";
import { FakeBroker, obedient, type FakeConnection } from "./support/fake-broker.js";
import { FakeClock } from "./support/fake-clock.js";
import { event, failure, settled, within } from "./support/waiting.js";

const FAST = { minDelayMs: 1, maxDelayMs: 2 };

/** A store whose syncs the test completes. */
class SlowStore extends Store {
  readonly inner = new MemoryStore();
  readonly changes: Change["kind"][] = [];
  /** Completes the pending sync. */
  finish: (error?: Error) => void = () => undefined;
  isSlow = true;
  syncs = 0;
  isClosed = false;

  override load(): StoredSession {
    return this.inner.load();
  }

  override record(change: Change): void {
    this.changes.push(change.kind);
    this.inner.record(change);
  }

  override sync(): Promise<void> {
    this.syncs++;
    if (!this.isSlow) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.finish = (error) => {
        if (error === undefined) resolve();
        else reject(error);
      };
    });
  }

  override close(): Promise<void> {
    this.isClosed = true;
    return Promise.resolve();
  }
}

function start(broker: FakeBroker, options: ClientOptions): Client {
  return createClient("mqtt://x", { transport: broker.transport, reconnect: FAST, clientId: "meter", ...options });
}

/** Simulates the end of a process: sends nothing to the server, and frees the store for the next one. */
async function crash(client: Client): Promise<void> {
  client.cut();
  await client.close({ signal: AbortSignal.abort() });
}

function texts(link: FakeConnection): string[] {
  return link.received.map((packet) =>
    packet.type === "publish"
      ? `publish ${packet.packetId} ${packet.dup ? "again " : ""}${new TextDecoder().decode(packet.payload)}`
      : packet.type,
  );
}

test("the next client sends queued messages in order, with their properties", async () => {
  const store = new MemoryStore();
  const nobody = new FakeBroker();
  nobody.onConnection = () => false;
  const first = start(nobody, { store });
  const properties = { contentType: "text/plain", userProperties: [["a", "b"]] as [string, string][], messageExpiryInterval: 600 };
  void first.publish("t", "1", { qos: 1 });
  void first.publish("t", new TextEncoder().encode("2"), { qos: 2, retain: true, properties });
  void first.publish("t", "none", { qos: 0 });
  void first.publish("t", "3", { qos: 1 });
  await crash(first);

  const broker = new FakeBroker();
  const second = start(broker, { store });
  void second.publish("t", "4", { qos: 1 });
  assert.deepEqual(second.pending, { queued: 4, inflight: 0 });
  const link = await broker.accept();
  await second.connected();
  await settled();
  assert.deepEqual(texts(link), ["publish 1 1", "publish 2 2", "publish 3 3", "publish 4 4"]);
  const packet = link.received[1]!;
  assert.ok(packet.type === "publish");
  assert.deepEqual([packet.qos, packet.retain, packet.properties], [2, true, properties]);
});

test("the first connection resumes the session, and messages in flight keep their identifiers", async () => {
  const store = new MemoryStore();
  const broker = new FakeBroker();
  const first = start(broker, { store });
  const link = await broker.next();
  const connect = await link.accept();
  assert.equal(connect.cleanStart, true);
  await first.connected();
  for (const [payload, qos] of [["1", 1], ["2", 2], ["3", 2], ["4", 1], ["5", 2]] as const) {
    void first.publish("t", payload, { qos });
  }
  for (let n = 0; n < 5; n++) await link.expect("publish");
  // PUBREL packets are resent in the order of PUBREC [MQTT-4.6.0-4].
  link.give({ type: "puback", packetId: 1 }, { type: "pubrec", packetId: 3 }, { type: "pubrec", packetId: 2 });
  await link.expect("pubrel");
  await link.expect("pubrel");
  await crash(first);

  const second = start(broker, { store });
  const again = await broker.next();
  assert.equal((await again.accept({ sessionPresent: true })).cleanStart, false);
  await second.connected();
  await settled();
  assert.deepEqual(texts(again), ["pubrel", "pubrel", "publish 4 again 4", "publish 5 again 5"]);
  assert.deepEqual(again.received.slice(0, 2).map((packet) => (packet as { packetId: number }).packetId), [3, 2]);
  // New messages get other identifiers.
  void second.publish("t", "6", { qos: 1 });
  void second.publish("t", "7", { qos: 1 });
  await settled();
  assert.deepEqual(texts(again).slice(-2), ["publish 1 6", "publish 6 7"]);
  again.give(
    { type: "puback", packetId: 4 },
    { type: "pubrec", packetId: 5 },
    { type: "pubcomp", packetId: 2 },
    { type: "pubcomp", packetId: 3 },
    { type: "puback", packetId: 1 },
    { type: "puback", packetId: 6 },
    { type: "pubcomp", packetId: 5 },
  );
  await settled();
  assert.deepEqual(second.pending, { queued: 0, inflight: 0 });
  assert.deepEqual(store.load().outgoing, []);
});

test("nothing is sent before the store has synced it", async () => {
  const store = new SlowStore();
  const broker = new FakeBroker();
  const client = start(broker, { store });
  const link = await broker.accept();
  await client.connected();
  store.finish();
  await settled();
  const published = client.publish("t", "x", { qos: 2 });
  await settled();
  assert.deepEqual(link.received, []);
  store.finish();
  await link.expect("publish");
  link.give({ type: "pubrec", packetId: 1 });
  await settled();
  assert.deepEqual(link.received, []);
  store.finish();
  await link.expect("pubrel");
  link.give({ type: "pubcomp", packetId: 1 });
  await within(published, "answer");
  assert.deepEqual(store.changes, ["began", "queued", "sent", "released", "done"]);
});

test("one sync serves all messages of a turn, and one all messages during it", async () => {
  const store = new SlowStore();
  const broker = new FakeBroker();
  const client = start(broker, { store });
  const link = await broker.accept();
  await client.connected();
  store.finish();
  await settled();
  const before = store.syncs;
  for (let n = 0; n < 100; n++) void client.publish("t", "x", { qos: 1 });
  await settled();
  for (let n = 0; n < 100; n++) void client.publish("t", "y", { qos: 1 });
  await settled();
  assert.equal(store.syncs, before + 1);
  store.finish();
  await settled();
  // Later changes wait for the next sync.
  assert.equal(link.received.length, 100);
  store.finish();
  await settled();
  assert.equal(link.received.length, 200);
  assert.equal(store.syncs, before + 2);
});

test("the next client acknowledges a received QoS 2 message without delivering it again", async () => {
  const store = new SlowStore();
  store.isSlow = false;
  const broker = new FakeBroker();
  const message = { type: "publish", topic: "t", qos: 2, packetId: 7, payload: "x" } as const;
  const heard: string[] = [];
  const listen = (client: Client) =>
    client.on("message", (each) => {
      heard.push(each.text());
      each.acknowledge();
    });
  const first = start(broker, { store });
  listen(first);
  const link = await broker.accept();
  await first.connected();
  await settled();
  store.isSlow = true;
  link.give(message);
  await settled();
  // PUBREC waits for the store.
  assert.deepEqual(link.received, []);
  store.finish();
  await link.expect("pubrec");
  store.isSlow = false;
  await crash(first);

  const second = start(broker, { store });
  listen(second);
  const again = await broker.accept({ sessionPresent: true });
  again.give({ ...message, dup: true });
  await again.expect("pubrec");
  store.isSlow = true;
  again.give({ type: "pubrel", packetId: 7 });
  await settled();
  // So does PUBCOMP: if a crash lost the record, the next message with this identifier would be lost.
  assert.deepEqual(again.received, []);
  store.finish();
  store.isSlow = false;
  await again.expect("pubcomp");
  // Now it is another message.
  again.give(message);
  await again.expect("pubrec");
  assert.deepEqual(heard, ["x", "x"]);
});

test("if the server has lost the session, QoS 1 is sent again and QoS 2 is reported", async () => {
  const store = new MemoryStore();
  const broker = new FakeBroker();
  const first = start(broker, { store });
  const link = await broker.accept();
  await first.connected();
  void first.publish("a", "1", { qos: 1 });
  void first.publish("b", "2", { qos: 2 });
  void first.publish("c", "3", { qos: 1 });
  await link.expect("publish");
  await link.expect("publish");
  await link.expect("publish");
  await crash(first);

  const second = start(broker, { store });
  const errors: MqttError[] = [];
  second.on("error", (error) => errors.push(error));
  // The last message waits in the queue, and has no identifier in the new session.
  const again = await broker.accept({ sessionPresent: false, properties: { receiveMaximum: 1 } });
  await second.connected();
  await settled();
  assert.deepEqual(texts(again), ["publish 1 1"]);
  assert.deepEqual(errors.map(({ code, detail }) => [code, detail]), [["session_lost", "b"]]);
  assert.deepEqual(store.load().outgoing.map(({ packetId }) => packetId), [1, 0]);
});

test("a store of another client identifier is refused, and one that is in use", async () => {
  const store = new MemoryStore();
  store.record({ kind: "began", clientId: "other" });
  const broker = new FakeBroker();
  assert.throws(() => start(broker, { store }), { code: "invalid_options", detail: "clientId: the store belongs to client other" });
  await settled();
  const client = start(broker, { store, clientId: undefined });
  assert.equal(client.clientId, "other");
  assert.throws(() => start(broker, { store, clientId: undefined }), { code: "store_in_use" });
  await (await broker.next()).accept({ sessionPresent: true });
  await client.connected();
  await client.close();
  assert.equal(start(broker, { store, clientId: undefined }).clientId, "other");
});

test("the next client uses the assigned client identifier, too", async () => {
  const store = new MemoryStore();
  const broker = new FakeBroker();
  const client = start(broker, { store, clientId: undefined });
  await broker.accept({ properties: { assignedClientIdentifier: "chosen" } });
  await client.connected();
  await crash(client);
  assert.equal(start(broker, { store, clientId: undefined }).clientId, "chosen");
});

test("before MQTT 5.0 the first connection has no clean session, which would end with it", async () => {
  const broker = new FakeBroker();
  start(broker, { store: new MemoryStore(), protocolVersion: 4 });
  assert.equal((await (await broker.next()).accept()).cleanStart, false);
});

test("closing leaves the session to the next client, and waits until the store is closed", async () => {
  const store = new SlowStore();
  store.isSlow = false;
  const broker = new FakeBroker();
  const client = start(broker, { store });
  const link = await broker.accept();
  await client.connected();
  await client.close();
  const disconnect = await link.expect("disconnect");
  assert.equal(disconnect.properties.sessionExpiryInterval, undefined);
  assert.ok(store.isClosed);
});

test("closing without waiting sends DISCONNECT, and drops unsynced packets", async () => {
  const store = new SlowStore();
  const broker = new FakeBroker();
  const client = start(broker, { store });
  const link = await broker.accept();
  await client.connected();
  store.finish();
  await settled();
  const published = client.publish("t", "x", { qos: 1 });
  await client.close({ drainMs: 0 });
  assert.equal((await failure(published)).code, "closed");
  await link.expect("disconnect");
  store.finish();
  await settled();
  assert.deepEqual(link.received, []);
  assert.equal(store.load().outgoing.length, 1);
});

test("closing with a drain time waits for the store", async () => {
  const store = new SlowStore();
  const broker = new FakeBroker();
  const client = start(broker, { store });
  const link = await broker.accept();
  await client.connected();
  void client.publish("t", "x", { qos: 0 });
  const closed = client.close();
  await settled();
  store.finish();
  await within(closed, "end");
  assert.deepEqual(texts(link), ["publish null x", "disconnect"]);
});

test("a failed sync ends the connection, and the next connection retries it", async () => {
  const store = new SlowStore();
  const broker = new FakeBroker();
  const client = start(broker, { store });
  const link = await broker.accept();
  await client.connected();
  store.finish();
  await settled();
  const disconnected = event<{ error: MqttError }>((listener) => client.on("disconnected", listener));
  const published = client.publish("t", "x", { qos: 1 });
  await settled();
  store.finish(new Error("the disk is full"));
  const { error } = await disconnected;
  assert.equal(error.code, "store_failed");
  assert.match(error.message, /check its file and its disk \(the disk is full\) \[store_failed\]$/);
  assert.deepEqual(link.received.filter(({ type }) => type === "publish"), []);
  store.isSlow = false;
  const again = await broker.accept({ sessionPresent: true });
  const { dup } = await again.expect("publish");
  assert.equal(dup, true);
  again.give({ type: "puback", packetId: 1 });
  await within(published, "answer");
});

test("packets that waited for a sync are not sent on the next connection", async () => {
  const store = new SlowStore();
  const broker = new FakeBroker();
  const client = start(broker, { store });
  const link = await broker.accept();
  await client.connected();
  store.finish();
  await settled();
  void client.publish("t", "x", { qos: 1 });
  await settled();
  link.drop();
  const again = await broker.next();
  await settled();
  store.finish();
  store.isSlow = false;
  await again.accept({ sessionPresent: true });
  await client.connected();
  await settled();
  assert.deepEqual(texts(again), ["publish 1 again x"]);
});

test("a store that fails while there is no connection is an error event", async () => {
  const store = new SlowStore();
  const broker = new FakeBroker();
  broker.onConnection = () => false;
  const client = start(broker, { store });
  const heard = event<MqttError>((listener) => client.on("error", listener));
  void client.publish("t", "x", { qos: 1 });
  await settled();
  store.finish(new Error("broken"));
  assert.equal((await heard).code, "store_failed");
});

test("messages that are canceled, expired or dropped are removed from the store", async () => {
  const clock = new FakeClock();
  const store = new MemoryStore();
  const broker = new FakeBroker();
  const client = start(broker, { store, clock, queue: { maxMessages: 2 } });
  const giving = new AbortController();
  const first = client.publish("t", "given up", { qos: 1, signal: giving.signal });
  const second = client.publish("t", "expires", { qos: 2, properties: { messageExpiryInterval: 10 } });
  const third = client.publish("t", "does not fit", { qos: 1 });
  assert.equal((await failure(third)).code, "queue_full");
  assert.equal(store.load().outgoing.length, 2);
  giving.abort();
  assert.equal((await failure(first)).code, "canceled");
  clock.time += 20_000;
  await broker.accept();
  assert.equal((await failure(second)).code, "expired");
  assert.deepEqual(store.load().outgoing, []);
});

test("an invalid message in the store is dropped, and the lifetime of others restarts", async () => {
  const clock = new FakeClock();
  const store = new MemoryStore();
  const publish = { type: "publish", topic: "t", payload: "x", qos: 1, packetId: 1, properties: { messageExpiryInterval: 5, topicAlias: 1 } } as const;
  const packets = [new Uint8Array([1, 2, 3]), encode(publish), encode({ type: "pingreq" }), encode({ type: "publish", topic: "t", payload: "old", qos: 1, packetId: 1 }, 4)];
  packets.forEach((packet, at) => {
    store.record({ kind: "queued", sequence: at + 1, version: at === 3 ? 4 : 5, packet });
  });
  const broker = new FakeBroker();
  const client = start(broker, { store, clock });
  assert.deepEqual(store.load().outgoing.map(({ sequence }) => sequence), [2, 4]);
  const link = await broker.accept();
  await client.connected();
  await settled();
  assert.deepEqual(texts(link), ["publish 1 x", "publish 2 old"]);
  const [packet] = link.received;
  assert.ok(packet?.type === "publish");
  assert.deepEqual(packet.properties, { messageExpiryInterval: 5 });
});

test("the completion of a message is synced soon, although nothing waits for it", async () => {
  const clock = new FakeClock();
  const store = new SlowStore();
  store.isSlow = false;
  const broker = new FakeBroker();
  broker.onConnection = (connection) => {
    obedient(connection);
    return true;
  };
  const client = start(broker, { store, clock, keepAliveS: 0 });
  await client.connected();
  await client.publish("t", "x", { qos: 1 });
  await settled();
  const before = store.syncs;
  await clock.advance(100);
  assert.equal(store.syncs, before + 1);
  await clock.advance(10_000);
  assert.equal(store.syncs, before + 1);
});
