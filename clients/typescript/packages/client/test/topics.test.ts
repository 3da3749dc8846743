import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { bytes, json, MqttError, text, topic, type Client, type TopicParams } from "@tautwire/client";
import { msgpack } from "@tautwire/client/msgpack";
import { Router } from "#esm/topics/router.js";
import { createClient } from "./support/clients.js";
import { FakeBroker } from "./support/fake-broker.js";
import { failure } from "./support/waiting.js";

/** Builds a string; long ones are described by their parts. */
type Parts = readonly ({ hex: string } | { repeat: string; count: number })[];

interface Vector {
  filter?: string;
  filter_parts?: Parts;
  topic?: string;
  topic_parts?: Parts;
  matches?: boolean;
  result?: string;
}

function vectors(name: string): { filter: string; topic: string; matches: boolean; result: string }[] {
  const url = new URL(`../../../../../../spec/vectors/topics/${name}.json`, import.meta.url);
  return (JSON.parse(readFileSync(url, "utf8")) as { vectors: Vector[] }).vectors.map((vector) => ({
    filter: vector.filter ?? joined(vector.filter_parts),
    topic: vector.topic ?? joined(vector.topic_parts),
    matches: vector.matches === true,
    result: vector.result ?? "",
  }));
}

function joined(parts: Parts = []): string {
  const hex = parts.map((part) => ("hex" in part ? part.hex : part.repeat.repeat(part.count)));
  return Buffer.from(hex.join(""), "hex").toString("utf8");
}

describe("the router", () => {
  const cases = vectors("matching");

  test("matches the vectors, alone and among all other filters", () => {
    const all = new Router<string>();
    for (const filter of new Set(cases.map((each) => each.filter))) all.add(filter, filter);
    for (const { filter, topic: name, matches } of cases) {
      const one = new Router<string>();
      one.add(filter, filter);
      assert.equal(one.match(name).includes(filter), matches, `${filter} ${name}`);
      assert.equal(all.match(name).includes(filter), matches, `${filter} ${name} among others`);
      assert.equal(all.match(name).includes(filter), matches, `${filter} ${name} again`);
    }
  });

  test("removes filters with their nodes", () => {
    const router = new Router<number>();
    const filters = [...new Set(cases.map((each) => each.filter))];
    for (const [n, filter] of filters.entries()) router.add(filter, n);
    for (const [n, filter] of filters.entries()) router.remove(filter, n);
    for (const { topic: name } of cases) assert.deepEqual(router.match(name), []);
    const { root } = router as unknown as { root: { children: Map<string, unknown> | null; rest: unknown[] } };
    assert.equal(root.children?.size ?? 0, 0);
    assert.equal(root.rest.length, 0);
  });

  test("topics that never repeat do not grow the cache without limit", () => {
    const router = new Router<number>();
    router.add("#", 1);
    for (let n = 0; n < 10_000; n++) router.match(`t/${n}`);
    const { cache } = router as unknown as { cache: Map<string, unknown> };
    assert.ok(cache.size <= 2_048);
  });

  test("accepts and refuses filters like the vectors", async () => {
    const client = createClient("mqtt://x", { transport: new FakeBroker().transport });
    for (const { filter, result } of vectors("filters")) {
      if (result === "valid") client.subscribe(filter);
      else assert.throws(() => client.subscribe(filter), MqttError, JSON.stringify(filter));
    }
    for (const { topic: name, result } of vectors("names")) {
      const published = client.publish(name, "", { qos: 1, signal: AbortSignal.abort() });
      assert.equal((await failure(published)).code, result === "valid" ? "canceled" : "invalid_argument", name);
    }
  });
});

describe("typed topics", () => {
  const reading = topic("sensors/{id}/reading", json<{ celsius: number }>());
  const files = topic("files/{drive}/{path...}");

  test("names, filters and parameters", () => {
    assert.equal(reading.filter, "sensors/+/reading");
    assert.equal(reading.name({ id: 7 }), "sensors/7/reading");
    assert.deepEqual(reading.match("sensors/a b/reading"), { id: "a b" });
    assert.equal(reading.match("sensors/a/b/reading"), null);
    assert.equal(reading.match("sensors/a/readings"), null);
    assert.equal(files.filter, "files/+/#");
    assert.equal(files.name({ drive: "c", path: "a/b" }), "files/c/a/b");
    assert.deepEqual(files.match("files/c/a/b"), { drive: "c", path: "a/b" });
    assert.deepEqual(files.match("files/c"), { drive: "c", path: "" });
    assert.equal(files.filterFor({ drive: "c" }), "files/c/#");
    assert.equal(topic("plain").name({}), "plain");
  });

  test("parameters that would change the structure of a name are refused", () => {
    for (const id of ["a/b", "+", "#", "a\0"]) assert.throws(() => reading.name({ id }), { code: "invalid_argument" });
    assert.throws(() => reading.filterFor({ id: "+" }), { code: "invalid_argument" });
    assert.throws(() => reading.name({} as { id: string }), { code: "invalid_argument" });
    for (const pattern of ["", "a/{x}b", "{a}/{a}", "{a...}/b", "a/+", "{}", "a/#", "{a"]) {
      assert.throws(() => topic(pattern), { code: "invalid_argument" }, pattern);
    }
  });

  test("publish and subscribe with them", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", { transport: broker.transport });
    const link = await broker.accept();
    await client.connected();
    await client.publish(reading, { id: "7" }, { celsius: 21.5 });
    const sent = await link.expect("publish");
    assert.equal(sent.topic, "sensors/7/reading");
    assert.equal(sent.properties.contentType, "application/json");
    assert.equal(sent.properties.payloadFormatIndicator, 1);
    const subscription = client.subscribe(reading, { params: { id: 8 } });
    assert.equal((await link.grant()).requests[0]?.filter, "sensors/8/reading");
    const all = client.subscribe(reading);
    assert.equal((await link.grant()).requests[0]?.filter, "sensors/+/reading");
    link.give({ type: "publish", topic: "sensors/8/reading", payload: '{"celsius":3}' });
    for await (const message of subscription) {
      const { celsius }: { celsius: number } = message.value;
      const { id }: { id: string } = message.params;
      assert.deepEqual([celsius, id], [3, "8"]);
      break;
    }
    link.give({ type: "publish", topic: "sensors/9/reading", payload: "not JSON" });
    for await (const message of all) {
      if (message.params.id === "8") continue;
      assert.throws(() => message.value, { code: "payload_invalid" });
      break;
    }
  });

  test("types: wrong parameters and values do not compile", () => {
    const params: TopicParams<"a/{b}/{c...}"> = { b: "1", c: "2" };
    assert.ok(params);
    const typed = (client: Client): void => {
      void client.publish(reading, { id: "7" }, { celsius: 1 });
      // @ts-expect-error: the parameter is missing
      void client.publish(reading, {}, { celsius: 1 });
      // @ts-expect-error: there is no such parameter
      void client.publish(reading, { id: "7", other: "8" }, { celsius: 1 });
      // @ts-expect-error: the value has another type
      void client.publish(reading, { id: "7" }, { fahrenheit: 1 });
      client.subscribe(reading, (message) => {
        message.value.celsius.toFixed();
        // @ts-expect-error: the value has no such field
        assert.ok(message.value.fahrenheit);
        // @ts-expect-error: there is no such parameter
        assert.ok(message.params.other);
      });
      client.subscribe("x", { codec: text }, (message) => message.value.toUpperCase());
      // @ts-expect-error: without a codec the value is not known
      client.subscribe("x", (message) => message.value.length);
    };
    assert.equal(typeof typed, "function");
  });
});

describe("codecs", () => {
  const values = { text: "grüß", list: [1, 2.5, null], nested: { deep: true } };

  for (const codec of [json(), msgpack()]) {
    test(`${codec.contentType} gives back what it took`, () => {
      const encoded = codec.encode(values);
      const payload = typeof encoded === "string" ? new TextEncoder().encode(encoded) : encoded;
      assert.deepEqual(codec.decode(payload), values);
    });
  }

  test("text refuses invalid UTF-8, bytes accept anything, JSON refuses values that it cannot express", () => {
    assert.throws(() => text.decode(Uint8Array.of(0xff)));
    assert.equal(text.decode(new TextEncoder().encode("\ufeffx")), "\ufeffx");
    assert.deepEqual(bytes.decode(bytes.encode(Uint8Array.of(1)) as Uint8Array), Uint8Array.of(1));
    assert.throws(() => json().encode(undefined));
  });

  test("parse validates received values", () => {
    const parse = (value: unknown): number => {
      if (typeof value !== "number") throw new TypeError("not a number");
      return value;
    };
    const payload = (value: string) => new TextEncoder().encode(value);
    assert.equal(json(parse).decode(payload("1")), 1);
    assert.throws(() => json(parse).decode(payload('"x"')), TypeError);
    assert.throws(() => msgpack({ parse }).decode(msgpack().encode("x") as Uint8Array), TypeError);
  });

  test("are chosen by subscription, by content type, by topic, and by the payload format", async () => {
    const broker = new FakeBroker();
    const client = createClient("mqtt://x", {
      transport: broker.transport,
      codecs: [json(), msgpack()],
      topicCodecs: { "packed/#": msgpack() },
    });
    const link = await broker.accept();
    await client.connected();
    const got: unknown[] = [];
    client.subscribe("#", (message) => got.push(message.value));
    client.subscribe("$own", { codec: text }, (message) => got.push(message.value));
    await link.grant();
    await link.grant();
    const packed = msgpack().encode([1]);
    link.give(
      { type: "publish", topic: "a", payload: "[2]", properties: { contentType: "Application/JSON; charset=utf-8" } },
      { type: "publish", topic: "a", payload: packed, properties: { contentType: "application/msgpack" } },
      { type: "publish", topic: "packed/x", payload: packed },
      { type: "publish", topic: "a", payload: "t", properties: { payloadFormatIndicator: 1 } },
      { type: "publish", topic: "a", payload: "b" },
      { type: "publish", topic: "$own", payload: "own", properties: { contentType: "application/json" } },
    );
    await client.publish("packed/out", { a: 1 });
    const sent = await link.expect("publish");
    assert.equal(sent.properties.contentType, "application/msgpack");
    assert.deepEqual(msgpack().decode(sent.payload), { a: 1 });
    await link.fence();
    assert.deepEqual(got, [[2], [1], [1], "t", new TextEncoder().encode("b"), "own"]);
  });
});
