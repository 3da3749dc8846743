// UTF-8 to text. Short ASCII strings, which most are, are made here: a call into the platform costs more than they do.

import type { DecodeErrorCode } from "../decode-error.js";
import { UNUSUAL } from "../bytes.js";
import { shortAscii, SHORT_ASCII_MAX } from "./short-ascii.js";

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
 */
export function decodeText(bytes: Uint8Array, start: number, end: number, flags: number): string | null {
  const isPlain = (flags & UNUSUAL) === 0;
  if (isPlain && end - start <= SHORT_ASCII_MAX) return shortAscii(bytes, start, end);
  const text =
    utf8Slice === undefined ? decoder.decode(bytes.subarray(start, end)) : utf8Slice.call(bytes, start, end);
  if (isPlain) return text;
  // Malformed bytes come out as U+FFFD, and so does U+FFFD itself.
  if (text.includes("\ufffd") && scanUtf8(bytes, start, end) >= 0) return null;
  return text.includes("\0") ? null : text;
}

/** What is wrong with bytes that {@link decodeText} has refused, and where. */
export function scanText(bytes: Uint8Array, start: number, end: number): { code: DecodeErrorCode; at: number } {
  const invalid = scanUtf8(bytes, start, end);
  if (invalid >= 0) return { code: "utf8_invalid", at: invalid };
  return { code: "utf8_null", at: bytes.subarray(0, end).indexOf(0, start) };
}

/** Where the first ill-formed sequence begins; -1 if all is well-formed (table 3-7 of the Unicode standard). */
export function scanUtf8(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end) {
    const lead = bytes[at]!;
    if (lead < 0x80) {
      at++;
      continue;
    }
    const length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length === 0 || at + length > end) return at;
    const second = bytes[at + 1]!;
    const low = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
    const high = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
    if (second < low || second > high) return at;
    for (let more = 2; more < length; more++) {
      if ((bytes[at + more]! & 0xc0) !== 0x80) return at;
    }
    at += length;
  }
  return -1;
}
