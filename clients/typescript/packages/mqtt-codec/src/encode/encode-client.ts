import type { PacketInit, ProtocolVersion } from "../packets.js";
import { writeSentByClient } from "./sent-by-clients.js";
import { beginIn, end, fail, lengthFrom } from "./writer.js";

/**
 * Encodes a packet of a client into `buffer` at `offset`, like `encodeInto`. A packet that only servers send gives
 * `not_a_packet`. Without the code for servers, bundles are smaller.
 *
 * @throws {MqttEncodeError} As `encodeInto`.
 */
export function encodeClientInto(packet: PacketInit, buffer: Uint8Array, offset = 0, version: ProtocolVersion = 5): number {
  beginIn(buffer, offset);
  return lengthFrom(end(writeSentByClient(packet, version, true, refuse), 0));
}

function refuse(): never {
  fail("not_a_packet", "type");
}
