// Decodes UTF-8. Short ASCII strings, the most frequent ones, are decoded here, because a call into the platform is slower.

import { UNUSUAL } from "../bytes.js";

/** Decodes at most {@link SHORT_ASCII_MAX} bytes, all of which are ASCII. */
export type ShortAscii = (bytes: Uint8Array, start: number, end: number) => string;

/** The maximum size in bytes of a string that is decoded without a call into the platform. */
export const SHORT_ASCII_MAX = 32;

type Slice = (this: Uint8Array, start: number, end: number) => string;

const decoder = /* @__PURE__ */ new TextDecoder("utf-8", { ignoreBOM: true });

/** A method of `Buffer` in Node.js and Bun. It is twice as fast as `TextDecoder`, with the same result. */
const platformSlice: Slice | undefined = /* @__PURE__ */ (() => {
  const prototype = (globalThis as { Buffer?: { prototype?: { utf8Slice?: unknown } } }).Buffer?.prototype;
  const slice = prototype?.utf8Slice;
  return typeof slice === "function" ? (slice as Slice) : undefined;
})();

let utf8Slice = platformSlice;

/** Sets whether the platform's functions are used. Tests compare the results of both ways. */
export function usePlatformText(allowed: boolean): void {
  utf8Slice = allowed ? platformSlice : undefined;
}

/**
 * Decodes the bytes. Returns null if they are not well-formed UTF-8 without U+0000. `flags`: the classes of the bytes.
 * `shortAscii`: the fast path for short strings, if its size is acceptable.
 */
export function decodeText(
  bytes: Uint8Array,
  start: number,
  end: number,
  flags: number,
  shortAscii: ShortAscii | null,
): string | null {
  const isPlain = (flags & UNUSUAL) === 0;
  if (isPlain && shortAscii !== null && end - start <= SHORT_ASCII_MAX) return shortAscii(bytes, start, end);
  const text =
    utf8Slice === undefined ? decoder.decode(bytes.subarray(start, end)) : utf8Slice.call(bytes, start, end);
  if (isPlain) return text;
  // Malformed bytes are decoded as U+FFFD, but so is U+FFFD itself.
  if (text.includes("\ufffd") && illFormedAt(bytes, start, end) >= 0) return null;
  return text.includes("\0") ? null : text;
}

/** Returns the start of the first ill-formed sequence, or -1. Only for errors, so speed does not matter. */
export function illFormedAt(bytes: Uint8Array, start: number, end: number): number {
  // Encoding the result differs from the input where U+FFFD replaces other bytes, possibly only in the second or third byte.
  const again = new TextEncoder().encode(decoder.decode(bytes.subarray(start, end)));
  let at = again.findIndex((byte, index) => byte !== bytes[start + index] || start + index >= end);
  if (at < 0) return -1;
  while ((again[at]! & 0xc0) === 0x80) at--;
  return start + at;
}
