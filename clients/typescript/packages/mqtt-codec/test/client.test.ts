import assert from "node:assert/strict";
import { test } from "node:test";
import { encode, encodeInto, MqttDecodeError, MqttDecoder, MqttEncodeError, type Packet } from "@tautwire/mqtt-codec";
import { ClientDecoder, encodeClientInto } from "@tautwire/mqtt-codec/client";
import { bytesOf, isNotWritten, packetOf, readVectors, VERSIONS, type Vector } from "./vectors.js";

const vectors = readVectors();
/** By packet type number: packets that only clients send, and packets that only servers send. */
const CLIENTS_ALONE = [1, 8, 10, 12];
const SERVERS_ALONE = ["connack", "suback", "unsuback", "pingresp"];

type Outcome = { packet: Packet | null } | Pick<MqttDecodeError, "code" | "offset" | "reason">;

function outcome(decoder: ClientDecoder | MqttDecoder, vector: Vector): Outcome {
  decoder.push(bytesOf(vector));
  try {
    return { packet: decoder.read() };
  } catch (error) {
    assert.ok(error instanceof MqttDecodeError);
    const { code, offset, reason } = error;
    return { code, offset, reason };
  }
}

test("ClientDecoder decodes like MqttDecoder, and refuses packets that servers do not send", () => {
  let refused = 0;
  for (const vector of vectors) {
    const options = { protocolVersion: VERSIONS[vector.version], maxPacketSize: vector.max_packet_size };
    const expected = outcome(new MqttDecoder(options), vector);
    const got = outcome(new ClientDecoder(options), vector);
    const isWhole = "packet" in expected ? expected.packet !== null : "code" in got && got.code === "packet_type_unexpected";
    if (CLIENTS_ALONE.includes(bytesOf(vector)[0]! >> 4) && isWhole) {
      assert.deepStrictEqual(got, { code: "packet_type_unexpected", offset: 0, reason: 0x82 }, vector.id);
      refused++;
    } else {
      assert.deepStrictEqual(got, expected, vector.id);
    }
  }
  assert.ok(refused > 0);
});

test("encodeClientInto encodes like encodeInto, and refuses packets that clients do not send", () => {
  for (const vector of vectors) {
    if (vector.result !== "valid" || isNotWritten(vector)) continue;
    const packet = packetOf(vector);
    const version = VERSIONS[vector.version];
    if (SERVERS_ALONE.includes(packet.type)) {
      assert.throws(() => encodeClientInto(packet, new Uint8Array(9), 0, version), { code: "not_a_packet" }, vector.id);
    } else {
      const expected = encode(packet, version);
      const buffer = new Uint8Array(5 + expected.length);
      assert.equal(encodeClientInto(packet, buffer, 5, version), expected.length, vector.id);
      assert.deepStrictEqual(buffer.subarray(5), expected, vector.id);
    }
  }
});

test("buffers of the caller and growing packets can alternate", () => {
  const packet = { type: "publish", topic: "t", payload: "x".repeat(1000) } as const;
  const buffer = new Uint8Array(2000);
  for (let turn = 0; turn < 200; turn++) {
    const bytes = encode(packet);
    assert.throws(() => encodeInto(packet, new Uint8Array(100)), MqttEncodeError);
    assert.throws(() => encodeClientInto(packet, new Uint8Array(100)), { code: "buffer_too_small" });
    assert.equal(encodeClientInto(packet, buffer), bytes.length);
    assert.deepEqual(encode({ ...packet, payload: "x".repeat(40_000) }).length, 40_008);
    assert.deepEqual(buffer.slice(0, bytes.length), bytes);
  }
});
