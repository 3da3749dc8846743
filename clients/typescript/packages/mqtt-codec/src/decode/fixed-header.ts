import type { DecodeErrorCode } from "../error-codes.js";

/** The largest packet that the wire format can express, in bytes, with its fixed header. */
export const MAX_PACKET_SIZE = 268_435_460;

/** By packet type: a bit for each value of the four flags with which a packet may begin `[MQTT-2.1.3-1]`. */
const LEGAL_FLAGS: readonly number[] = [0, 1, 1, 0x3c3f, 1, 1, 4, 1, 4, 1, 4, 1, 1, 1, 1, 1];

/** The same by first byte, which is faster to look up. */
const LEGAL_FIRST: Uint8Array = /* @__PURE__ */ (() =>
  Uint8Array.from({ length: 256 }, (_, first) => (LEGAL_FLAGS[first >> 4]! >> (first & 15)) & 1))();

/** Whether a packet may begin with this byte in every version. */
export function isLegalFirst(first: number): boolean {
  return LEGAL_FIRST[first] === 1;
}

/** What is wrong with the first byte of a packet that is not legal. */
export function firstByteFlaw(first: number): DecodeErrorCode {
  if (first < 0x10) return "packet_type_reserved";
  if (first >> 4 !== 3) return "flags_reserved";
  return (first & 6) === 6 ? "publish_qos_three" : "dup_with_qos_zero";
}

/** Where the body begins of a whole packet that begins at `at`. */
export function bodyOf(bytes: Uint8Array, at: number): number {
  while (bytes[++at]! >= 0x80);
  return at + 1;
}
