// Compares the `mqtt-packet` interface with `mqtt-packet` itself on all vectors that both accept.

import assert from "node:assert/strict";
import { test } from "node:test";
import original from "mqtt-packet";
import { MqttDecodeError } from "@tautwire/mqtt-codec";
import ours, { type AnyPacket, type WritableLike } from "@tautwire/mqtt-codec/mqtt-packet";
import { bytesOf, readVectors, VERSIONS } from "./vectors.js";

function theirs(bytes: Uint8Array, protocolVersion: number): AnyPacket | null {
  const parser = original.parser({ protocolVersion }) as unknown as ReturnType<typeof ours.parser>;
  return first(parser, bytes);
}

function first(parser: ReturnType<typeof ours.parser>, bytes: Uint8Array): AnyPacket | null {
  const packets: AnyPacket[] = [];
  const errors: unknown[] = [];
  parser.on("packet", (packet: AnyPacket) => packets.push({ ...packet }));
  parser.on("error", (error: unknown) => errors.push(error));
  parser.parse(Buffer.from(bytes));
  return errors.length > 0 ? null : (packets[0] ?? null);
}

test("packets have the same fields with the same values", () => {
  let compared = 0;
  for (const vector of readVectors()) {
    if (vector.result !== "valid") continue;
    const bytes = bytesOf(vector);
    const version = VERSIONS[vector.version];
    const expected = theirs(bytes, version);
    if (expected === null) continue;
    const got = first(ours.parser({ protocolVersion: version }), bytes);
    assert.deepEqual(got, expected, vector.id);
    compared++;
  }
  assert.ok(compared > 700, `${compared} vectors compared`);
});

test("packets that are parsed are generated again", () => {
  for (const vector of readVectors()) {
    if (vector.result !== "valid" || !vector.encode) continue;
    const version = VERSIONS[vector.version];
    const packet = first(ours.parser({ protocolVersion: version }), bytesOf(vector));
    assert.ok(packet, vector.id);
    const bytes = ours.generate(packet, { protocolVersion: version });
    // With names as keys the order of user properties over several names is lost.
    if (JSON.stringify(packet).includes("userProperties")) {
      assert.deepEqual(first(ours.parser({ protocolVersion: version }), bytes), packet, vector.id);
    } else {
      assert.deepEqual(bytes, Buffer.from(bytesOf(vector)), vector.id);
    }
  }
});

test("a packet that cannot be encoded destroys the stream, and generate throws", () => {
  const errors: unknown[] = [];
  const stream: WritableLike = { write: () => true, destroy: (error) => errors.push(error) };
  const wrong = { cmd: "publish", topic: "a/#", payload: "" };
  assert.equal(ours.writeToStream(wrong, stream), false);
  assert.equal((errors[0] as { code: string }).code, "topic_wildcard");
  assert.throws(() => ours.generate(wrong), { code: "topic_wildcard" });
});

test("large payloads are written from where they are", () => {
  const written: Uint8Array[] = [];
  let errors = 0;
  const stream: WritableLike = { write: (bytes) => written.push(bytes) > 0, destroy: () => errors++ };
  const payload = Buffer.alloc(10_000, 1);
  assert.equal(ours.writeToStream({ cmd: "publish", topic: "a", payload, qos: 1, messageId: 3 }, stream), true);
  assert.equal(errors, 0);
  assert.equal(written[1], payload);
  assert.deepEqual(
    Buffer.concat(written),
    original.generate({ cmd: "publish", topic: "a", payload, qos: 1, messageId: 3, dup: false, retain: false }),
  );
});

test("reason string and user properties are left out where the packet would be too large", () => {
  const packet = {
    cmd: "puback",
    messageId: 1,
    reasonCode: 0x10,
    properties: { reasonString: "x".repeat(50), userProperties: { a: "b" } },
  };
  const options = { protocolVersion: 5, properties: { maximumPacketSize: 20 } };
  const parsed = first(ours.parser(options), ours.generate(packet, options));
  assert.deepEqual({ ...(parsed?.properties?.userProperties ?? {}) }, { a: "b" });
  assert.equal(parsed?.properties?.["reasonString"], undefined);
});

test("after an error the parser begins anew", () => {
  const parser = ours.parser();
  const events: unknown[] = [];
  parser.on("packet", (packet: AnyPacket) => events.push(packet.cmd));
  parser.on("error", (error: unknown) => events.push(error instanceof MqttDecodeError && error.code));
  parser.parse(Uint8Array.of(0xc0, 0, 0xc1, 0, 0xc0, 0));
  assert.equal(parser.parse(Uint8Array.of(0xc0, 0, 0xd0)), 1);
  assert.deepEqual(events, ["pingreq", "flags_reserved", "pingreq"]);
});
