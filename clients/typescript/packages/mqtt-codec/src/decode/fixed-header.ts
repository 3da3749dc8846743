import type { DecodeErrorCode } from "../decode-error.js";

/** The largest packet that the wire format can express, in bytes, with its fixed header. */
export const MAX_PACKET_SIZE = 268_435_460;

/** Flags that a packet type must have in the lower four bits of its first byte; PUBLISH (3) is looked at by itself. */
const REQUIRED_FLAGS = [0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0];

/** By first byte: whether a packet may begin so `[MQTT-2.1.3-1]`. */
const LEGAL_FIRST: Uint8Array = /* @__PURE__ */ (() => {
  const table = new Uint8Array(256);
  for (let first = 16; first < 256; first++) table[first] = firstByteFlaw(first) === null ? 1 : 0;
  return table;
})();

/** Whether a packet may begin with this byte. */
export function isLegalFirst(first: number): boolean {
  return LEGAL_FIRST[first] === 1;
}

/** What is wrong with the first byte of a packet. */
export function firstByteFlaw(first: number): DecodeErrorCode | null {
  const type = first >> 4;
  if (type === 0) return "packet_type_reserved";
  if (type !== 3) return (first & 15) === REQUIRED_FLAGS[type] ? null : "flags_reserved";
  if ((first & 6) === 6) return "publish_qos_three";
  return (first & 14) === 8 ? "dup_with_qos_zero" : null;
}
