import type { PacketInit, ProtocolVersion, PublishInit } from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import { writeSentByClient } from "./sent-by-clients.js";
import { writeSentByServer } from "./sent-by-servers.js";
import { begin, beginIn, end, lengthFrom, small, take } from "./writer.js";

/**
 * Encodes a packet. The returned bytes belong to the caller: no other packet shares them, and they are never overwritten.
 *
 * `version`: the protocol version of the connection; default 5. A CONNECT is encoded in its own `protocolVersion`.
 *
 * Small packets are views of one larger `ArrayBuffer`: use `byteOffset` and `byteLength` if you use its `buffer`.
 *
 * @throws {MqttEncodeError} The standard, or this version of it, does not allow the packet.
 */
export function encode(packet: PacketInit, version: ProtocolVersion = 5): Uint8Array {
  // Fast path for acknowledgements, the most frequent packets besides messages.
  switch (packet.type) {
    case "pingreq":
      return small(0xc0, -1);
    case "pingresp":
      return small(0xd0, -1);
    case "puback":
      if (isPlainSuccess(packet)) return small(0x40, packet.packetId);
      break;
    case "pubrec":
      if (isPlainSuccess(packet)) return small(0x50, packet.packetId);
      break;
    case "pubrel":
      if (isPlainSuccess(packet)) return small(0x62, packet.packetId);
      break;
    case "pubcomp":
      if (isPlainSuccess(packet)) return small(0x70, packet.packetId);
  }
  begin();
  return take(end(writeSentByClient(packet, version, true, writeSentByServer), 0));
}

type AcknowledgementInit = Extract<PacketInit, { type: "puback" | "pubrec" | "pubrel" | "pubcomp" }>;

/** Whether the packet is a success without properties and with a valid identifier. */
function isPlainSuccess({ packetId, reason, properties }: AcknowledgementInit): boolean {
  return !reason && (properties === NO_PROPERTIES || properties === undefined) && (packetId & 0xffff) === packetId && packetId > 0;
}

/**
 * Encodes a packet into `buffer` at `offset`, and returns its length in bytes. The bytes of the buffer after the packet may be
 * overwritten, also if it throws.
 *
 * @throws {MqttEncodeError} As {@link encode}; `buffer_too_small` if the packet does not fit.
 */
export function encodeInto(packet: PacketInit, buffer: Uint8Array, offset = 0, version: ProtocolVersion = 5): number {
  beginIn(buffer, offset);
  return lengthFrom(end(writeSentByClient(packet, version, true, writeSentByServer), 0));
}

/**
 * Encodes a PUBLISH without its payload, which you send after it without a copy. `payloadLength`: its size in bytes.
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
 * Returns the encoded length of a packet in bytes.
 *
 * @throws {MqttEncodeError} As {@link encode}.
 */
export function encodedLength(packet: PacketInit, version: ProtocolVersion = 5): number {
  const payload = packet.type === "publish" ? packet.payload : undefined;
  const more = payload instanceof Uint8Array ? payload.length : 0;
  begin();
  return lengthFrom(end(writeSentByClient(packet, version, more === 0, writeSentByServer), more)) + more;
}
