// Checks of topic names and topic filters (sections 4.7 and 4.8.2) on their UTF-8: all relevant characters are ASCII.

import { flagsOf, WILDCARD } from "./bytes.js";
import type { DecodeErrorCode, EncodeErrorCode } from "./error-codes.js";

const PLUS = 0x2b;
const HASH = 0x23;
const SLASH = 0x2f;
const SHARE: readonly number[] = [0x24, 0x73, 0x68, 0x61, 0x72, 0x65, SLASH];

/** The error in a topic filter, and its index. */
export interface FilterFlaw {
  code: DecodeErrorCode & EncodeErrorCode;
  at: number;
}

/** Returns the index of the first `+` or `#`, which a topic name must not contain `[MQTT-3.3.2-2]`, or `end`. */
export function firstWildcard(bytes: Uint8Array, start: number, end: number): number {
  if ((flagsOf(bytes, start, end) & WILDCARD) === 0) return end;
  let at = start;
  while (bytes[at] !== PLUS && bytes[at] !== HASH) at++;
  return at;
}

/** Whether a valid topic filter is a shared subscription: it starts with `$share/`. */
export function isShared(bytes: Uint8Array, start: number, end: number): boolean {
  return bytes[start] === SHARE[0] && end - start >= SHARE.length && SHARE.every((byte, at) => bytes[start + at] === byte);
}

/** Checks a topic filter, including its `$share/NAME/` if it has one. */
export function filterFlaw(bytes: Uint8Array, start: number, end: number): FilterFlaw | null {
  if (isShared(bytes, start, end)) return shareFlaw(bytes, start + SHARE.length, end);
  return levelsFlaw(bytes, start, end);
}

function shareFlaw(bytes: Uint8Array, start: number, end: number): FilterFlaw | null {
  let slash = start;
  while (slash < end && bytes[slash] !== SLASH) slash++;
  if (slash === start) return { code: "share_name_invalid", at: start };
  const wildcard = firstWildcard(bytes, start, slash);
  if (wildcard < slash) return { code: "share_name_invalid", at: wildcard };
  if (slash + 1 >= end) return { code: "share_filter_missing", at: end };
  return levelsFlaw(bytes, slash + 1, end);
}

function levelsFlaw(bytes: Uint8Array, start: number, end: number): FilterFlaw | null {
  if (start === end) return { code: "topic_filter_empty", at: start };
  let before = SLASH;
  for (let at = start; at < end; at++) {
    const byte = bytes[at]!;
    if (byte === PLUS || byte === HASH) {
      const isLast = at + 1 === end;
      if (before !== SLASH || (!isLast && bytes[at + 1] !== SLASH)) return { code: "topic_filter_wildcard", at };
      if (byte === HASH && !isLast) return { code: "topic_filter_multi_level", at };
    }
    before = byte;
  }
  return null;
}
