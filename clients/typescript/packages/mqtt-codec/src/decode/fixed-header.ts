import type { DecodeErrorCode } from "../error-codes.js";

/** The maximum size of a packet in bytes, including its fixed header. */
export const MAX_PACKET_SIZE = 268_435_460;

/** The valid flags of each packet type, one bit for each value of the four flags `[MQTT-2.1.3-1]`. */
const VALID_FLAGS: readonly number[] = [0, 1, 1, 0x3c3f, 1, 1, 4, 1, 4, 1, 4, 1, 1, 1, 1, 1];

/** The same by first byte, which is a faster lookup. */
const VALID_FIRST: Uint8Array = /* @__PURE__ */ (() =>
  Uint8Array.from({ length: 256 }, (_, first) => (VALID_FLAGS[first >> 4]! >> (first & 15)) & 1))();

/** Whether the first byte of a packet is valid in every version. */
export function isValidFirst(first: number): boolean {
  return VALID_FIRST[first] === 1;
}

/** Returns the error for an invalid first byte of a packet. */
export function firstByteError(first: number): DecodeErrorCode {
  if (first < 0x10) return "packet_type_reserved";
  if (first >> 4 !== 3) return "flags_reserved";
  return (first & 6) === 6 ? "publish_qos_three" : "dup_with_qos_zero";
}

/** Returns the start of the body of a complete packet that starts at `at`. */
export function bodyOf(bytes: Uint8Array, at: number): number {
  while (bytes[++at]! >= 0x80);
  return at + 1;
}
