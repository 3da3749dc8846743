import type { PacketInit } from "@tautwire/mqtt-codec";

/** A summary of a packet for diagnostics, without payload and credentials. */
export interface PacketOutline {
  type: PacketInit["type"];
  packetId?: number;
  qos?: number;
  topic?: string;
  reason?: number;
  /** The size of the payload of a PUBLISH. */
  payloadBytes?: number;
}

/** Called with every packet. `bytes`: the size of a sent packet, 0 for a received one. */
export type Trace = (direction: "sent" | "received", packet: PacketInit, bytes: number) => void;

export function outline(packet: PacketInit): PacketOutline {
  const result: PacketOutline = { type: packet.type };
  if ("packetId" in packet && packet.packetId != null) result.packetId = packet.packetId;
  if ("reason" in packet && packet.reason !== undefined) result.reason = packet.reason;
  if (packet.type === "publish") {
    result.topic = packet.topic;
    result.qos = packet.qos ?? 0;
    result.payloadBytes = packet.payload?.length ?? 0;
  }
  return result;
}
