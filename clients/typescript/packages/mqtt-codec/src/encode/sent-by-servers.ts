// The bodies of the packets that only servers send (sections 3.2, 3.9, 3.11). Each function returns the first byte of the packet.

import type { PacketInit, ProtocolVersion } from "../packets.js";
import { CONNACK_V3_REASONS } from "../reason-codes.js";
import { checkReason, isEmpty, packetId, properties } from "./sent-by-clients.js";
import * as w from "./writer.js";

type Init<T extends PacketInit["type"]> = Extract<PacketInit, { type: T }>;

export function writeSentByServer(packet: PacketInit, version: ProtocolVersion): number {
  switch (packet.type) {
    case "connack":
      return connack(packet, version);
    case "suback":
      return suback(packet, version);
    case "unsuback":
      return unsuback(packet, version);
    case "pingresp":
      return 0xd0;
    default:
      return w.fail("not_a_packet", "type");
  }
}

function connack(packet: Init<"connack">, version: ProtocolVersion): number {
  const { reason } = packet;
  checkReason(reason, 2, "reason");
  if (packet.sessionPresent && reason !== 0) w.fail("session_present_on_failure", "sessionPresent");
  const code = version === 5 ? reason : CONNACK_V3_REASONS.indexOf(reason);
  if (code < 0) w.fail("not_in_version", "reason");
  w.byte(packet.sessionPresent ? 1 : 0);
  w.byte(code);
  properties(packet.properties, 2, version);
  return 0x20;
}

function suback(packet: Init<"suback">, version: ProtocolVersion): number {
  packetId(packet.packetId);
  properties(packet.properties, 9, version);
  reasons(packet.reasons, 9, version === 5 ? 0xff : 0x80);
  return 0x90;
}

function reasons(codes: readonly number[], number: number, highest: number): void {
  if (isEmpty(codes)) w.fail("no_reason_codes", "reasons");
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    checkReason(code, number, "reasons");
    if (code > highest) w.fail("not_in_version", "reasons");
    w.byte(code);
  }
}

function unsuback(packet: Init<"unsuback">, version: ProtocolVersion): number {
  packetId(packet.packetId);
  properties(packet.properties, 11, version);
  const codes = packet.reasons ?? [];
  if (version === 5) reasons(codes, 11, 0xff);
  else if (codes.length > 0) w.fail("not_in_version", "reasons");
  return 0xb0;
}
