// Writes the fields of one packet. A packet is written in one pass, so that all packets can share one state. The target is either
// a slab, which is handed out in pieces and never overwritten, or a buffer of the caller.

import { flagsOf, WILDCARD } from "../bytes.js";
import { MqttEncodeError } from "../encode-error.js";
import type { EncodeErrorCode } from "../error-codes.js";
import { filterFlaw, isShared } from "../topics.js";

/** The size of a slab. Packets of up to a quarter of it share a slab. */
const SLAB_BYTES = 64 << 10;
/** A packet does not start in a slab with less free space than this. */
const ROOM_BYTES = 128;
/** Up to this many UTF-16 units (less than 128), a loop is faster than a call into the platform. */
const SHORT_MAX = 40;
/** The maximum size of a fixed header. */
const HEADER_MAX = 5;
const MAX_REMAINING = 268_435_455;

const encoder = /* @__PURE__ */ new TextEncoder();
const NOTHING: Uint8Array = /* @__PURE__ */ new Uint8Array(0);

const s = {
  /** The target: the slab, a separate array for a large packet, or a buffer of the caller. */
  bytes: NOTHING,
  /** The index of the next byte. */
  at: 0,
  /** The end of the writable bytes. */
  limit: 0,
  /** The start of the body. */
  bodyAt: 0,
  slab: NOTHING,
  /** Cached, because reading `buffer` of a typed array is slower than creating a view. */
  buffer: NOTHING.buffer,
  /** The start of the free part of the slab. */
  free: 0,
  /** The start of the packet in a buffer of the caller; -1 if there is none. */
  start: -1,
  /** Makes room for this many more bytes. */
  grow: refuse as (size: number) => void,
};

/** Starts a packet in the slab. */
export function begin(): void {
  if (s.bytes !== s.slab || s.free + ROOM_BYTES > s.limit) useSlab();
  s.at = s.bodyAt = s.free + HEADER_MAX;
}

function useSlab(): void {
  if (s.free + ROOM_BYTES > s.slab.length) {
    s.slab = new Uint8Array(SLAB_BYTES);
    s.buffer = s.slab.buffer;
    s.free = 0;
  }
  s.bytes = s.slab;
  s.limit = SLAB_BYTES;
  s.start = -1;
  s.grow = grow;
}

/** Starts a packet in a buffer of the caller. */
export function beginIn(buffer: Uint8Array, offset: number): void {
  // Comparing a reference is faster than storing it.
  if (s.bytes !== buffer) s.bytes = buffer;
  s.limit = buffer.length;
  if (s.start < 0) s.grow = refuse;
  s.start = offset;
  expect(0);
  need(0);
}

/** Reserves a fixed header for a body of the estimated length. If the estimate is right, the body need not move. */
function expect(remaining: number): void {
  s.at = s.bodyAt = s.start + headerLength(remaining);
}

/** Reserves a fixed header for a PUBLISH, estimating its length by topic and payload. */
export function expectMessage(topic: string | undefined, payload: Uint8Array | string | undefined): void {
  if (s.start >= 0) expect((topic?.length ?? 0) + (payload?.length ?? 0) + 2);
}

/** Writes a whole packet of two or four bytes to the slab. `body`: the two bytes, or -1 for none. */
export function small(first: number, body: number): Uint8Array {
  begin();
  const { bytes, free } = s;
  bytes[free] = first;
  bytes[free + 1] = 0;
  s.at = free + 2;
  if (body >= 0) {
    bytes[free + 1] = 2;
    twoBytes(body);
  }
  return take(free);
}

/** Writes the fixed header before the body and returns its start. `more`: bytes of the body that are sent separately. */
export function end(first: number, more: number): number {
  const remaining = s.at - s.bodyAt + more;
  if (s.start >= 0) place(remaining);
  const at = s.bodyAt - headerLength(remaining);
  s.bytes[at] = first;
  if (remaining < 0x80) s.bytes[at + 1] = remaining;
  else if (remaining > MAX_REMAINING) fail("packet_too_large", "packet");
  else putVariableByteInteger(s.bytes, at + 1, remaining);
  return at;
}

/** The number of written bytes of the body. */
export function written(): number {
  return s.at - s.bodyAt;
}

/** Returns a view of the written bytes, starting at `from`. */
export function take(from: number): Uint8Array {
  const { at } = s;
  if (s.bytes !== s.slab) return s.bytes.subarray(from, at);
  s.free = at;
  return new Uint8Array(s.buffer, from, at - from);
}

/** The number of written bytes, starting at `from`. */
export function lengthFrom(from: number): number {
  return s.at - from;
}

/** In a buffer of the caller, moves the body if the fixed header for this length has another size. */
function place(remaining: number): void {
  const extra = s.start + headerLength(remaining) - s.bodyAt;
  if (extra === 0) return;
  need(extra);
  s.bytes.copyWithin(s.bodyAt + extra, s.bodyAt, s.at);
  s.bodyAt += extra;
  s.at += extra;
}

/** Ensures that `size` more bytes fit. */
function need(size: number): void {
  if (s.at + size > s.limit) s.grow(size);
}

/** A buffer of the caller cannot grow. */
function refuse(): void {
  fail("buffer_too_small", "buffer");
}

function grow(size: number): void {
  const start = s.bodyAt - HEADER_MAX;
  const written = s.at - start;
  if (written + size > MAX_REMAINING + HEADER_MAX) fail("packet_too_large", "packet");
  // A large packet gets a separate array, and the slab remains for others.
  const isLarge = written + size > SLAB_BYTES / 4;
  const bytes = new Uint8Array(isLarge ? 2 * written + size : SLAB_BYTES);
  bytes.set(s.bytes.subarray(start, s.at));
  if (!isLarge) {
    s.slab = bytes;
    s.buffer = bytes.buffer;
    s.free = 0;
  }
  s.bytes = bytes;
  s.bodyAt = HEADER_MAX;
  s.at = written;
  s.limit = bytes.length;
}

export function byte(value: number): void {
  need(1);
  s.bytes[s.at++] = value;
}

export function twoBytes(value: number): void {
  need(2);
  const { bytes, at } = s;
  bytes[at] = value >> 8;
  bytes[at + 1] = value;
  s.at = at + 2;
}

export function fourBytes(value: number): void {
  need(4);
  const { bytes, at } = s;
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
  s.at = at + 4;
}

export function variableByteInteger(value: number): void {
  need(headerLength(value) - 1);
  s.at = putVariableByteInteger(s.bytes, s.at, value);
}

/** Checks that the value is an integer in the range. `code`: the error if it is not. */
export function integer(value: unknown, low: number, high: number, field: string, code: EncodeErrorCode = "out_of_range"): number {
  if (typeof value !== "number") return fail("wrong_type", field);
  if (!(value >= low && value <= high) || Math.floor(value) !== value) fail(code, field);
  return value;
}

/** Writes a length of two bytes and the UTF-8 of a string. Returns the start of the UTF-8. `field` is for errors. */
export function text(value: string, field: string): number {
  if (typeof value !== "string") fail("wrong_type", field);
  const { length } = value;
  if (length > SHORT_MAX) return anyText(value, field);
  need(length + 2);
  const { bytes, at } = s;
  const behind = putAscii(bytes, at + 2, value);
  if (behind < 0) return anyText(value, field);
  bytes[at] = 0;
  bytes[at + 1] = length;
  s.at = behind;
  return at + 2;
}

/** Writes the string if it is ASCII without U+0000. Returns its end, or -1. */
function putAscii(bytes: Uint8Array, at: number, value: string): number {
  const { length } = value;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    const u0 = value.charCodeAt(i);
    const u1 = value.charCodeAt(i + 1);
    const u2 = value.charCodeAt(i + 2);
    const u3 = value.charCodeAt(i + 3);
    // 0 becomes negative; everything above ASCII stays above.
    if ((u0 | u1 | u2 | u3) > 0x7f || ((u0 - 1) | (u1 - 1) | (u2 - 1) | (u3 - 1)) < 0) return -1;
    bytes[at + i] = u0;
    bytes[at + i + 1] = u1;
    bytes[at + i + 2] = u2;
    bytes[at + i + 3] = u3;
  }
  for (; i < length; i++) {
    const unit = value.charCodeAt(i);
    if ((unit - 1) >>> 0 > 0x7e) return -1;
    bytes[at + i] = unit;
  }
  return at + length;
}

/** Like {@link text}, for strings that are long or not ASCII. */
function anyText(value: string, field: string): number {
  const { length } = value;
  if (length > 65_535) fail("field_too_long", field);
  if (value.includes("\0")) fail("utf8_null", field);
  // One UTF-16 unit takes at most three bytes. Reserve the maximum, so that the string always fits.
  need(2 + (s.start < 0 ? length * 3 : length));
  const start = s.at + 2;
  const { read, written } = encoder.encodeInto(value, s.bytes.subarray(start, s.limit));
  if (read < length) fail("buffer_too_small", "buffer");
  if (written > 65_535) fail("field_too_long", field);
  // The encoder replaces an unpaired surrogate by U+FFFD.
  if (written > length && /\p{Surrogate}/u.test(value)) fail("utf8_invalid", field);
  s.bytes[start - 2] = written >> 8;
  s.bytes[start - 1] = written;
  s.at = start + written;
  return start;
}

/** Writes a string that is a topic name. `code`: the error if it is empty or contains a wildcard. */
export function topic(value: string, field: string, code: EncodeErrorCode = "topic_wildcard"): void {
  const start = text(value, field);
  if (start === s.at || flagsOf(s.bytes, start, s.at) & WILDCARD) fail(code, field);
}

/** Writes a string that is a topic filter. Returns whether it is shared. */
export function topicFilter(value: string, field: string): boolean {
  const start = text(value, field);
  const flaw = filterFlaw(s.bytes, start, s.at);
  if (flaw) fail(flaw.code, field);
  return isShared(s.bytes, start, s.at);
}

/** Writes a length of two bytes, then the bytes. */
export function binary(data: Uint8Array | string, field: string): void {
  twoBytes(0);
  // Relative to the body, which may move to another array.
  const position = s.at - s.bodyAt;
  raw(data, field);
  const start = s.bodyAt + position;
  const length = s.at - start;
  if (length > 65_535) fail("field_too_long", field);
  s.bytes[start - 2] = length >> 8;
  s.bytes[start - 1] = length;
}

/** Writes the rest of the packet. */
export function payload(data: Uint8Array | string, field: string): void {
  // Reserve the space first, so that the packet need not be moved.
  if (s.start >= 0 && data instanceof Uint8Array) place(s.at - s.bodyAt + data.length);
  raw(data, field);
}

/** Writes bytes, or the UTF-8 of a string, without a length. */
function raw(data: Uint8Array | string, field: string): void {
  if (typeof data === "string") data = encoder.encode(data);
  else if (!(data instanceof Uint8Array)) fail("wrong_type", field);
  const { length } = data;
  need(length);
  const { bytes, at } = s;
  if (length > 24) {
    bytes.set(data, at);
  } else {
    for (let i = 0; i < length; i++) bytes[at + i] = data[i]!;
  }
  s.at = at + length;
}

/** Reserves a property length of one byte. Returns the start of the block, relative to the packet's body. */
export function beginBlock(): number {
  byte(0);
  return s.at - s.bodyAt;
}

/** Writes the property length before the block. Longer blocks are moved to make room. */
export function endBlock(position: number): void {
  const length = s.at - s.bodyAt - position;
  const extra = headerLength(length) - 2;
  if (extra > 0) {
    need(extra);
    const from = s.at - length;
    s.bytes.copyWithin(from + extra, from, s.at);
    s.at += extra;
  }
  putVariableByteInteger(s.bytes, s.bodyAt + position - 1, length);
}

export function fail(code: EncodeErrorCode, field: string): never {
  throw new MqttEncodeError(code, field);
}

/** The size of the fixed header of a packet with that remaining length. */
export function headerLength(remaining: number): number {
  return remaining < 0x80 ? 2 : remaining < 0x4000 ? 3 : remaining < 0x20_0000 ? 4 : HEADER_MAX;
}

function putVariableByteInteger(bytes: Uint8Array, at: number, value: number): number {
  while (value >= 0x80) {
    bytes[at++] = (value & 0x7f) | 0x80;
    value >>>= 7;
  }
  bytes[at] = value;
  return at + 1;
}
