import assert from "node:assert/strict";
import { test } from "node:test";
import {
  encode,
  encodedLength,
  encodeInto,
  encodePublishHeader,
  MqttDecoder,
  type EncodeErrorCode,
  type PacketInit,
  type ProtocolVersion,
} from "@tautwire/mqtt-codec";

function decoded(bytes: Uint8Array): unknown {
  const decoder = new MqttDecoder();
  decoder.push(bytes);
  return decoder.read();
}

test("fields with a default can be left out", () => {
  assert.deepEqual(decoded(encode({ type: "publish", topic: "t" })), {
    type: "publish",
    dup: false,
    qos: 0,
    retain: false,
    packetId: null,
    topic: "t",
    properties: {},
    payload: new Uint8Array(0),
  });
  assert.deepEqual(decoded(encode({ type: "connect", clientId: "c" })), {
    type: "connect",
    protocolVersion: 5,
    cleanStart: true,
    keepAliveS: 0,
    clientId: "c",
    will: null,
    userName: null,
    password: null,
    properties: {},
  });
  assert.deepEqual(decoded(encode({ type: "subscribe", packetId: 1, requests: [{ filter: "a/+" }] })), {
    type: "subscribe",
    packetId: 1,
    properties: {},
    requests: [{ filter: "a/+", qos: 0, noLocal: false, retainAsPublished: false, retainHandling: 0 }],
  });
});

test("no two packets share memory that can be written to", () => {
  const packets: PacketInit[] = [{ type: "pingreq" }, { type: "puback", packetId: 1 }, { type: "pingresp" }];
  const first = packets.map((packet) => encode(packet));
  const copies = first.map((bytes) => bytes.slice());
  const second = packets.map((packet) => encode(packet));
  for (const bytes of second) bytes.fill(0xee);
  assert.deepEqual(first, copies);
  first[0]!.fill(0);
  assert.deepEqual(encode({ type: "pingreq" }), Uint8Array.of(0xc0, 0));
});

test("many packets of all sizes are complete, regardless of the slab", () => {
  const sizes = Array.from({ length: 3000 }, (_, at) => (at * 7919) % 70_000);
  const kept = sizes.map((size) => ({ size, bytes: encode({ type: "publish", topic: "t", payload: "x".repeat(size) }) }));
  for (const { size, bytes } of kept) {
    const packet = decoded(bytes) as { payload: Uint8Array };
    assert.equal(packet.payload.length, size);
    assert.ok(packet.payload.every((byte) => byte === 0x78));
  }
});

test("a packet whose size is not known in advance grows", () => {
  const userProperties = Array.from({ length: 500 }, (_, at) => [`name ${at}`, "é".repeat(at)] as const);
  const packet: PacketInit = { type: "publish", topic: "t", properties: { userProperties }, payload: "end" };
  const bytes = encode(packet);
  assert.equal(bytes.length, encodedLength(packet));
  assert.deepEqual((decoded(bytes) as { properties: unknown }).properties, { userProperties });
});

test("encodeInto fills a buffer of exactly the right size, and refuses one that is a byte too small", () => {
  for (const size of [0, 1, 100, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 300, 16_370, 16_380, 16_384]) {
    for (const properties of [{}, { contentType: "text/plain" }, { contentType: "é".repeat(100) }]) {
      const packet: PacketInit = { type: "publish", topic: "topic", payload: "x".repeat(size), properties };
      const expected = encode(packet);
      const buffer = new Uint8Array(expected.length + 2).fill(0xee);
      const place = buffer.subarray(0, expected.length + 1);
      assert.equal(encodeInto(packet, place, 1), expected.length);
      assert.deepEqual(place.subarray(1), expected);
      assert.deepEqual([buffer[0], buffer.at(-1)], [0xee, 0xee]);
      assert.throws(() => encodeInto(packet, buffer.subarray(0, expected.length - 1)), { code: "buffer_too_small" });
    }
  }
});

test("a header and its payload form the packet", () => {
  const payload = Buffer.alloc(100_000, "x");
  const packet = { type: "publish", topic: "t", qos: 1, packetId: 5, payload } as const;
  const header = encodePublishHeader(packet, payload.length);
  assert.ok(header.length < 20);
  assert.deepEqual(Buffer.concat([header, payload]), Buffer.from(encode(packet)));
});

const long = "x".repeat(65_536);

const REFUSED: [EncodeErrorCode, field: string, packet: unknown, version?: ProtocolVersion][] = [
  ["not_a_packet", "type", { type: "hello" }],
  ["wrong_type", "topic", { type: "publish", topic: 5 }],
  ["topic_missing", "topic", { type: "publish", topic: "" }],
  ["topic_missing", "topic", { type: "publish", topic: "", properties: { topicAlias: 1 } }, 4],
  ["topic_wildcard", "topic", { type: "publish", topic: "a/+" }],
  ["utf8_null", "topic", { type: "publish", topic: "a\0" }],
  ["utf8_null", "topic", { type: "publish", topic: "a".repeat(50) + "\0" }],
  ["utf8_invalid", "topic", { type: "publish", topic: "a\ud800" }],
  ["utf8_invalid", "topic", { type: "publish", topic: "a".repeat(50) + "\udc00b" }],
  ["field_too_long", "topic", { type: "publish", topic: long }],
  ["field_too_long", "topic", { type: "publish", topic: "é".repeat(40_000) }],
  ["wrong_type", "packetId", { type: "publish", topic: "a", qos: 1 }],
  ["out_of_range", "packetId", { type: "publish", topic: "a", qos: 1, packetId: 0 }],
  ["out_of_range", "packetId", { type: "puback", packetId: 65_536 }],
  ["out_of_range", "packetId", { type: "puback", packetId: 1.5 }],
  ["qos_unknown", "qos", { type: "publish", topic: "a", qos: 3, packetId: 1 }],
  ["dup_with_qos_zero", "dup", { type: "publish", topic: "a", dup: true }],
  ["wrong_type", "payload", { type: "publish", topic: "a", payload: [1, 2] }],
  ["not_in_version", "properties", { type: "publish", topic: "a", properties: { contentType: "x" } }, 4],
  ["property_not_allowed", "topicAlias", { type: "puback", packetId: 1, properties: { topicAlias: 1 } }],
  ["property_not_allowed", "color", { type: "publish", topic: "a", properties: { color: "red" } }],
  ["out_of_range", "topicAlias", { type: "publish", topic: "a", properties: { topicAlias: 0 } }],
  ["out_of_range", "subscriptionIdentifiers", { type: "publish", topic: "a", properties: { subscriptionIdentifiers: [0] } }],
  ["wrong_type", "userProperties", { type: "publish", topic: "a", properties: { userProperties: { a: "b" } } }],
  ["response_topic_invalid", "responseTopic", { type: "publish", topic: "a", properties: { responseTopic: "#" } }],
  ["response_topic_invalid", "responseTopic", { type: "publish", topic: "a", properties: { responseTopic: "" } }],
  ["reason_code_unknown", "reason", { type: "pubrel", packetId: 1, reason: 0x10 }],
  ["not_in_version", "reason", { type: "puback", packetId: 1, reason: 0x10 }, 4],
  ["wrong_type", "reason", { type: "connack", reason: "0" }],
  ["wrong_type", "reasons", { type: "suback", packetId: 1, reasons: ["0"] }],
  ["session_present_on_failure", "sessionPresent", { type: "connack", reason: 0x80, sessionPresent: true }],
  ["not_in_version", "reason", { type: "connack", reason: 0x9f }, 4],
  ["out_of_range", "receiveMaximum", { type: "connect", clientId: "", properties: { receiveMaximum: 0 } }],
  ["authentication_data_alone", "authenticationData",
    { type: "connect", clientId: "", properties: { authenticationData: new Uint8Array(1) } }],
  ["authentication_method_missing", "authenticationMethod", { type: "auth", reason: 0x18 }],
  ["auth_before_v5", "type", { type: "auth" }, 4],
  ["password_without_user_name", "password", { type: "connect", protocolVersion: 4, clientId: "", password: "p" }],
  ["client_id_missing", "clientId", { type: "connect", protocolVersion: 4, clientId: "", cleanStart: false }],
  ["client_id_missing", "clientId", { type: "connect", protocolVersion: 3, clientId: "", cleanStart: false }],
  ["field_too_long", "password", { type: "connect", clientId: "", password: long }],
  ["out_of_range", "protocolVersion", { type: "connect", protocolVersion: 6, clientId: "" }],
  ["out_of_range", "keepAliveS", { type: "connect", clientId: "", keepAliveS: 65_536 }],
  ["will_topic_invalid", "will.topic", { type: "connect", clientId: "", will: { topic: "", payload: "" } }],
  ["qos_unknown", "will.qos", { type: "connect", clientId: "", will: { topic: "t", payload: "", qos: 3 } }],
  ["no_topic_filters", "requests", { type: "subscribe", packetId: 1, requests: [] }],
  ["topic_filter_wildcard", "requests.filter", { type: "subscribe", packetId: 1, requests: [{ filter: "a#" }] }],
  ["share_filter_missing", "requests.filter", { type: "subscribe", packetId: 1, requests: [{ filter: "$share/a" }] }],
  ["no_local_on_shared", "requests.noLocal",
    { type: "subscribe", packetId: 1, requests: [{ filter: "$share/a/b", noLocal: true }] }],
  ["not_in_version", "requests", { type: "subscribe", packetId: 1, requests: [{ filter: "a", noLocal: true }] }, 4],
  ["no_topic_filters", "filters", { type: "unsubscribe", packetId: 1, filters: [] }],
  ["no_reason_codes", "reasons", { type: "suback", packetId: 1, reasons: [] }],
  ["not_in_version", "reasons", { type: "suback", packetId: 1, reasons: [0x87] }, 4],
  ["reason_code_unknown", "reasons", { type: "unsuback", packetId: 1, reasons: [1] }],
  ["not_in_version", "reasons", { type: "unsuback", packetId: 1, reasons: [0] }, 4],
];

test("invalid packets are not encoded, and the error names the field", () => {
  for (const [code, field, packet, version = 5] of REFUSED) {
    const expected = { name: "MqttEncodeError", code, field };
    assert.throws(() => encode(packet as PacketInit, version), expected, `${code} ${field}`);
    assert.throws(() => encodedLength(packet as PacketInit, version), expected);
    assert.throws(() => encodeInto(packet as PacketInit, new Uint8Array(200_000), 0, version), expected);
  }
  // An error does not affect the next packet.
  assert.deepEqual(encode({ type: "puback", packetId: 1 }), Uint8Array.of(0x40, 2, 0, 1));
});

test("errors contain no password and no payload", () => {
  const secret = "hunter2" + "x".repeat(70_000);
  assert.throws(
    () => encode({ type: "connect", clientId: "", userName: "u", password: secret }),
    (error: Error) => !error.message.includes("hunter2"),
  );
});
