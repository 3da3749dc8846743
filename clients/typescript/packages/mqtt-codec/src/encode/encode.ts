import type { PacketInit, ProtocolVersion, PublishInit } from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import { writeBody } from "./body.js";
import { Writer } from "./writer.js";

/** Text and bytes alone decide where a packet is written: all callers can share one writer. */
const writer = /* @__PURE__ */ new Writer();

/**
 * Encodes a packet. The bytes are yours: no other packet shares them, and they are never written again.
 *
 * `version`: what the connection speaks; default 5. A CONNECT is encoded in its own `protocolVersion`.
 *
 * Small packets are views of one larger `ArrayBuffer`: use `byteOffset` and `byteLength` if you take its `buffer`.
 *
 * @throws {MqttEncodeError} The packet says what the standard or this version of it does not allow.
 */
export function encode(packet: PacketInit, version: ProtocolVersion = 5): Uint8Array {
  switch (packet.type) {
    case "pingreq":
      return twoBytes(0xc0);
    case "pingresp":
      return twoBytes(0xd0);
    case "puback":
      if (isBare(packet)) return bareAcknowledgement(0x40, packet.packetId);
      break;
    case "pubrec":
      if (isBare(packet)) return bareAcknowledgement(0x50, packet.packetId);
      break;
    case "pubrel":
      if (isBare(packet)) return bareAcknowledgement(0x62, packet.packetId);
      break;
    case "pubcomp":
      if (isBare(packet)) return bareAcknowledgement(0x70, packet.packetId);
  }
  writer.beginInSlab(sizeHint(packet));
  return writer.endInSlab(writeBody(writer, packet, version, true), 0);
}

// Most packets beside messages are these: a small array of their own is faster than a piece of the slab.

function twoBytes(first: number): Uint8Array {
  const bytes = new Uint8Array(2);
  bytes[0] = first;
  return bytes;
}

function bareAcknowledgement(first: number, packetId: number): Uint8Array {
  const bytes = new Uint8Array(4);
  bytes[0] = first;
  bytes[1] = 2;
  bytes[2] = packetId >> 8;
  bytes[3] = packetId;
  return bytes;
}

/** A success without properties, with a right identifier. */
function isBare({ packetId, reason, properties }: Bare): boolean {
  return (
    (reason === 0 || reason === undefined) &&
    (properties === NO_PROPERTIES || properties === undefined) &&
    (packetId & 0xffff) === packetId &&
    packetId !== 0
  );
}

type Bare = Extract<PacketInit, { type: "puback" | "pubrec" | "pubrel" | "pubcomp" }>;

/**
 * Encodes a packet into `buffer` at `offset`, and answers how many bytes it took. What lies behind them may have been
 * written to, also when it throws.
 *
 * @throws {MqttEncodeError} As {@link encode}; `buffer_too_small` if it does not fit.
 */
export function encodeInto(packet: PacketInit, buffer: Uint8Array, offset = 0, version: ProtocolVersion = 5): number {
  writer.beginIn(buffer, offset, sizeHint(packet));
  return writer.endIn(writeBody(writer, packet, version, true));
}

/**
 * Encodes a PUBLISH without its payload, which is to be sent behind it from where it is. `payloadLength`: its bytes.
 *
 * @throws {MqttEncodeError} As {@link encode}.
 */
export function encodePublishHeader(
  packet: PublishInit,
  payloadLength: number,
  version: ProtocolVersion = 5,
): Uint8Array {
  writer.beginInSlab(0);
  return writer.endInSlab(writeBody(writer, packet, version, false), payloadLength);
}

/**
 * The bytes that a packet takes.
 *
 * @throws {MqttEncodeError} As {@link encode}.
 */
export function encodedLength(packet: PacketInit, version: ProtocolVersion = 5): number {
  const payload = packet.type === "publish" ? packet.payload : undefined;
  const isBytes = payload instanceof Uint8Array;
  writer.beginInSlab(0);
  writeBody(writer, packet, version, !isBytes);
  return writer.measureInSlab(isBytes ? payload.length : 0);
}

/** The remaining length, guessed, and never more than it is: a body moves back to make room for its header, not forward. */
function sizeHint(packet: PacketInit): number {
  if (packet.type !== "publish") return 0;
  const { topic, payload } = packet;
  return (payload?.length ?? 0) + (typeof topic === "string" ? topic.length : 0) + 2;
}
