// UTF-8 to text. Short ASCII strings, which most are, are made here: a call into the platform costs more than they do.

import { UNUSUAL } from "../bytes.js";

/** Makes text of at most {@link SHORT_ASCII_MAX} bytes, all of which are ASCII. */
export type ShortAscii = (bytes: Uint8Array, start: number, end: number) => string;

/** The longest text in bytes that can be made without a call into the platform. */
export const SHORT_ASCII_MAX = 32;

type Slice = (this: Uint8Array, start: number, end: number) => string;

const decoder = /* @__PURE__ */ new TextDecoder("utf-8", { ignoreBOM: true });

/** What Node.js and Bun have on `Buffer`; twice as fast as `TextDecoder`, and the same result. */
const platformSlice: Slice | undefined = /* @__PURE__ */ (() => {
  const prototype = (globalThis as { Buffer?: { prototype?: { utf8Slice?: unknown } } }).Buffer?.prototype;
  const slice = prototype?.utf8Slice;
  return typeof slice === "function" ? (slice as Slice) : undefined;
})();

let utf8Slice = platformSlice;

/** Whether the platform's own functions may be used. For tests that hold both ways to the same result. */
export function usePlatformText(allowed: boolean): void {
  utf8Slice = allowed ? platformSlice : undefined;
}

/**
 * The text of those bytes, or null if they are not well-formed UTF-8 without U+0000. `flags`: what the bytes say about it.
 * `shortAscii`: the faster way for texts that are short, where it is worth its size.
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
  // Malformed bytes come out as U+FFFD, and so does U+FFFD itself.
  if (text.includes("\ufffd") && illFormedAt(bytes, start, end) >= 0) return null;
  return text.includes("\0") ? null : text;
}

/** Where the first ill-formed sequence begins; -1 if all is well-formed. For errors, where speed does not matter. */
export function illFormedAt(bytes: Uint8Array, start: number, end: number): number {
  // What comes back differs from what went in where U+FFFD stands for something else, at any byte of its three.
  const again = new TextEncoder().encode(decoder.decode(bytes.subarray(start, end)));
  let at = again.findIndex((byte, index) => byte !== bytes[start + index] || start + index >= end);
  if (at < 0) return -1;
  while ((again[at]! & 0xc0) === 0x80) at--;
  return start + at;
}
