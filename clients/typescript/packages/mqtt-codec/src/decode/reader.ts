// Reads the fields of one packet. A packet is read in one pass, so that all decoders can share one state.

import { MqttDecodeError } from "../decode-error.js";
import type { DecodeErrorCode } from "../error-codes.js";
import { flagsOf, WILDCARD } from "../bytes.js";
import { firstWildcard } from "../topics.js";
import { decodeText, illFormedAt, type ShortAscii } from "./text.js";
import { FILTERS, TextCache } from "./text-cache.js";

/** No bytes. */
export const NOTHING: Uint8Array = /* @__PURE__ */ new Uint8Array(0);

/**
 * The caches of a decoder: validated topics and topic filters, and all other strings; and the function that decodes short
 * strings.
 */
export interface Caches {
  readonly topics: TextCache;
  readonly texts: TextCache;
  /** Created when the first filter is read, because clients read none. */
  filters: TextCache | null;
  readonly shortAscii: ShortAscii | null;
}

interface State {
  bytes: Uint8Array;
  /** The first byte of the packet's fixed header, to which offsets in errors are relative. */
  start: number;
  /** The index of the next byte. */
  at: number;
  /** The end of the readable bytes: the end of the packet, or of the current property block. */
  end: number;
  /** The end of the packet while a property block is read, otherwise 0. */
  packetEnd: number;
  caches: Caches;
  /** Cached, because reading `buffer` of a typed array is slower than creating a view. */
  viewed: Uint8Array;
  buffer: ArrayBufferLike;
  base: number;
}

const s: State = {
  bytes: NOTHING,
  start: 0,
  at: 0,
  end: 0,
  packetEnd: 0,
  // Set before anything is read.
  caches: null as unknown as Caches,
  viewed: NOTHING,
  buffer: null as unknown as ArrayBufferLike,
  base: 0,
};

/** Starts reading a packet in `from`: the indices of its first byte, of its body and of its end. */
export function begin(from: Uint8Array, first: number, body: number, behind: number, known: Caches): void {
  // Comparing a reference is faster than storing it.
  if (s.bytes !== from) s.bytes = from;
  if (s.caches !== known) s.caches = known;
  s.start = first;
  s.at = body;
  s.end = behind;
}

/** The bytes being read. */
export function source(): Uint8Array {
  return s.bytes;
}

/** The index of the packet's first byte. */
export function packetStart(): number {
  return s.start;
}

/** The index of the next byte. */
export function position(): number {
  return s.at;
}

/** The number of unread bytes of the packet or the property block. */
export function left(): number {
  return s.end - s.at;
}

/** Drops the reference to the bytes. */
export function release(): void {
  s.bytes = s.viewed = NOTHING;
  s.buffer = NOTHING.buffer;
  s.base = 0;
}

/** Limits reading to a block of this many bytes, starting here. Returns `false` if they are not there. */
export function enterBlock(length: number): boolean {
  if (length > s.end - s.at) return false;
  s.packetEnd = s.end;
  s.end = s.at + length;
  return true;
}

/** Ends the limit, so that the rest of the packet can be read. */
export function leaveBlock(): void {
  s.end = s.packetEnd;
  s.packetEnd = 0;
}

export function byte(): number {
  const { at } = s;
  if (at >= s.end) failShort(at);
  s.at = at + 1;
  return s.bytes[at]!;
}

export function twoBytes(): number {
  const { at, bytes } = s;
  if (at + 2 > s.end) failShort(at);
  s.at = at + 2;
  return (bytes[at]! << 8) | bytes[at + 1]!;
}

export function fourBytes(): number {
  const { at, bytes } = s;
  if (at + 4 > s.end) failShort(at);
  s.at = at + 4;
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

export function variableByteInteger(): number {
  const { at, bytes, end } = s;
  let value = 0;
  for (let count = 0; count < 4; count++) {
    if (at + count >= end) failShort(at);
    const byte = bytes[at + count]!;
    value |= (byte & 0x7f) << (7 * count);
    if (byte < 0x80) {
      if (byte === 0 && count > 0) fail("variable_byte_integer_not_minimal", at);
      s.at = at + count + 1;
      return value;
    }
  }
  return fail("variable_byte_integer_too_long", at);
}

/** Reads a packet identifier, which is never zero `[MQTT-2.2.1-3]`. */
export function packetId(): number {
  const id = twoBytes();
  if (id === 0) fail("packet_id_zero", s.at - 2, 0x82);
  return id;
}

/** Reads a length of two bytes and skips that many bytes. Returns their start; they end at {@link position}. */
export function field(): number {
  const { at, bytes, end } = s;
  const start = at + 2;
  if (start > end) failShort(at);
  const behind = start + ((bytes[at]! << 8) | bytes[at + 1]!);
  if (behind > end) failShort(at);
  s.at = behind;
  return start;
}

/** Reads a length of two bytes and returns that many bytes as a view (section 1.5.6). */
export function binary(): Uint8Array {
  const from = field();
  return view(from, s.at);
}

/** Returns all unread bytes as a view. */
export function rest(): Uint8Array {
  return view(s.at, s.end);
}

/** Creates a view. It is always a plain `Uint8Array`, also of a Node.js `Buffer`, which is faster and consistent. */
function view(from: number, to: number): Uint8Array {
  const { bytes } = s;
  if (s.viewed !== bytes) {
    s.viewed = bytes;
    s.buffer = bytes.buffer;
    s.base = bytes.byteOffset;
  }
  return new Uint8Array(s.buffer, s.base + from, to - from);
}

/** Reads a UTF-8 encoded string (section 1.5.4). */
export function text(): string {
  const from = field();
  return s.caches.texts.find(s.bytes, from, s.at) ?? newText(from, s.at);
}

function newText(from: number, to: number): string {
  const made = textIn(from, to);
  s.caches.texts.add(made, s.bytes, from, to);
  return made;
}

/** Decodes the bytes without a cache. */
export function textIn(from: number, to: number): string {
  const { bytes, caches } = s;
  return decodeText(bytes, from, to, flagsOf(bytes, from, to), caches.shortAscii) ?? failText(from, to);
}

/** Returns the cached topic filter of the bytes. */
export function knownFilter(from: number, to: number): string | undefined {
  return (s.caches.filters ??= new TextCache(FILTERS)).find(s.bytes, from, to);
}

/** Caches a valid topic filter that {@link knownFilter} did not find. */
export function cacheFilter(filter: string, from: number, to: number): void {
  s.caches.filters!.add(filter, s.bytes, from, to);
}

/** Decodes the bytes of a topic name. `code`: the error if it is empty or contains a wildcard. */
export function topicIn(from: number, to: number, code: TopicErrorCode): string {
  return s.caches.topics.find(s.bytes, from, to) ?? newTopic(from, to, code);
}

function newTopic(from: number, to: number, code: TopicErrorCode): string {
  const { bytes } = s;
  const flags = flagsOf(bytes, from, to);
  const made = decodeText(bytes, from, to, flags, s.caches.shortAscii);
  if (made === null || (flags & WILDCARD) !== 0 || (from === to && code !== "topic_wildcard")) {
    const wildcard = firstWildcard(bytes, from, to);
    // In a will topic, report a wildcard before a U+0000 that follows it.
    if (made === null) failText(from, to, code === "will_topic_invalid" ? wildcard : to);
    return fail(code, wildcard, 0x90);
  }
  s.caches.topics.add(made, bytes, from, to);
  return made;
}

type TopicErrorCode = "topic_wildcard" | "will_topic_invalid" | "response_topic_invalid";

/** Throws the UTF-8 error of the bytes, unless it is a U+0000 after `limit`. */
function failText(from: number, to: number): never;
function failText(from: number, to: number, limit: number): void;
function failText(from: number, to: number, limit = to): void {
  const illFormed = illFormedAt(s.bytes, from, to);
  if (illFormed >= 0) fail("utf8_invalid", illFormed);
  const nullAt = s.bytes.indexOf(0, from);
  if (nullAt < limit) fail("utf8_null", nullAt);
}

/** Checks that the packet has no trailing bytes. */
export function finish(): void {
  if (s.at !== s.end) fail("trailing_bytes", s.at);
}

/** Throws an error. `index`: into the bytes. `reason`: the reason code to send, 0x81 for malformed packets. */
export function fail(code: DecodeErrorCode, index: number, reason = 0x81): never {
  s.packetEnd = 0;
  throw new MqttDecodeError(code, index - s.start, reason);
}

function failShort(index: number): never {
  fail(s.packetEnd > 0 ? "property_past_block" : "field_past_end", index);
}
