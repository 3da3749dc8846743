import assert from "node:assert/strict";
import { test } from "node:test";
import { json, MqttError, request, respond, ResponseFailure, type Message } from "@tautwire/client";
import { createClient } from "./support/clients.js";
import { FakeBroker } from "./support/fake-broker.js";
import { FakeClock } from "./support/fake-clock.js";
import { failure, settled } from "./support/waiting.js";

async function connected(protocolVersion: 4 | 5 = 5, responseInformation = "") {
  const broker = new FakeBroker();
  const clock = new FakeClock();
  const client = createClient("mqtt://x", { transport: broker.transport, clock, protocolVersion });
  const link = await broker.accept({ properties: responseInformation === "" ? {} : { responseInformation } });
  await client.connected();
  return { client, link, clock };
}

test("a hundred concurrent requests, answered in any order, share one subscription", async () => {
  const { client, link } = await connected(5, "reply/me/");
  const results = Array.from({ length: 100 }, (_, n) =>
    request(client, "add", { n }, { codec: json(), responseCodec: json<number>(), qos: 0 }),
  );
  const subscribe = await link.grant();
  assert.match(subscribe.requests[0]!.filter, /^reply\/me\/\w{16}$/);
  const requests = [];
  for (let n = 0; n < 100; n++) requests.push(await link.expect("publish"));
  await link.fence();
  for (const { properties, payload } of requests.reverse()) {
    assert.equal(properties.responseTopic, subscribe.requests[0]!.filter);
    const { n } = JSON.parse(new TextDecoder().decode(payload)) as { n: number };
    const { correlationData } = properties;
    link.give({ type: "publish", topic: properties.responseTopic, payload: String(n * 2), properties: { correlationData } });
  }
  const values = (await Promise.all(results)).map((response) => response.value);
  assert.deepEqual(values, Array.from({ length: 100 }, (_, n) => n * 2));
  await client.close();
});

test("a request settles without leaks: no response, an abort, the end of the client", async () => {
  const { client, link, clock } = await connected();
  const timers = clock.pending;
  const late = request(client, "slow", "", { timeoutMs: 500 });
  await link.grant();
  const { properties } = await link.expect("publish");
  await clock.advance(500);
  assert.equal((await failure(late)).code, "request_timeout");
  const { correlationData } = properties;
  link.give({ type: "publish", topic: properties.responseTopic!, properties: { correlationData } });
  await settled();
  assert.equal(client.counters.lateResponses, 1);

  const abort = new AbortController();
  const aborted = request(client, "slow", "", { signal: abort.signal });
  await link.expect("publish");
  abort.abort();
  assert.equal((await failure(aborted)).code, "unacknowledged");
  assert.equal((await failure(request(client, "x", "", { signal: AbortSignal.abort() }))).code, "canceled");
  assert.equal(clock.pending, timers);

  const ended = request(client, "slow", "");
  await link.expect("publish");
  await client.close({ drainMs: 0 });
  assert.equal((await failure(ended)).code, "closed");
  assert.equal((await failure(request(client, "slow", ""))).code, "closed");
  assert.equal(clock.pending, 0);
});

test("after a refused subscription to the response topic, the next request subscribes again", async () => {
  const broker = new FakeBroker();
  const client = createClient("mqtt://x", { transport: broker.transport, reconnect: { minDelayMs: 1, maxDelayMs: 1 } });
  const link = await broker.accept();
  const first = request(client, "t", "", { qos: 0 });
  await link.grant();
  const { properties } = await link.expect("publish");
  const { correlationData } = properties;
  link.give({ type: "publish", topic: properties.responseTopic!, properties: { correlationData } });
  await first;
  link.drop();
  const next = await broker.accept({ sessionPresent: false });
  const { packetId } = await next.expect("subscribe");
  next.give({ type: "suback", packetId, reasons: [0x87] });
  await settled();
  const second = request(client, "t", "", { qos: 0 });
  await next.grant();
  const again = await next.expect("publish");
  next.give({
    type: "publish",
    topic: again.properties.responseTopic!,
    properties: { correlationData: again.properties.correlationData },
  });
  await second;
  await client.close();
});

test("requests without a connection wait for it, up to their timeout", async () => {
  const broker = new FakeBroker();
  broker.onConnection = () => false;
  const clock = new FakeClock();
  const client = createClient("mqtt://x", { transport: broker.transport, clock });
  const result = request(client, "x", "", { timeoutMs: 100 });
  await clock.advance(100);
  assert.equal((await failure(result)).code, "request_timeout");
  await client.close();
});

test("a responder returns the correlation data; its errors reach the requester, unexpected ones without their message", async () => {
  const { client, link } = await connected();
  const errors: unknown[] = [];
  client.on("error", (error) => errors.push(error.code));
  const add = ({ value }: Message<number[]>) => {
    if (value.length === 0) throw new ResponseFailure("nothing to add");
    if (value.length === 1) throw new Error("secret");
    if (value.length === 3) throw new MqttError("payload_invalid", "secret");
    return value.reduce((a, b) => a + b);
  };
  const responder = respond(client, "add", add, { codec: json(), responseCodec: json(), qos: 1 });
  await link.grant();
  const bytes = (text: string) => new TextEncoder().encode(text);
  const ask = async (payload: string) => {
    const properties = { responseTopic: "r", correlationData: bytes("c") };
    link.give({ type: "publish", topic: "add", payload, properties });
    const answer = await link.expect("publish");
    assert.equal(answer.topic, "r");
    assert.deepEqual(Buffer.from(answer.properties.correlationData!), Buffer.from("c"));
    return [new TextDecoder().decode(answer.payload), answer.properties.userProperties];
  };
  assert.deepEqual(await ask("[1,2]"), ["3", undefined]);
  assert.deepEqual(await ask("[]"), ["", [["error", "nothing to add"]]]);
  assert.deepEqual(errors, []);
  assert.deepEqual(await ask("[1]"), ["", [["error", "the responder failed"]]]);
  assert.deepEqual(await ask("[1,2,3]"), ["", [["error", "the responder failed"]]]);
  assert.deepEqual(await ask("nonsense"), ["", [["error", "the responder failed"]]]);
  assert.deepEqual(errors, ["callback_failed", "callback_failed", "callback_failed"]);
  void responder.unsubscribe();
  await link.expect("unsubscribe");

  const asked = request(client, "x", "");
  await link.grant();
  const { properties } = await link.expect("publish");
  const { correlationData } = properties;
  const failed = { correlationData, userProperties: [["error", "no such thing"]] as const };
  link.give({ type: "publish", topic: properties.responseTopic!, properties: failed });
  const error = await failure(asked);
  assert.deepEqual([error.code, error.detail], ["request_failed", "no such thing"]);
  await client.close({ drainMs: 0 });
});

test("a request has QoS 1 and a unique response topic; a missing responder is reported at once", async () => {
  const { client, link } = await connected();
  const asked = request(client, "x", "");
  const { requests } = await link.grant();
  assert.match(requests[0]!.filter, /^tautwire\/response\/\w{16}$/);
  const first = await link.expect("publish");
  assert.equal(first.qos, 1);
  link.give({ type: "puback", packetId: first.packetId, reason: 0x10 });
  const error = await failure(asked);
  assert.deepEqual([error.code, error.reason], ["no_responder", 0x10]);

  // With QoS 2, PUBREC carries the reason code, and PUBCOMP does not repeat it.
  const twice = request(client, "x", "", { qos: 2 });
  const { packetId } = await link.expect("publish");
  link.give({ type: "pubrec", packetId: packetId!, reason: 0x10 });
  await link.expect("pubrel");
  link.give({ type: "pubcomp", packetId: packetId! });
  assert.equal((await failure(twice)).code, "no_responder");
  await client.close();
});

test("a request without a response topic is handled, and its response dropped", async () => {
  const { client, link } = await connected();
  const got: string[] = [];
  respond(client, "log", (message) => {
    got.push(message.text());
    return "nobody hears this";
  });
  // A request is delivered at the QoS of its PUBLISH, and so is its response.
  assert.equal((await link.grant()).requests[0]!.qos, 2);
  link.give({ type: "publish", topic: "log", payload: "x", qos: 1, packetId: 1 });
  await link.expect("puback");
  await link.fence();
  assert.deepEqual(got, ["x"]);
  await client.close();
});

test("3.1.1 has no requests", async () => {
  const { client } = await connected(4);
  assert.equal((await failure(request(client, "x", ""))).code, "not_supported");
  assert.throws(() => respond(client, "x", () => ""), { code: "not_supported" });
  await client.close();
});
