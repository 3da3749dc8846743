import type { DecodeErrorCode } from "../decode-error.js";

/** The largest packet that the wire format can express, in bytes, with its fixed header. */
export const MAX_PACKET_SIZE = 268_435_460;

/** By first byte: whether a packet may begin so `[MQTT-2.1.3-1]`. */
const LEGAL_FIRST: Uint8Array = /* @__PURE__ */ (() => {
  const table = new Uint8Array(256);
  for (let first = 0; first < 256; first++) table[first] = firstByteFlaw(first) === null ? 1 : 0;
  return table;
})();

/** Whether a packet may begin with this byte. */
export function isLegalFirst(first: number): boolean {
  return LEGAL_FIRST[first] === 1;
}

/** What is wrong with the first byte of a packet. */
export function firstByteFlaw(first: number): DecodeErrorCode | null {
  const type = first >> 4;
  const flags = first & 15;
  if (type === 0) return "packet_type_reserved";
  if (type === 3) return (flags & 6) === 6 ? "publish_qos_three" : (flags & 14) === 8 ? "dup_with_qos_zero" : null;
  // PUBREL, SUBSCRIBE and UNSUBSCRIBE have one flag set, all others none.
  return flags === (type === 6 || type === 8 || type === 10 ? 2 : 0) ? null : "flags_reserved";
}

/** Where the body begins of a whole packet that begins at `at`. */
export function bodyOf(bytes: Uint8Array, at: number): number {
  while (bytes[++at]! >= 0x80);
  return at + 1;
}
