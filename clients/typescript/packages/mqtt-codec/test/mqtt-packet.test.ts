// Compares the `mqtt-packet` interface with `mqtt-packet` itself on all vectors that both accept, and in behaviour that the
// standard does not define.

import assert from "node:assert/strict";
import { test } from "node:test";
import original from "mqtt-packet";
import { MqttDecodeError } from "@tautwire/mqtt-codec";
import ours, { type Options, type Packet, type WritableLike } from "@tautwire/mqtt-codec/mqtt-packet";
import { bytesOf, readVectors, VERSIONS } from "./vectors.js";

type Loose = Packet & Record<string, unknown>;

const theirParser = original.parser as unknown as typeof ours.parser;
const theirGenerate = original.generate as unknown as typeof ours.generate;

/** Parses the bytes to packets; null if there is an error. */
function parsed(parser: ReturnType<typeof ours.parser>, bytes: Uint8Array): Loose[] | null {
  const packets: Loose[] = [];
  const errors: unknown[] = [];
  parser.on("packet", (packet) => packets.push({ ...packet }));
  parser.on("error", (error) => errors.push(error));
  parser.parse(Buffer.from(bytes));
  return errors.length > 0 ? null : packets;
}

function first(parser: ReturnType<typeof ours.parser>, bytes: Uint8Array): Loose | null {
  return parsed(parser, bytes)?.[0] ?? null;
}

/** A packet without type checks. */
function generate(packet: object, options?: Options): Buffer {
  return ours.generate(packet as Packet, options);
}

test("packets have the same fields with the same values", () => {
  let compared = 0;
  for (const vector of readVectors()) {
    if (vector.result !== "valid") continue;
    const bytes = bytesOf(vector);
    const version = VERSIONS[vector.version];
    const expected = first(theirParser({ protocolVersion: version }), bytes);
    if (expected === null) continue;
    const got = first(ours.parser({ protocolVersion: version }), bytes);
    assert.deepEqual(got, expected, vector.id);
    compared++;
  }
  assert.ok(compared > 700, `${compared} vectors compared`);
});

test("parse returns the same number of buffered bytes as mqtt-packet", () => {
  const packet = { cmd: "publish", topic: "a", payload: Buffer.alloc(150), qos: 0, dup: false, retain: false } as const;
  const bytes = Buffer.concat([ours.generate({ cmd: "pingreq" }), ours.generate(packet), ours.generate({ cmd: "pingreq" })]);
  for (let cut = 1; cut < bytes.length; cut++) {
    const parts = [bytes.subarray(0, cut), bytes.subarray(cut)];
    const [got, expected] = [ours.parser(), theirParser()].map((parser) => parts.map((part) => parser.parse(part)));
    assert.deepEqual(got, expected, `cut at ${cut}`);
  }
});

test("parsed packets can be generated again", () => {
  for (const vector of readVectors()) {
    if (vector.result !== "valid" || !vector.encode) continue;
    const version = VERSIONS[vector.version];
    const packet = first(ours.parser({ protocolVersion: version }), bytesOf(vector));
    assert.ok(packet, vector.id);
    const isConnect = packet.cmd === "connect" && packet.clientId === "";
    if (isConnect && (version === 3 || (version === 4 && packet.clean === false))) {
      for (const one of [ours.generate, theirGenerate]) assert.throws(() => one(packet), vector.id);
      continue;
    }
    const bytes = ours.generate(packet, { protocolVersion: version });
    // With names as keys, the order of user properties across names is lost.
    if (JSON.stringify(packet).includes("userProperties")) {
      assert.deepEqual(first(ours.parser({ protocolVersion: version }), bytes), packet, vector.id);
    } else {
      assert.deepEqual(bytes, Buffer.from(bytesOf(vector)), vector.id);
    }
  }
});

test("undefined return codes pass in both directions before MQTT 5.0", () => {
  for (const protocolVersion of [3, 4]) {
    for (const returnCode of [0, 1, 5, 6, 200, 255]) {
      const packet = { cmd: "connack", returnCode, sessionPresent: false } as const;
      const bytes = ours.generate(packet, { protocolVersion });
      assert.deepEqual(bytes, theirGenerate(packet, { protocolVersion }));
      assert.deepEqual(first(ours.parser({ protocolVersion }), bytes), first(theirParser({ protocolVersion }), bytes));
    }
  }
});

test("5.0 options are left out before 5.0", () => {
  const subscriptions = [{ topic: "a", qos: 1, nl: true, rap: true, rh: 2 }] as const;
  const packet = { cmd: "subscribe", messageId: 1, subscriptions, properties: { subscriptionIdentifier: 1 } } as unknown as Packet;
  for (const protocolVersion of [3, 4, 5]) {
    assert.deepEqual(ours.generate(packet, { protocolVersion }), theirGenerate(packet, { protocolVersion }));
  }
});

test("a 5.0 client reads the refusal of a server that supports only 3.1.1", () => {
  for (const code of [1, 2, 5, 6, 255]) {
    const bytes = Buffer.of(0x20, 2, 0, code);
    const packet = first(ours.parser({ protocolVersion: 5 }), bytes);
    assert.deepEqual(packet, first(theirParser({ protocolVersion: 5 }), bytes));
    assert.equal(packet?.reasonCode, code);
  }
  // A success is not accepted, because the two sides would use different versions. Nor are invalid flags.
  for (const [flags, code] of [[0, 0], [1, 0], [1, 5], [2, 5]] as const) {
    assert.equal(first(ours.parser({ protocolVersion: 5 }), Buffer.of(0x20, 2, flags, code)), null);
  }
});

test("a bridge sets its bit in CONNECT and subscribes as a bridge", () => {
  const subscribe = { cmd: "subscribe", messageId: 1, subscriptions: [{ topic: "a", qos: 1 }] } as const;
  for (const [protocolVersion, protocolId] of [[3, "MQIsdp"], [4, "MQTT"]] as const) {
    const connect = { cmd: "connect", clientId: "bridge", protocolVersion, protocolId, bridgeMode: true, clean: true } as const;
    const bytes = ours.generate({ ...connect, password: Buffer.alloc(200), username: "u" });
    assert.deepEqual(bytes, theirGenerate({ ...connect, password: Buffer.alloc(200), username: "u" }));
    const both = Buffer.concat([bytes, ours.generate(subscribe as unknown as Packet)]);
    const expected = parsed(theirParser(), both);
    assert.equal(expected?.length, 2);
    assert.deepEqual(parsed(ours.parser(), both), expected);
  }
  assert.throws(() => generate({ cmd: "connect", clientId: "b", protocolVersion: 5, bridgeMode: true }), { code: "not_in_version" });
  // The bridge bit on another version, and on a truncated one.
  assert.equal(first(ours.parser(), Buffer.of(0x10, 13, 0, 4, 0x4d, 0x51, 0x54, 0x54, 0x85, 2, 0, 0, 0, 0, 0)), null);
  assert.equal(first(ours.parser(), Buffer.of(0x10, 6, 0, 4, 0x4d, 0x51, 0x54, 0x54)), null);
});

const connect = { cmd: "connect", clientId: "c" };
const subscription = { topic: "a", qos: 0 };

const REFUSED: [code: string, field: string, packet: unknown, version?: number][] = [
  ["not_a_packet", "cmd", null],
  ["not_a_packet", "type", {}],
  ["out_of_range", "protocolVersion", { ...connect, protocolVersion: 1 }],
  ["wrong_type", "protocolVersion", { ...connect, protocolVersion: "4" }],
  ["wrong_type", "protocolId", { ...connect, protocolId: 42 }],
  ["out_of_range", "protocolId", { ...connect, protocolId: "HTTP" }],
  ["out_of_range", "protocolId", { ...connect, protocolId: "MQIsdp" }],
  ["out_of_range", "protocolId", { ...connect, protocolId: "MQTT", protocolVersion: 3 }],
  ["out_of_range", "clientId", { cmd: "connect", protocolVersion: 3 }],
  ["client_id_missing", "clientId", { cmd: "connect", clean: false }],
  ["client_id_missing", "clientId", { cmd: "connect", clean: 0, protocolVersion: 4 }],
  ["utf8_invalid", "clientId", { ...connect, clientId: Buffer.of(0xff) }],
  ["wrong_type", "keepAliveS", { ...connect, keepalive: "60" }],
  ["wrong_type", "will.topic", { ...connect, will: 42 }],
  ["wrong_type", "userName", { ...connect, username: 42 }],
  ["password_without_user_name", "password", { ...connect, password: "p" }],
  ["wrong_type", "returnCode", { cmd: "connack", returnCode: "5" }],
  ["wrong_type", "returnCode", { cmd: "connack" }],
  ["out_of_range", "returnCode", { cmd: "connack", returnCode: 256 }],
  ["out_of_range", "returnCode", { cmd: "connack", returnCode: -1 }],
  ["out_of_range", "returnCode", { cmd: "connack", returnCode: 1.5 }],
  ["session_present_on_failure", "sessionPresent", { cmd: "connack", returnCode: 5, sessionPresent: true }],
  ["wrong_type", "reason", { cmd: "connack", reasonCode: "0" }, 5],
  ["reason_code_unknown", "reason", { cmd: "connack", reasonCode: 6 }, 5],
  ["wrong_type", "packetId", { cmd: "publish", topic: "a", qos: 1 }],
  ["topic_wildcard", "topic", { cmd: "publish", topic: "a/#" }],
  ["wrong_type", "subscriptions.qos", { cmd: "subscribe", messageId: 1, subscriptions: [{ topic: "a" }] }],
  ["wrong_type", "subscriptions.qos", { cmd: "subscribe", messageId: 1, subscriptions: [null] }],
  ["wrong_type", "subscriptions.nl", { cmd: "subscribe", messageId: 1, subscriptions: [{ ...subscription, nl: 1 }] }, 5],
  ["wrong_type", "subscriptions.rap", { cmd: "subscribe", messageId: 1, subscriptions: [{ ...subscription, rap: "yes" }] }, 5],
  ["no_topic_filters", "requests", { cmd: "subscribe", messageId: 1, subscriptions: "a" }],
  ["no_topic_filters", "filters", { cmd: "unsubscribe", messageId: 1 }],
  ["no_reason_codes", "reasons", { cmd: "suback", messageId: 1, granted: [] }],
  ["wrong_type", "userProperties", { cmd: "puback", messageId: 1, properties: { userProperties: "a" } }, 5],
];

test("an invalid packet destroys the stream, and generate throws", () => {
  for (const [code, field, packet, protocolVersion] of REFUSED) {
    const expected = { name: "MqttEncodeError", code, field };
    const options = { protocolVersion };
    assert.throws(() => generate(packet as object, options), expected, `${code} ${field}`);
    const errors: Error[] = [];
    const stream: WritableLike = { write: () => assert.fail("written"), destroy: (error) => errors.push(error) };
    assert.equal(ours.writeToStream(packet as Packet, stream, options), false);
    assert.throws(() => {
      throw errors[0]!;
    }, expected);
    assert.throws(() => ours.writeToStream(packet as Packet, { write: () => true }, options), expected);
  }
});

test("errors of the stream itself are left to the caller", () => {
  const stream: WritableLike = {
    write: () => {
      throw new Error("closed");
    },
    destroy: () => assert.fail("destroyed"),
  };
  assert.throws(() => ours.writeToStream({ cmd: "pingreq" }, stream), /closed/);
});

test("large payloads are written without a copy", () => {
  const written: Uint8Array[] = [];
  let errors = 0;
  const stream: WritableLike = { write: (bytes) => written.push(bytes) > 0, destroy: () => errors++ };
  const packet: Packet = { cmd: "publish", topic: "a", payload: Buffer.alloc(10_000, 1), qos: 1, messageId: 3, dup: false, retain: false };
  assert.equal(ours.writeToStream(packet, stream), true);
  assert.equal(errors, 0);
  assert.equal(written[1], packet.payload);
  assert.deepEqual(Buffer.concat(written), theirGenerate(packet));
});

test("reason string and user properties are left out if the packet would be too large", () => {
  const packet: Packet = {
    cmd: "puback",
    messageId: 1,
    reasonCode: 0x10,
    properties: { reasonString: "x".repeat(50), userProperties: { a: "b" } },
  };
  const options = { protocolVersion: 5, properties: { maximumPacketSize: 20 } };
  const { properties } = first(ours.parser(options), ours.generate(packet, options)) as typeof packet;
  assert.deepEqual({ ...properties?.userProperties }, { a: "b" });
  assert.equal(properties?.reasonString, undefined);
});

test("after an error the parser starts a new stream", () => {
  const parser = ours.parser();
  const events: unknown[] = [];
  parser.on("packet", (packet) => events.push(packet.cmd));
  parser.on("error", (error) => events.push(error instanceof MqttDecodeError && error.code));
  parser.parse(Uint8Array.of(0xc0, 0, 0xc1, 0, 0xc0, 0));
  assert.equal(parser.parse(Uint8Array.of(0xc0, 0, 0xd0)), 0);
  assert.deepEqual(events, ["pingreq", "flags_reserved", "pingreq"]);
});
