import type { PacketInit, ProtocolVersion, PublishInit } from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import { writeSentByClient } from "./sent-by-clients.js";
import { writeSentByServer } from "./sent-by-servers.js";
import { begin, beginIn, end, lengthFrom, small, take } from "./writer.js";

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
  // Most packets beside messages are these.
  switch (packet.type) {
    case "pingreq":
      return small(0xc0, -1);
    case "pingresp":
      return small(0xd0, -1);
    case "puback":
      if (isBare(packet)) return small(0x40, packet.packetId);
      break;
    case "pubrec":
      if (isBare(packet)) return small(0x50, packet.packetId);
      break;
    case "pubrel":
      if (isBare(packet)) return small(0x62, packet.packetId);
      break;
    case "pubcomp":
      if (isBare(packet)) return small(0x70, packet.packetId);
  }
  begin();
  return take(end(writeSentByClient(packet, version, true, writeSentByServer), 0));
}

type Bare = Extract<PacketInit, { type: "puback" | "pubrec" | "pubrel" | "pubcomp" }>;

/** A success without properties, with a right identifier. */
function isBare({ packetId, reason, properties }: Bare): boolean {
  return !reason && (properties === NO_PROPERTIES || properties === undefined) && (packetId & 0xffff) === packetId && packetId > 0;
}

/**
 * Encodes a packet into `buffer` at `offset`, and answers how many bytes it took. What lies behind them may have been
 * written to, also when it throws.
 *
 * @throws {MqttEncodeError} As {@link encode}; `buffer_too_small` if it does not fit.
 */
export function encodeInto(packet: PacketInit, buffer: Uint8Array, offset = 0, version: ProtocolVersion = 5): number {
  beginIn(buffer, offset);
  return lengthFrom(end(writeSentByClient(packet, version, true, writeSentByServer), 0));
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
  begin();
  return take(end(writeSentByClient(packet, version, false, writeSentByServer), payloadLength));
}

/**
 * The bytes that a packet takes.
 *
 * @throws {MqttEncodeError} As {@link encode}.
 */
export function encodedLength(packet: PacketInit, version: ProtocolVersion = 5): number {
  const payload = packet.type === "publish" ? packet.payload : undefined;
  const more = payload instanceof Uint8Array ? payload.length : 0;
  begin();
  return lengthFrom(end(writeSentByClient(packet, version, more === 0, writeSentByServer), more)) + more;
}
