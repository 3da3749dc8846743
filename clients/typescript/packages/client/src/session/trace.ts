import type { PacketInit } from "@tautwire/mqtt-codec";

/** A packet in outline, for diagnostics: never its payload, and no credentials. */
export interface PacketOutline {
  type: PacketInit["type"];
  packetId?: number;
  qos?: number;
  topic?: string;
  reason?: number;
  /** Bytes of the message of a PUBLISH. */
  payloadBytes?: number;
}

/** Sees every packet. `bytes`: the size of the whole packet if it was sent, 0 if it was received. */
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
