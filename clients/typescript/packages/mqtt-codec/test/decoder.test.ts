import assert from "node:assert/strict";
import { test } from "node:test";
import { encode, MqttDecoder, type Connect, type Packet, type PublishInit, type Subscribe } from "@tautwire/mqtt-codec";
import { TextCache, TOPICS } from "#esm/decode/text-cache.js";
import { flagsOf } from "#esm/bytes.js";
import { shortAscii } from "#esm/decode/short-ascii.js";
import { decodeText, illFormedAt, usePlatformText } from "#esm/decode/text.js";

function message(topic: string, payload: Uint8Array | string = ""): PublishInit {
  return { type: "publish", topic, payload };
}

function readAll(decoder: MqttDecoder, ...chunks: Uint8Array[]): Packet[] {
  return chunks.flatMap((chunk) => {
    decoder.push(chunk);
    return [...decoder];
  });
}

test("payload views of packets that span chunks are never overwritten", () => {
  const decoder = new MqttDecoder();
  const payloads: { view: Uint8Array; copy: Uint8Array }[] = [];
  const stream = Buffer.concat(
    Array.from({ length: 4000 }, (_, at) => encode(message("t", Buffer.alloc(1 + (at % 97), at)))),
  );
  for (let at = 0; at < stream.length; at += 13) {
    for (const packet of readAll(decoder, Uint8Array.from(stream.subarray(at, at + 13)))) {
      assert.ok(packet.type === "publish");
      payloads.push({ view: packet.payload, copy: packet.payload.slice() });
    }
  }
  assert.equal(payloads.length, 4000);
  for (const { view, copy } of payloads) assert.deepEqual(view, copy);
});

test("payloads of complete packets are views of the chunk, also of a Buffer within a larger one", () => {
  const pool = Buffer.alloc(100);
  const bytes = encode(message("a", "payload"));
  pool.set(bytes, 17);
  const chunk = pool.subarray(17, 17 + bytes.length);
  const [packet] = readAll(new MqttDecoder(), chunk);
  assert.ok(packet?.type === "publish");
  assert.equal(packet.payload.buffer, pool.buffer);
  assert.equal(Buffer.from(packet.payload).toString(), "payload");
  assert.equal(Object.getPrototypeOf(packet.payload), Uint8Array.prototype);
});

test("several chunks can be pushed before packets are read", () => {
  const bytes = Buffer.concat([encode(message("a", "1".repeat(300))), encode(message("b", "2")), encode({ type: "pingreq" })]);
  for (const size of [1, 5, 64, 65, 200]) {
    const decoder = new MqttDecoder();
    for (let at = 0; at < bytes.length; at += size) decoder.push(bytes.subarray(at, at + size));
    assert.equal(decoder.bufferedBytes, bytes.length);
    assert.deepEqual([...decoder].map((packet) => packet.type), ["publish", "publish", "pingreq"]);
    assert.equal(decoder.bufferedBytes, 0);
  }
});

test("a large packet in many chunks is assembled once", () => {
  const payload = Buffer.alloc(3_000_000, "x");
  const bytes = encode(message("large", payload));
  const decoder = new MqttDecoder();
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += 1460) chunks.push(bytes.subarray(at, at + 1460));
  const [packet] = readAll(decoder, ...chunks);
  assert.ok(packet?.type === "publish");
  assert.equal(Buffer.compare(packet.payload, payload), 0);
});

test("five bytes do not reserve memory for the announced packet", () => {
  const decoder = new MqttDecoder();
  const before = process.memoryUsage().arrayBuffers;
  decoder.push(Uint8Array.of(0x30, 0xff, 0xff, 0xff, 0x7f));
  assert.equal(decoder.read(), null);
  assert.ok(process.memoryUsage().arrayBuffers - before < 1_000_000);
});

test("a packet over maxPacketSize is refused by its fixed header, one of that size is not", () => {
  const bytes = encode(message("t", "x".repeat(200)));
  const decoder = new MqttDecoder({ maxPacketSize: bytes.length });
  assert.equal(readAll(decoder, bytes).length, 1);
  const strict = new MqttDecoder({ maxPacketSize: bytes.length - 1 });
  strict.push(bytes.subarray(0, 3));
  assert.throws(() => strict.read(), { code: "packet_too_large", fault: "too_large", reason: 0x95, offset: 1 });
});

test("packets before an error are returned, the error persists, and reset clears it", () => {
  const decoder = new MqttDecoder();
  decoder.push(Uint8Array.of(0xc0, 0, 0xd0, 0, 0x30, 3, 0, 1, 0x23));
  assert.equal(decoder.read()?.type, "pingreq");
  assert.equal(decoder.read()?.type, "pingresp");
  const expected = { name: "MqttDecodeError", code: "field_past_end" };
  assert.throws(() => decoder.read(), expected);
  decoder.push(Uint8Array.of(0xc0, 0));
  assert.throws(() => decoder.read(), expected);
  assert.throws(() => decoder.readFrame(), expected);
  decoder.reset();
  assert.equal(readAll(decoder, Uint8Array.of(0xc0, 0))[0]?.type, "pingreq");
});

test("errors carry a code, a reason code, an offset, and no payload", () => {
  const decoder = new MqttDecoder({ protocolVersion: 4 });
  decoder.push(Uint8Array.of(0x30, 8, 0, 3, 0x61, 0x2f, 0x23, 0x73, 0x65, 0x63));
  assert.throws(
    () => decoder.read(),
    (error: Error & { code: string; reason: number; offset: number }) =>
      error.code === "topic_wildcard" && error.reason === 0x90 && error.offset === 6 && !error.message.includes("sec"),
  );
});

test("a CONNECT sets the version of later packets, and reset restores the initial one", () => {
  const decoder = new MqttDecoder({ protocolVersion: 5 });
  const connect = encode({ type: "connect", protocolVersion: 4, clientId: "c" });
  const [, publish] = readAll(decoder, connect, encode(message("t", "p"), 4));
  assert.ok(publish?.type === "publish");
  assert.equal(Buffer.from(publish.payload).toString(), "p");
  assert.equal(decoder.protocolVersion, 4);
  decoder.reset();
  assert.equal(decoder.protocolVersion, 5);
});

test("frames have type, flags, topic and raw bytes, and decode to the packet", () => {
  const publish = encode({ type: "publish", topic: "a/b", qos: 1, packetId: 9, retain: true, payload: "x".repeat(200) });
  const stream = Buffer.concat([publish, encode({ type: "pingreq" })]);
  for (const size of [1, 7, 100, stream.length]) {
    const decoder = new MqttDecoder();
    const frames = [];
    for (let at = 0; at < stream.length; at += size) {
      decoder.push(stream.subarray(at, at + size));
      for (let frame = decoder.readFrame(); frame !== null; frame = decoder.readFrame()) frames.push(frame);
    }
    const [first, second] = frames;
    assert.ok(first && second && frames.length === 2);
    assert.deepEqual([first.packetType, first.qos, first.retain, first.dup, first.flags], [3, 1, true, false, 3]);
    assert.equal(first.topic, "a/b");
    assert.equal(Buffer.from(first.topicBytes).toString(), "a/b");
    assert.deepEqual(first.raw, publish);
    assert.equal(first.length, publish.length);
    assert.deepEqual(first.decode(), readAll(new MqttDecoder(), publish)[0]);
    assert.equal(second.packetType, 12);
    assert.equal(second.topic, "");
    assert.equal(second.topicBytes.length, 0);
  }
});

test("frames follow the version of a CONNECT and refuse wrong fixed headers and topics", () => {
  const decoder = new MqttDecoder();
  decoder.push(Buffer.concat([encode({ type: "connect", protocolVersion: 4, clientId: "" }), encode(message("t"), 4)]));
  assert.equal(decoder.readFrame()?.packetType, 1);
  assert.equal(decoder.readFrame()?.protocolVersion, 4);
  decoder.push(Uint8Array.of(0x30, 3, 0, 1, 0x23, 0xc1));
  const frame = decoder.readFrame();
  assert.throws(() => frame?.topic, { code: "topic_wildcard" });
  assert.throws(() => decoder.readFrame(), { code: "flags_reserved" });
});

test("repeated topics are one string, and the cache pauses if topics do not repeat", () => {
  const bytes = Buffer.from("0123456789abcdef".repeat(8));
  const cache = new TextCache(TOPICS);
  cache.find(bytes, 0, 16);
  cache.add("0123456789abcdef", bytes, 0, 16);
  assert.equal(cache.find(bytes, 16, 32), "0123456789abcdef");
  for (let at = 0; at < 600; at++) {
    const topic = Buffer.from(`never/${at}/again`);
    if (cache.find(topic, 0, topic.length) === undefined) cache.add(topic.toString(), topic, 0, topic.length);
  }
  assert.equal(cache.find(bytes, 0, 16), undefined, "it rests");
});

test("a string is found by all of its bytes, regardless of the slot's previous string", () => {
  const cache = new TextCache(TOPICS);
  for (let round = 0; round < 40; round++) {
    for (let length = 1; length <= 64; length++) {
      const bytes = Uint8Array.from({ length }, (_, at) => 1 + ((at * 37 + round * 11 + length) % 127));
      const text = Buffer.from(bytes).toString();
      if (cache.find(bytes, 0, length) === undefined) cache.add(text, bytes, 0, length);
      assert.equal(cache.find(bytes, 0, length), text);
      for (let at = 0; at < length; at++) {
        for (const bit of [0x01, 0x40, 0x80]) {
          bytes[at]! ^= bit;
          assert.notEqual(cache.find(bytes, 0, length), text);
          bytes[at]! ^= bit;
        }
      }
    }
  }
});

test("a string that is valid only in a property is not accepted as a topic", () => {
  const decoder = new MqttDecoder();
  const properties = { contentType: "a/+/b" };
  for (let at = 0; at < 3; at++) {
    assert.equal(readAll(decoder, encode({ type: "publish", topic: "t", properties })).length, 1);
  }
  decoder.push(Uint8Array.of(0x30, 8, 0, 5, 0x61, 0x2f, 0x2b, 0x2f, 0x62, 0));
  assert.throws(() => decoder.read(), { code: "topic_wildcard" });
});

test("a cached string of another kind is not accepted as a topic filter", () => {
  const subscribe = (filter: string): Uint8Array =>
    Buffer.concat([Buffer.of(0x82, 6 + filter.length, 0, 1, 0, 0, filter.length), Buffer.from(filter), Buffer.of(0)]);
  const decoder = new MqttDecoder();
  for (const filter of ["a/+", "a/+", "$share/g/#", "$share/g/#"]) {
    decoder.push(subscribe(filter));
    assert.equal((decoder.read() as Subscribe).requests[0]?.filter, filter);
  }
  decoder.push(encode({ type: "connect", clientId: "a#" }));
  assert.equal((decoder.read() as Connect).clientId, "a#");
  decoder.push(subscribe("a#"));
  assert.throws(() => decoder.read(), { code: "topic_filter_wildcard", offset: 8 });
  // A cached topic filter is not a valid topic either.
  decoder.reset();
  decoder.push(Buffer.of(0x30, 6, 0, 3, 0x61, 0x2f, 0x2b, 0));
  assert.throws(() => decoder.read(), { code: "topic_wildcard", offset: 6 });
});

test("strings of all lengths round-trip, with and without the platform's functions", () => {
  for (const platform of [true, false]) {
    usePlatformText(platform);
    for (let length = 1; length < 150; length++) {
      for (const letter of ["a", "é", "漢", "😀", "\ufeff", "\ufffd"]) {
        const text = "b".repeat(length - 1) + letter;
        const bytes = Buffer.from(text);
        for (const short of [shortAscii, null]) {
          assert.equal(decodeText(bytes, 0, bytes.length, flagsOf(bytes, 0, bytes.length), short), text);
        }
        const [packet] = readAll(new MqttDecoder(), encode(message(text)));
        assert.equal(packet?.type === "publish" && packet.topic, text);
      }
    }
    usePlatformText(true);
  }
});

test("the position of ill-formed UTF-8 follows the Unicode standard", () => {
  const cases: [number, number[]][] = [
    [-1, [0x61, 0xc3, 0xa9, 0xe6, 0xbc, 0xa2, 0xf0, 0x9f, 0x98, 0x80, 0xef, 0xbf, 0xbd]],
    [-1, [0xef, 0xbb, 0xbf, 0x61, 0xef, 0xbf, 0xbf]],
    [0, [0x80]],
    [1, [0x61, 0xc3]],
    [1, [0x61, 0xc0, 0x80]],
    [2, [0xc3, 0xa9, 0xed, 0xa0, 0x80]],
    [3, [0xef, 0xbf, 0xbd, 0xef, 0xbf]],
    [3, [0xef, 0xbf, 0xbd, 0xef, 0xbf, 0x61]],
    [0, [0xef, 0x61]],
    [1, [0x61, 0xef]],
    [0, [0xf0, 0x9f, 0x98]],
    [0, [0xf4, 0x90, 0x80, 0x80]],
    [4, [0xf4, 0x8f, 0xbf, 0xbf, 0xe0, 0x9f, 0xbf]],
  ];
  for (const [expected, bytes] of cases) {
    const padded = Uint8Array.of(0xff, ...bytes, 0xbd, 0xff);
    const at = illFormedAt(padded, 1, 1 + bytes.length);
    assert.equal(at < 0 ? at : at - 1, expected, String(bytes));
  }
});

test("user properties keep their order across names", () => {
  const userProperties = [["b", "1"], ["a", "2"], ["b", "3"], ["__proto__", "4"]] as const;
  const [packet] = readAll(new MqttDecoder(), encode({ type: "publish", topic: "t", properties: { userProperties } }));
  assert.deepEqual(packet?.type === "publish" && packet.properties, { userProperties });
});
