// Regardless of what a server does, every promise settles, there are no unhandled rejections, and nothing leaks.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { MqttError, request, type Client } from "@tautwire/client";
import { createClient } from "./support/clients.js";
import { answer, FakeBroker, type FakeConnection } from "./support/fake-broker.js";
import { FakeClock } from "./support/fake-clock.js";
import { failure, settled, within } from "./support/waiting.js";

const unheard: unknown[] = [];
process.on("unhandledRejection", (reason) => unheard.push(reason));

type Random = () => number;

function randomFrom(seed: number): Random {
  let state = seed * 2_654_435_761 + 1;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) / 2 ** 24;
  };
}

/** A server that mostly behaves, and sometimes stalls, closes, refuses, or sends garbage. */
function misbehave(broker: FakeBroker, random: Random): void {
  broker.onConnection = (connection) => {
    if (random() < 0.15) return false;
    if (random() < 0.1) connection.open = () => undefined;
    connection.pieceBytes = random() < 0.3 ? 1 + Math.floor(random() * 4) : Infinity;
    const isPresent = random() < 0.6;
    connection.onPacket = (packet) => {
      const chance = random();
      if (chance < 0.05) connection.drop();
      else if (chance < 0.08) connection.giveBytes(Uint8Array.from({ length: 8 }, () => Math.floor(random() * 256)));
      else if (chance < 0.11 && packet.type === "connect") connection.give({ type: "connack", reason: 0x88 });
      else if (chance < 0.11 && packet.type !== "connect") connection.give({ type: "disconnect", reason: 0x8b });
      else if (chance < 0.15) refuse(connection, packet);
      else if (chance > 0.19) answer(connection, packet, isPresent);
      if (random() < 0.2) sendSomething(connection, random);
    };
    return true;
  };
}

function refuse(connection: FakeConnection, packet: Parameters<typeof answer>[1]): void {
  if (packet.type === "publish" && packet.qos > 0) {
    connection.give({ type: packet.qos === 1 ? "puback" : "pubrec", packetId: packet.packetId!, reason: 0x97 });
  } else if (packet.type === "subscribe") {
    connection.give({ type: "suback", packetId: packet.packetId, reasons: [0x80] });
  } else {
    answer(connection, packet);
  }
}

function sendSomething(connection: FakeConnection, random: Random): void {
  const qos = Math.floor(random() * 3);
  const topic = random() < 0.5 ? "in/a" : "in/b";
  if (qos === 0) connection.give({ type: "publish", topic });
  else connection.give({ type: "publish", topic, qos: qos as 1, packetId: 1 + Math.floor(random() * 5), dup: random() < 0.5 });
}

/** Performs a random operation and returns its promises. */
function act(client: Client, random: Random): Promise<unknown>[] {
  const controller = random() < 0.3 ? new AbortController() : undefined;
  if (controller !== undefined && random() < 0.7) setImmediate(() => { controller.abort(); });
  const signal = controller?.signal;
  const choice = Math.floor(random() * 8);
  if (choice < 3) return [client.publish("out", "x", { qos: choice as 0 | 1 | 2, signal })];
  if (choice === 3) return [request(client, "ask", "x", { timeoutMs: 1 + random() * 100_000, signal })];
  if (choice === 4) {
    const subscription = client.subscribe("in/a", { qos: 1, signal, maxQueueMessages: 2 });
    const looped = (async () => {
      for await (const message of subscription) {
        if (random() < 0.3) await client.publish("out", message.payload, { qos: 1 });
        if (random() < 0.2) break;
      }
    })();
    looped.catch(() => undefined);
    return [subscription.ready, looped];
  }
  if (choice === 5) {
    const subscription = client.subscribe("in/+", { qos: 2, signal }, async () => {
      await settled();
      if (random() < 0.1) throw new Error("a handler");
    });
    return [subscription.ready, subscription.unsubscribe()];
  }
  if (choice === 6) return [client.connected({ signal })];
  client.send("out", "x");
  return [];
}

test("200 random servers: every promise settles, and nothing leaks", async () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = randomFrom(seed);
    const broker = new FakeBroker();
    const clock = new FakeClock();
    misbehave(broker, random);
    const client = createClient("mqtt://x", {
      transport: broker.transport,
      clock,
      keepAliveS: 10,
      sessionExpiryS: random() < 0.3 ? 0 : 60,
      queue: { maxMessages: 5, policy: random() < 0.5 ? "reject" : "drop-oldest" },
      onSessionLost: random() < 0.5 ? "reject" : "republish",
      reconnect: { minDelayMs: 10, maxDelayMs: 1_000 },
    });
    const promises: Promise<unknown>[] = [];
    for (let step = 0; step < 30; step++) {
      promises.push(...act(client, random));
      if (random() < 0.5) await clock.advance(random() * 3_000);
    }
    const closing = client.close({ drainMs: random() < 0.5 ? 0 : 2_000 });
    await clock.advance(5_000);
    await within(closing, `end of the client, seed ${seed}`);
    const results = await within(Promise.allSettled(promises), `end of all promises, seed ${seed}`);
    for (const result of results) {
      if (result.status === "rejected") assert.ok(result.reason instanceof MqttError, `seed ${seed}: ${String(result.reason)}`);
    }
    assert.equal(clock.pending, 0, `timers of seed ${seed}`);
    assert.equal(broker.open, 0, `connections of seed ${seed}`);
  }
  await settled();
  assert.deepEqual(unheard, []);
});

describe("signals", () => {
  test("abort a queued publish, which is not sent; the exchange of a sent one continues", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport });
    const early = new AbortController();
    const waiting = client.publish("t", "never", { qos: 1, signal: early.signal });
    early.abort();
    assert.equal((await failure(waiting)).code, "canceled");
    assert.deepEqual(client.pending, { queued: 0, inflight: 0 });
    const link = await broker.accept();
    await client.connected();
    const late = new AbortController();
    const sent = client.publish("t", "sent", { qos: 1, signal: late.signal });
    const { packetId } = await link.expect("publish");
    late.abort();
    const unknown = await failure(sent);
    assert.deepEqual([unknown.name, unknown.code], ["AbortError", "unacknowledged"]);
    assert.equal(client.pending.inflight, 1);
    link.give({ type: "puback", packetId: packetId! });
    await settled();
    assert.equal(client.pending.inflight, 0);
    const before = await failure(client.publish("t", "x", { signal: AbortSignal.abort() }));
    assert.equal(before.code, "canceled");
  });

  test("do not leak listeners", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport });
    broker.onConnection = (connection) => {
      connection.onPacket = (packet) => {
        answer(connection, packet);
      };
      return true;
    };
    await client.connected();
    let listeners = 0;
    const { signal } = new AbortController();
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...given: Parameters<typeof add>) => {
      listeners++;
      add(...given);
    };
    signal.removeEventListener = (...given: Parameters<typeof remove>) => {
      listeners--;
      remove(...given);
    };
    for (let n = 0; n < 10; n++) {
      await client.publish("t", "x", { qos: 1, signal });
      await client.connected({ signal });
      await client.subscribe("t", { signal }).unsubscribe();
      await request(client, "t", "", { signal, timeoutMs: 1 }).catch(() => undefined);
    }
    assert.ok(listeners <= 0, `${listeners} are left`);
  });

  test("an unhandled rejection does not end the program", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport });
    void client.publish("t", "x", { qos: 1 });
    void client.subscribe("t").ready;
    void request(client, "t", "x");
    void client.connected();
    void client.reauthenticate();
    await client.close();
    await settled();
    assert.deepEqual(unheard, []);
  });
});
