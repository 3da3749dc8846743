// Subscriptions that share filters, and subscriptions with several filters.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { once, type ClientOptions } from "@tautwire/client";
import type { PacketInit } from "@tautwire/mqtt-codec";
import { createClient } from "./support/clients.js";
import { FakeBroker, type FakeConnection } from "./support/fake-broker.js";
import { FakeClock } from "./support/fake-clock.js";
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

const message = (topic: string, payload: string, more: object = {}): PacketInit => ({ type: "publish", topic, payload, ...more });
const nothing = (): void => undefined;

/** Grants the next SUBSCRIBE and returns its options. */
async function asked(link: FakeConnection): Promise<unknown[]> {
  const { filter, qos, noLocal, retainAsPublished, retainHandling } = (await link.grant()).requests[0]!;
  return [filter, qos, noLocal, retainAsPublished, retainHandling];
}

describe("two subscriptions to one filter", () => {
  test("the SUBSCRIBE merges the options of both, and later has those of the remaining one", async () => {
    const { client, link } = await connected();
    const one = client.subscribe("t", { qos: 2, noLocal: true, retainHandling: 2 }, nothing);
    assert.deepEqual(await asked(link), ["t", 2, true, false, 2]);
    const two = client.subscribe("t", { qos: 0, retainAsPublished: true, retainHandling: 2 }, nothing);
    assert.deepEqual(await asked(link), ["t", 2, false, true, 2]);
    assert.deepEqual(await Promise.all([one.ready, two.ready]), [2, 2]);
    await two.unsubscribe();
    assert.deepEqual(await asked(link), ["t", 2, true, false, 2]);
    await settled();
    const three = client.subscribe("t", { qos: 1, noLocal: true, retainHandling: 1 }, nothing);
    assert.equal(await three.ready, 2);
    await one.unsubscribe();
    // Earlier subscriptions have received the retained messages.
    assert.deepEqual(await asked(link), ["t", 1, true, false, 2]);
    const last = three.unsubscribe();
    const { packetId, filters } = await link.expect("unsubscribe");
    assert.deepEqual(filters, ["t"]);
    link.give({ type: "unsuback", packetId, reasons: [0] });
    assert.equal(await (last as Promise<unknown>), undefined);
    await client.close();
  });

  test("no SUBSCRIBE without a change, unless the new one wants the retained messages", async () => {
    const { client, link } = await connected();
    const one = client.subscribe("t", { qos: 1 }, nothing);
    assert.deepEqual(await asked(link), ["t", 1, false, false, 0]);
    await one.ready;
    const two = client.subscribe("t", { qos: 1, retainHandling: 2 }, nothing);
    assert.equal(await two.ready, 1);
    await link.fence();
    await two.unsubscribe();
    await link.fence();
    const three = client.subscribe("t", { qos: 0 }, nothing);
    assert.deepEqual(await asked(link), ["t", 1, false, false, 0]);
    assert.equal(await three.ready, 1);
    await client.close();
  });

  test("without a connection, and in a new session, one SUBSCRIBE serves both", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport, reconnect: { minDelayMs: 1, maxDelayMs: 1 } });
    const got: string[] = [];
    const one = client.subscribe("t", { qos: 0 }, ({ qos }) => got.push(`one ${qos}`));
    const two = client.subscribe("t", { qos: 2, retainHandling: 2 }, ({ qos }) => got.push(`two ${qos}`));
    const link = await broker.accept();
    assert.deepEqual(await asked(link), ["t", 2, false, false, 0]);
    assert.deepEqual(await Promise.all([one.ready, two.ready]), [2, 2]);
    link.give(message("t", "x", { qos: 2, packetId: 1 }));
    await link.expect("pubrec");
    assert.deepEqual(got, ["one 2", "two 2"]);
    link.drop();
    const second = await broker.accept({ sessionPresent: false });
    assert.deepEqual(await asked(second), ["t", 2, false, false, 0]);
    await second.fence();
    await client.close();
  });

  test("a subscription added before the SUBACK takes effect, regardless of the first result", async () => {
    const { client, link } = await connected();
    const errors: unknown[] = [];
    client.on("error", (error) => errors.push(error));
    const one = client.subscribe("t", { qos: 1 }, nothing);
    const first = await link.expect("subscribe");
    const two = client.subscribe("t", { qos: 2 }, nothing);
    const second = await link.expect("subscribe");
    link.give({ type: "suback", packetId: first.packetId, reasons: [0x97] });
    link.give({ type: "suback", packetId: second.packetId, reasons: [2] });
    assert.deepEqual(await Promise.all([one.ready, two.ready]), [2, 2]);
    assert.deepEqual(errors, []);
    await client.close();
  });

  test("an unsubscribe and subscribe without a connection leaves it subscribed, and settles both", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport });
    const left = client.subscribe("t").unsubscribe();
    const again = client.subscribe("t", { qos: 1 }, nothing);
    assert.equal(await (left as Promise<unknown>), undefined);
    const link = await broker.accept();
    assert.deepEqual(await asked(link), ["t", 1, false, false, 0]);
    assert.equal(await again.ready, 1);
    await link.fence();
    await client.close();
  });
});

describe("one subscription to several filters", () => {
  test("gets a message once, and ends as a whole", async () => {
    const { client, link } = await connected();
    const got: string[] = [];
    const subscription = client.subscribe(["a/+", "b", "a/1", "b"], { qos: 1 }, (each) => got.push(each.text()));
    assert.deepEqual(subscription.filters, ["a/+", "b", "a/1"]);
    const granted = [];
    for (const qos of [1, 0, 1] as const) {
      const { packetId, requests } = await link.expect("subscribe");
      granted.push(requests[0]!.filter);
      link.give({ type: "suback", packetId, reasons: [qos] });
    }
    assert.deepEqual(granted, ["a/+", "b", "a/1"]);
    assert.equal(await subscription.ready, 0);
    link.give(message("a/1", "both", { qos: 1, packetId: 1 }), message("b", "one", { qos: 1, packetId: 2 }));
    assert.equal((await link.expect("puback")).packetId, 1);
    assert.equal((await link.expect("puback")).packetId, 2);
    assert.deepEqual(got, ["both", "one"]);
    const ended = subscription.unsubscribe();
    for (let n = 0; n < 3; n++) {
      const { packetId } = await link.expect("unsubscribe");
      link.give({ type: "unsuback", packetId, reasons: [0] });
    }
    assert.equal(await (ended as Promise<unknown>), undefined);
    await client.close();
  });

  test("is refused as a whole: its other filters end", async () => {
    const { client, link } = await connected();
    const subscription = client.subscribe(["a", "b"], { qos: 1 });
    const looped = failure(subscription[Symbol.asyncIterator]().next());
    const { packetId } = await link.expect("subscribe");
    link.give({ type: "suback", packetId, reasons: [0x87] });
    const refused = await failure(subscription.ready);
    assert.deepEqual([refused.code, refused.detail], ["subscribe_refused", "a"]);
    assert.equal(await looped, refused);
    assert.deepEqual((await link.expect("subscribe")).requests[0]!.filter, "b");
    assert.deepEqual((await link.expect("unsubscribe")).filters, ["b"]);
    await client.close({ drainMs: 0 });
  });

  test("invalid ones are refused immediately", async () => {
    const { client, link } = await connected();
    for (const wrong of [[], ["a", "b/#/c"], [""], undefined, 7, { a: { qos: 1 } }, [["a"]]]) {
      assert.throws(() => client.subscribe(wrong as never), { code: "invalid_argument" }, JSON.stringify(wrong));
    }
    assert.throws(() => client.subscribe("t", { qos: 3 as 2 }), { code: "invalid_argument", detail: "QoS 3: must be 0, 1 or 2" });
    assert.throws(() => client.subscribe("$share/g/t", { noLocal: true }), { code: "invalid_argument" });
    assert.throws(() => client.subscribe("t", { retainHandling: 3 as 2 }), { code: "invalid_argument" });
    assert.throws(() => client.subscribe("t", { QoS: 1 } as object), { code: "invalid_options", detail: /did you mean qos\?/ });
    await link.fence();
    await client.close();
  });
});

describe("a refusal is reported once", () => {
  const refuse = async (link: FakeConnection): Promise<void> => {
    const { packetId } = await link.expect("subscribe");
    link.give({ type: "suback", packetId, reasons: [0x87] });
    await settled();
  };

  test("by `ready`, by a loop, or else as an `error`; of a subscription that was granted, always as an `error`", async () => {
    const { broker, client, link } = await connected();
    const errors: string[] = [];
    client.on("error", ({ code, detail }) => errors.push(`${code} ${detail}`));
    const watched = client.subscribe("watched", nothing).ready;
    await refuse(link);
    assert.equal((await failure(watched)).code, "subscribe_refused");
    const looped = failure(client.subscribe("looped")[Symbol.asyncIterator]().next());
    await refuse(link);
    assert.equal((await looped).code, "subscribe_refused");
    assert.deepEqual(errors, []);
    client.subscribe("unwatched", nothing);
    await refuse(link);
    assert.deepEqual(errors, ["subscribe_refused unwatched"]);
    const later = client.subscribe("later", nothing);
    await link.grant();
    await later.ready;
    link.drop();
    await refuse(await broker.accept({ sessionPresent: false }));
    assert.deepEqual(errors, ["subscribe_refused unwatched", "subscribe_refused later"]);
    await client.close();
  });
});

describe("once", () => {
  test("resolves with the first message, and unsubscribes", async () => {
    const clock = new FakeClock();
    const { client, link } = await connected({ clock });
    const timers = clock.pending;
    const first = once(client, ["a", "b"], { qos: 1, timeoutMs: 500 });
    await link.grant();
    await link.grant();
    link.give(message("b", "x", { qos: 1, packetId: 1 }), message("b", "y", { qos: 1, packetId: 2 }));
    assert.equal((await first).text(), "x");
    assert.equal((await link.expect("puback")).packetId, 1);
    assert.equal((await link.expect("puback")).packetId, 2);
    for (let n = 0; n < 2; n++) await link.expect("unsubscribe");
    assert.equal(clock.pending, timers);
    await client.close({ drainMs: 0 });
  });

  test("ends by a timeout, a signal, a refusal, and with the client", async () => {
    const clock = new FakeClock();
    const { client, link } = await connected({ clock });
    const late = once(client, "t", { timeoutMs: 500 });
    await link.grant();
    await clock.advance(500);
    const error = await failure(late);
    assert.equal(error.code, "timeout");
    assert.match(error.message, /t, 500 ms/);
    await link.expect("unsubscribe");

    const abort = new AbortController();
    const aborted = once(client, "u", { signal: abort.signal });
    await link.grant();
    abort.abort(new Error("enough"));
    assert.match((await failure(aborted)).message, /enough/);
    await link.expect("unsubscribe");
    assert.equal((await failure(once(client, "u", { signal: AbortSignal.abort() }))).code, "canceled");
    await link.expect("subscribe");
    await link.expect("unsubscribe");

    const refused = once(client, "v");
    const { packetId } = await link.expect("subscribe");
    link.give({ type: "suback", packetId, reasons: [0x87] });
    assert.equal((await failure(refused)).code, "subscribe_refused");
    assert.throws(() => once(client, "#/a"), { code: "invalid_argument" });

    const ended = once(client, "w");
    await link.expect("subscribe");
    await client.close({ drainMs: 0 });
    assert.equal((await failure(ended)).code, "closed");
    assert.equal(clock.pending, 0);
  });
});
