import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { once, type ClientOptions, type Message, type Subscription } from "@tautwire/client";
import type { PacketInit } from "@tautwire/mqtt-codec";
import { createClient } from "./support/clients.js";
import { FakeClock } from "./support/fake-clock.js";
import { FakeBroker } from "./support/fake-broker.js";
import { failure, settled } from "./support/waiting.js";

async function connected(options: ClientOptions = {}) {
  const broker = new FakeBroker();
  const client = createClient("mqtt://x", {
    transport: broker.transport,
    reconnect: { minDelayMs: 1, maxDelayMs: 1 },
    ...options,
  });
  const link = await broker.accept();
  await client.connected();
  return { broker, client, link };
}

const message = (payload: string, more: object = {}): PacketInit => ({ type: "publish", topic: "t", payload, ...more });

async function take(subscription: Subscription, count: number): Promise<string[]> {
  const loop = subscription[Symbol.asyncIterator]();
  const got: string[] = [];
  while (got.length < count) {
    const next = await loop.next();
    if (next.done === true) break;
    got.push(next.value.text());
  }
  return got;
}

describe("loops", () => {
  test("messages come in order, each is acknowledged when the loop requests the next, and leaving unsubscribes", async () => {
    const { client, link } = await connected();
    const subscription = client.subscribe("t", { qos: 1 });
    await link.grant();
    for (const packetId of [1, 2, 3]) link.give(message(String(packetId), { qos: 1, packetId }));
    const seen: string[] = [];
    for await (const each of subscription) {
      if (seen.length > 0) assert.equal((await link.expect("puback")).packetId, 1);
      await link.fence();
      if (seen.push(each.text()) === 2) break;
    }
    assert.deepEqual(seen, ["1", "2"]);
    assert.equal((await link.expect("puback")).packetId, 2);
    // Dropped messages must not block the acknowledgements of later ones.
    assert.equal((await link.expect("puback")).packetId, 3);
    assert.deepEqual((await link.expect("unsubscribe")).filters, ["t"]);
    await client.close({ drainMs: 0 });
  });

  describe("in a session that outlives the client", () => {
    const LASTING: ClientOptions = { clientId: "c", sessionExpiryS: 300, cleanStart: false };

    /** Receives three messages, and leaves the loop at the first. */
    async function left(options: ClientOptions) {
      const { client, link } = await connected(options);
      const subscription = client.subscribe("t", { qos: 1 });
      await link.grant();
      for (const packetId of [1, 2, 3]) link.give(message(String(packetId), { qos: 1, packetId }));
      await assert.rejects(async () => {
        for await (const each of subscription) {
          assert.equal(each.text(), "1");
          throw new Error("on 1");
        }
      }, /on 1/);
      return { client, link, subscription };
    }

    test("a loop that throws sends nothing to the server, and the next loop continues with its message", async () => {
      const { client, link, subscription } = await left(LASTING);
      // Neither PUBACK nor UNSUBSCRIBE has been sent.
      await link.fence();
      link.give(message("4", { qos: 1, packetId: 4 }));
      assert.deepEqual(await take(subscription, 4), ["1", "2", "3", "4"]);
      assert.equal((await link.expect("puback")).packetId, 1);
      await client.close({ drainMs: 0 });
    });

    for (const how of ["loop", "handler"]) {
      test(`another subscription takes over what waits: ${how}`, async () => {
        const { client, link } = await left(LASTING);
        const seen: string[] = [];
        const next = client.subscribe("t", { qos: 1 }, ...(how === "handler" ? [(each: Message) => seen.push(each.text())] : []));
        await link.grant();
        link.give(message("4", { qos: 1, packetId: 4 }));
        if (how === "loop") seen.push(...(await take(next, 4)));
        await settled();
        assert.deepEqual(seen, ["1", "2", "3", "4"]);
        await client.close({ drainMs: 0 });
      });
    }

    test("unsubscribe() ends it and acknowledges the queued messages", async () => {
      const { client, link, subscription } = await left(LASTING);
      void subscription.unsubscribe();
      for (const packetId of [1, 2, 3]) assert.equal((await link.expect("puback")).packetId, packetId);
      assert.deepEqual((await link.expect("unsubscribe")).filters, ["t"]);
      await client.close({ drainMs: 0 });
    });

    test("a message that was acknowledged before the loop was left is not delivered again", async () => {
      const { client, link } = await connected(LASTING);
      const subscription = client.subscribe("t", { qos: 1 });
      await link.grant();
      for (const packetId of [1, 2]) link.give(message(String(packetId), { qos: 1, packetId }));
      for await (const each of subscription) {
        each.acknowledge();
        break;
      }
      assert.equal((await link.expect("puback")).packetId, 1);
      assert.deepEqual(await take(subscription, 1), ["2"]);
      await client.close({ drainMs: 0 });
    });

    test("once() unsubscribes nevertheless", async () => {
      const { client, link } = await connected(LASTING);
      const first = once(client, "t", { qos: 1 });
      await link.grant();
      link.give(message("1", { qos: 1, packetId: 1 }));
      assert.equal((await first).text(), "1");
      assert.equal((await link.expect("puback")).packetId, 1);
      assert.deepEqual((await link.expect("unsubscribe")).filters, ["t"]);
      await client.close({ drainMs: 0 });
    });
  });

  test("end with the client, and throw if it ended with an error", async () => {
    const { client, link } = await connected();
    const ended = take(client.subscribe("t"), 5);
    await link.grant();
    link.give(message("1"));
    await settled();
    await client.close();
    assert.deepEqual(await ended, ["1"]);

    const second = await connected();
    const failed = failure(take(second.client.subscribe("t"), 5));
    await second.link.grant();
    second.link.give({ type: "disconnect", reason: 0x8e });
    const error = await failed;
    assert.equal(error.code, "closed");
    assert.equal((error.cause as { code: string }).code, "session_taken_over");
  });

  test("a refused subscription: ready rejects, the loop throws", async () => {
    const { client, link } = await connected();
    const subscription = client.subscribe("t");
    const looped = failure(take(subscription, 1));
    const { packetId } = await link.expect("subscribe");
    link.give({ type: "suback", packetId, reasons: [0x87], properties: { reasonString: "no" } });
    const refused = await failure(subscription.ready);
    assert.equal(refused.code, "subscribe_refused");
    assert.equal(refused.reason, 0x87);
    assert.match(refused.message, /0x87.*no/);
    assert.equal(await looped, refused);
    await client.close();
  });

  test("resubscribes in a new session, but not in a resumed one", async () => {
    const { broker, client, link } = await connected();
    const subscription = client.subscribe("t", { qos: 1 });
    await link.grant();
    link.drop();
    const second = await broker.accept({ sessionPresent: true });
    await client.connected();
    await second.fence();
    second.drop();
    const third = await broker.accept({ sessionPresent: false });
    await third.grant();
    third.give(message("x"));
    assert.deepEqual(await take(subscription, 1), ["x"]);
    await client.close();
  });

  test("unacknowledged SUBSCRIBEs are sent again on the next connection", async () => {
    const { broker, client, link } = await connected();
    const one = client.subscribe("one");
    await link.expect("subscribe");
    const two = client.subscribe("two");
    await link.grant().catch(() => undefined);
    await two.ready;
    const ending = two.unsubscribe();
    await link.expect("unsubscribe");
    link.drop();
    const second = await broker.accept({ sessionPresent: true });
    const again = await second.grant();
    assert.equal(again.requests[0]?.filter, "one");
    const { packetId } = await second.expect("unsubscribe");
    second.give({ type: "unsuback", packetId, reasons: [0] });
    await Promise.all([one.ready, ending]);
    await client.close();
  });

  test("a signal ends a subscription; an aborted one prevents it", async () => {
    const { client, link } = await connected();
    const abort = new AbortController();
    const subscription = client.subscribe("t", { signal: abort.signal });
    const looped = failure(take(subscription, 1));
    const { packetId } = await link.expect("subscribe");
    abort.abort(new Error("enough"));
    const error = await failure(subscription.ready);
    assert.equal(error.code, "canceled");
    assert.equal(error.name, "AbortError");
    assert.equal((error.cause as Error).message, "enough");
    assert.equal((await looped).code, "canceled");
    link.give({ type: "suback", packetId, reasons: [0] });
    await link.expect("unsubscribe");
    assert.equal((await failure(client.subscribe("u", { signal: AbortSignal.abort() }).ready)).code, "canceled");
    await client.close({ drainMs: 0 });
  });
});

describe("handlers", () => {
  test("acknowledgement waits for the promise of the handler", async () => {
    const { client, link } = await connected();
    let finish = (): void => undefined;
    client.subscribe("t", { qos: 1 }, () => new Promise<void>((resolve) => (finish = resolve)));
    await link.grant();
    link.give(message("x", { qos: 1, packetId: 3 }));
    await link.fence();
    finish();
    assert.equal((await link.expect("puback")).packetId, 3);
    await client.close();
  });

  for (const concurrency of [undefined, 3]) {
    const most = concurrency ?? 1;
    test(`at most ${most} at once at any QoS, in order, and the others wait in the bounded queue`, async () => {
      const { client, link } = await connected();
      const begun: string[] = [];
      const ends: (() => void)[] = [];
      const options = { qos: 1, concurrency, maxQueueMessages: 5 } as const;
      const subscription = client.subscribe("t", options, (each) => {
        begun.push(each.text());
        return new Promise<void>((resolve) => ends.push(resolve));
      });
      await link.grant();
      for (let n = 0; n < 20; n++) link.give(message(String(n), n % 2 === 0 ? {} : { qos: 1, packetId: n }));
      await settled();
      assert.deepEqual([begun.length, subscription.queued, link.isPaused], [most, 5, true]);
      while (begun.length < 20 || ends.length > 0) {
        ends.shift()?.();
        await settled();
        assert.ok(ends.length <= most);
      }
      assert.deepEqual(begun, Array.from({ length: 20 }, (_, n) => String(n)));
      for (let n = 1; n < 20; n += 2) assert.equal((await link.expect("puback")).packetId, n);
      await client.close();
    });
  }

  test("a thenable is awaited, also a lazy one", async () => {
    const { client, link } = await connected();
    let settle: (() => void) | undefined;
    const query = { then: (resolve: () => void) => (settle = resolve) };
    client.subscribe("t", { qos: 1 }, () => query);
    await link.grant();
    link.give(message("x", { qos: 1, packetId: 3 }));
    await link.fence();
    assert.ok(settle);
    settle();
    assert.equal((await link.expect("puback")).packetId, 3);
    await client.close();
  });

  test("concurrency is a whole number from 1", async () => {
    const { client } = await connected();
    for (const concurrency of [0, 1.5, NaN]) {
      assert.throws(() => client.subscribe("t", { concurrency }, () => undefined), { code: "invalid_options" });
    }
    await client.close();
  });

  test("a failure is reported, and the message is refused, so that later ones continue", async () => {
    const { client, link } = await connected();
    const errors: unknown[] = [];
    client.on("error", (error) => errors.push(error.code, (error.cause as Error).message));
    client.subscribe("t", { qos: 1 }, (each) => {
      if (each.text() === "sync") throw new Error("sync");
      return Promise.reject(new Error("async"));
    });
    await link.grant();
    link.give(message("sync", { qos: 1, packetId: 1 }), message("async", { qos: 1, packetId: 2 }));
    assert.equal((await link.expect("puback")).reason, 0x83);
    assert.equal((await link.expect("puback")).reason, 0x83);
    assert.deepEqual(errors, ["callback_failed", "sync", "callback_failed", "async"]);
    await client.close();
  });

  test("a handler may publish, subscribe and close", async () => {
    const { client, link } = await connected();
    client.subscribe("t", (each) => {
      client.send("echo", each.payload);
      void client.subscribe("more");
      void client.close({ drainMs: 0 });
    });
    await link.grant();
    link.give(message("1"), message("2"));
    await link.expect("publish");
    await link.expect("subscribe");
    await link.expect("disconnect");
    assert.deepEqual(link.received, []);
  });
});

describe("several subscriptions", () => {
  test("to one filter: each gets every message, and only the last one unsubscribes", async () => {
    const { client, link } = await connected();
    const got: string[] = [];
    const one = client.subscribe("t", { qos: 1 }, (each) => got.push(`one ${each.text()}`));
    const two = client.subscribe("t", { qos: 1, ack: "manual" }, (each) => {
      got.push(`two ${each.text()}`);
      setImmediate(() => {
        each.acknowledge();
      });
    });
    await link.grant();
    await link.grant();
    link.give(message("x", { qos: 1, packetId: 1 }));
    await link.expect("puback");
    assert.deepEqual(got, ["one x", "two x"]);
    await one.unsubscribe();
    await link.fence();
    void two.unsubscribe();
    await link.expect("unsubscribe");
    await client.close({ drainMs: 0 });
  });

  test("that overlap: the identifiers tell which one a copy is for", async () => {
    const { client, link } = await connected();
    const got: string[] = [];
    client.subscribe("t", (each) => got.push(`t ${each.text()}`));
    client.subscribe("#", (each) => got.push(`# ${each.text()}`));
    client.subscribe("$share/g/t", (each) => got.push(`share ${each.text()}`));
    const identifiers: number[] = [];
    for (let n = 0; n < 3; n++) identifiers.push((await link.grant()).properties.subscriptionIdentifier!);
    const [t, all, share] = identifiers as [number, number, number];
    link.give(
      message("a", { properties: { subscriptionIdentifiers: [t] } }),
      message("a", { properties: { subscriptionIdentifiers: [all] } }),
      message("b", { properties: { subscriptionIdentifiers: [t, all] } }),
      message("c", { properties: { subscriptionIdentifiers: [share] } }),
      message("d"),
    );
    await settled();
    assert.deepEqual(got, ["t a", "# a", "# b", "t b", "share c", "# d", "t d", "share d"]);
    await client.close();
  });

  test("messages without a subscription go to the listeners of `message`, or are counted and acknowledged", async () => {
    const { client, link } = await connected();
    link.give(message("x", { qos: 1, packetId: 1 }));
    await link.expect("puback");
    assert.equal(client.counters.unhandled, 1);
    const got: Message[] = [];
    client.on("message", (each) => got.push(each));
    link.give(message("y", { qos: 1, packetId: 2 }));
    await link.fence();
    got[0]!.acknowledge();
    got[0]!.acknowledge();
    assert.equal((await link.expect("puback")).packetId, 2);
    await link.fence();
    await client.close();
  });
});

describe("backpressure", () => {
  const flood = (count: number, from = 0): PacketInit[] =>
    Array.from({ length: count }, (_, n) => message(String(from + n)));

  test("pause: the client pauses reading, and loses nothing", async () => {
    const { client, link } = await connected();
    const subscription = client.subscribe("t", { maxQueueMessages: 10 });
    const loop = subscription[Symbol.asyncIterator]();
    await link.grant();
    link.give(...flood(100));
    await settled();
    assert.equal(link.isPaused, true);
    assert.equal(subscription.queued, 10);
    const got: string[] = [];
    while (got.length < 100) {
      const next = await loop.next();
      if (next.done !== true) got.push(next.value.text());
    }
    assert.deepEqual(got, Array.from({ length: 100 }, (_, n) => String(n)));
    assert.equal(link.isPaused, false);
    assert.equal(client.counters.receivedDropped, 0);
    assert.ok(client.counters.pauses >= 1);
    await client.close();
  });

  for (const how of ["loop", "handler"]) {
    test(`a slow ${how} pauses reading for a second at most; then the client names it, and drops what does not fit`, async () => {
      const clock = new FakeClock();
      const { client, link } = await connected({ clock });
      const heldUp: unknown[] = [];
      client.on("held_up", ({ subscription }) => heldUp.push(subscription));
      const ends: (() => void)[] = [];
      const handler = () => new Promise<void>((resolve) => ends.push(resolve));
      const slow = client.subscribe("t", { maxQueueMessages: 10 }, ...(how === "handler" ? [handler] : []));
      const loop = how === "loop" ? slow[Symbol.asyncIterator]() : undefined;
      await link.grant();
      const fast = client.subscribe("fast");
      const arrived = take(fast, 1);
      await link.grant();
      link.give(...flood(100), message("x", { topic: "fast" }));
      await settled();
      await clock.advance(999);
      assert.deepEqual([link.isPaused, heldUp], [true, []]);
      await clock.advance(1);
      assert.deepEqual(await arrived, ["x"]);
      const begun = how === "handler" ? 1 : 0;
      assert.deepEqual([heldUp, slow.queued, slow.dropped, fast.dropped], [[slow], 10, 90 - begun, 0]);
      assert.equal(client.counters.heldUp, 1);
      // When half of the queue is free, it may pause reading again.
      for (let n = 0; n < 6; n++) {
        if (loop === undefined) ends.shift()?.();
        else await loop.next();
        await settled();
      }
      link.give(...flood(20));
      await settled();
      assert.equal(link.isPaused, true);
      await client.close({ drainMs: 0 });
    });
  }

  test("pause within one chunk of bytes", async () => {
    const { client, link } = await connected();
    const subscription = client.subscribe("t", { maxQueueMessages: 10 });
    const loop = subscription[Symbol.asyncIterator]();
    await link.grant();
    const { encode } = await import("@tautwire/mqtt-codec");
    link.giveBytes(new Uint8Array(Buffer.concat(flood(1_000).map((packet) => encode(packet)))));
    await settled();
    assert.equal(subscription.queued, 10);
    for (let n = 0; n < 1_000; n++) {
      const next = await loop.next();
      assert.equal(next.done === true ? "" : next.value.text(), String(n));
    }
    await client.close();
  });

  test("a loop that awaits an acknowledgement while its queue is full does not deadlock", async () => {
    const { client, link } = await connected();
    const subscription = client.subscribe("t", { maxQueueMessages: 5 });
    await link.grant();
    let count = 0;
    const looping = (async () => {
      for await (const each of subscription) {
        await client.publish("out", each.payload, { qos: 1 });
        if (++count === 3) break;
      }
    })();
    link.give(...flood(20));
    for (let n = 0; n < 3; n++) {
      const { packetId } = await link.expect("publish");
      // More messages precede the acknowledgement than the queue holds.
      link.give(...flood(20, 20), { type: "puback", packetId: packetId! });
    }
    await looping;
    assert.ok(client.counters.receivedDropped > 0);
    await client.close({ drainMs: 0 });
  });

  test("QoS 1 messages are never dropped: unread ones are not acknowledged", async () => {
    const { client, link } = await connected({ receiveMaximum: 8 });
    const subscription = client.subscribe("t", { qos: 1, maxQueueMessages: 2, overflow: "drop-newest" });
    await link.grant();
    for (let packetId = 1; packetId <= 8; packetId++) link.give(message(String(packetId), { qos: 1, packetId }));
    await link.fence();
    assert.equal(subscription.queued, 8);
    const loop = subscription[Symbol.asyncIterator]();
    for (let n = 1; n <= 8; n++) {
      await loop.next();
      if (n > 1) assert.equal((await link.expect("puback")).packetId, n - 1);
    }
    await link.fence();
    await client.close({ drainMs: 0 });
  });

  test("drop-oldest and drop-newest keep the newest and the oldest, and count", async () => {
    for (const [overflow, want] of [
      ["drop-oldest", ["3", "4"]],
      ["drop-newest", ["0", "1"]],
    ] as const) {
      const { client, link } = await connected();
      const subscription = client.subscribe("t", { maxQueueMessages: 2, overflow });
      await link.grant();
      link.give(...flood(5));
      await settled();
      assert.equal(client.counters.receivedDropped, 3);
      assert.deepEqual(await take(subscription, 2), want);
      await client.close();
    }
  });

  test("a subscription without a loop does not block the others", async () => {
    const { client, link } = await connected();
    client.subscribe("t", { maxQueueMessages: 5 });
    await link.grant();
    link.give(...flood(100));
    await settled();
    assert.equal(link.isPaused, false);
    assert.equal(client.counters.receivedDropped, 95);
    await client.close();
  });

  test("the limit of bytes applies, too", async () => {
    const { client, link } = await connected();
    const subscription = client.subscribe("t", { maxQueueBytes: 100, overflow: "drop-newest" });
    await link.grant();
    link.give(message("x".repeat(60)), message("y".repeat(60)), message("z".repeat(40)));
    await settled();
    assert.deepEqual(await take(subscription, 2), ["x".repeat(60), "z".repeat(40)]);
    await client.close();
  });
});
