// Writes the fields of one packet. Where the bytes go is one of two things: a slab of this writer's own, which is handed out
// piece by piece and never written twice, or a buffer of the caller.

import { MqttEncodeError, type EncodeErrorCode } from "../encode-error.js";
import { firstWildcard } from "../topics.js";
import { TEXT_DOES_NOT_FIT, TEXT_HAS_NULL, writeText } from "./text.js";

/** Packets of up to a quarter of this share a slab of so many bytes. */
const SLAB_BYTES = 64 * 1024;
/** The most that a fixed header takes. */
const HEADER_MAX = 5;
const MAX_REMAINING = 268_435_455;

const encoder = /* @__PURE__ */ new TextEncoder();

/** What has been written so far lies between `start` and `at` in `bytes`. */
export class Writer {
  bytes: Uint8Array = new Uint8Array(0);
  at = 0;
  private limit = 0;
  private start = 0;
  /** Where the body begins, if the guess of its length is right. */
  private guess = 0;
  /** Where the free part of the slab begins. */
  private slabAt = 0;
  private slab: Uint8Array = this.bytes;
  /** Kept, because asking bytes for their buffer takes longer than making a view of it. */
  private slabBuffer: ArrayBufferLike = this.slab.buffer;
  private isSlab = true;

  /** Begins a packet in the slab. `size`: bytes that it will take at least, a guess. */
  beginInSlab(size: number): void {
    const wanted = size + 128;
    if (this.slab.length - this.slabAt < wanted) {
      this.takeSlab(new Uint8Array(wanted > SLAB_BYTES / 4 ? wanted : SLAB_BYTES));
    }
    this.isSlab = true;
    this.bytes = this.slab;
    this.start = this.slabAt;
    this.at = this.start + HEADER_MAX;
    this.limit = this.slab.length;
  }

  private takeSlab(slab: Uint8Array): void {
    this.slab = slab;
    this.slabBuffer = slab.buffer;
    this.slabAt = 0;
  }

  /** Begins a packet in a buffer of the caller. `size`: bytes that it will take, a guess. */
  beginIn(buffer: Uint8Array, offset: number, size: number): void {
    this.isSlab = false;
    this.bytes = buffer;
    this.start = offset;
    this.at = offset + headerLength(size);
    this.limit = buffer.length;
    this.guess = this.at;
    if (this.at > this.limit) this.fail("buffer_too_small", "buffer");
  }

  /** Puts the fixed header before the body. `more`: bytes of the body that will be sent by themselves. Answers a view. */
  endInSlab(first: number, more: number): Uint8Array {
    const bodyAt = this.start + HEADER_MAX;
    const remaining = this.at - bodyAt + more;
    const begin = bodyAt - headerLength(remaining);
    putHeader(this.bytes, begin, first, remaining);
    // Packets larger than a slab have one of their own, which may be longer than they are.
    this.slabAt = this.at;
    return new Uint8Array(this.slabBuffer, begin, this.at - begin);
  }

  /** As {@link endInSlab}, without a view and without taking the bytes: for their number alone. */
  measureInSlab(more: number): number {
    const remaining = this.at - this.start - HEADER_MAX + more;
    return headerLength(remaining) + remaining;
  }

  /** Puts the fixed header before the body, which moves if it does not begin where it was guessed. Answers the length. */
  endIn(first: number): number {
    const bodyAt = this.guess;
    const remaining = this.at - bodyAt;
    const begin = this.start + headerLength(remaining);
    if (begin !== bodyAt) {
      if (begin + remaining > this.limit) this.fail("buffer_too_small", "buffer");
      this.bytes.copyWithin(begin, bodyAt, this.at);
    }
    putHeader(this.bytes, this.start, first, remaining);
    return begin + remaining - this.start;
  }

  /** Makes sure that `size` more bytes fit. */
  need(size: number): void {
    if (this.at + size > this.limit) this.grow(size);
  }

  private grow(size: number): void {
    if (!this.isSlab) this.fail("buffer_too_small", "buffer");
    const written = this.at - this.start;
    if (written + size > MAX_REMAINING + HEADER_MAX) this.fail("packet_too_large", "packet");
    const slab = new Uint8Array(Math.max(SLAB_BYTES, 2 * written + size));
    slab.set(this.bytes.subarray(this.start, this.at));
    this.takeSlab(slab);
    this.bytes = slab;
    this.start = 0;
    this.at = written;
    this.limit = slab.length;
  }

  byte(value: number): void {
    this.need(1);
    this.bytes[this.at++] = value;
  }

  twoBytes(value: number): void {
    this.need(2);
    const { bytes, at } = this;
    bytes[at] = value >> 8;
    bytes[at + 1] = value;
    this.at = at + 2;
  }

  fourBytes(value: number): void {
    this.need(4);
    const { bytes, at } = this;
    bytes[at] = value >>> 24;
    bytes[at + 1] = value >>> 16;
    bytes[at + 2] = value >>> 8;
    bytes[at + 3] = value;
    this.at = at + 4;
  }

  variableByteInteger(value: number): void {
    this.need(headerLength(value) - 1);
    this.at = putVariableByteInteger(this.bytes, this.at, value);
  }

  /** A text that is a topic name or empty. */
  topic(text: string, field: string): void {
    const start = this.text(text, field);
    if (firstWildcard(this.bytes, start, this.at) < this.at) this.fail("topic_wildcard", field);
  }

  /** Two bytes of length, then the UTF-8 of the text. `field` names it in errors. Answers where the UTF-8 begins. */
  text(text: string, field: string): number {
    if (typeof text !== "string") this.fail("wrong_type", field);
    if (text.length > 65_535) this.fail("field_too_long", field);
    // One UTF-16 unit takes at most three bytes. In the slab there is room for the most, so that a text always fits.
    this.need(2 + (this.isSlab ? text.length * 3 : text.length));
    const start = this.at + 2;
    const end = writeText(this.bytes, start, this.limit, text);
    if (end < 0) this.failText(end, field);
    const length = end - start;
    if (length > 65_535) this.fail("field_too_long", field);
    this.bytes[start - 2] = length >> 8;
    this.bytes[start - 1] = length;
    this.at = end;
    return start;
  }

  private failText(flaw: number, field: string): never {
    if (flaw === TEXT_DOES_NOT_FIT) this.fail("buffer_too_small", "buffer");
    return this.fail(flaw === TEXT_HAS_NULL ? "utf8_null" : "utf8_invalid", field);
  }

  /** Two bytes of length, then the bytes. */
  binary(data: Uint8Array | string, field: string): void {
    this.need(2);
    // Counted from the start of the packet: the bytes move to another slab when this one is full.
    const position = this.at - this.start;
    this.at += 2;
    this.payload(data, field);
    const at = this.start + position;
    const length = this.at - at - 2;
    if (length > 65_535) this.fail("field_too_long", field);
    this.bytes[at] = length >> 8;
    this.bytes[at + 1] = length;
  }

  /** The bytes alone, or the UTF-8 of text. */
  payload(data: Uint8Array | string, field: string): void {
    if (typeof data === "string") data = encoder.encode(data);
    else if (!(data instanceof Uint8Array)) this.fail("wrong_type", field);
    const length = data.length;
    this.need(length);
    const { bytes, at } = this;
    if (length > 24) {
      bytes.set(data, at);
    } else {
      for (let i = 0; i < length; i++) bytes[at + i] = data[i]!;
    }
    this.at = at + length;
  }

  /** Leaves room for a property length of one byte. Answers where the block begins, counted from the packet's start. */
  beginBlock(): number {
    this.need(1);
    this.at++;
    return this.at - this.start;
  }

  /** Puts the property length before the block that begins there. Longer blocks move to make room. */
  endBlock(position: number): void {
    const length = this.at - this.start - position;
    if (length >= 0x80) this.endLongBlock(length);
    else this.bytes[this.start + position - 1] = length;
  }

  private endLongBlock(length: number): void {
    const extra = headerLength(length) - 2;
    this.need(extra);
    const from = this.at - length;
    this.bytes.copyWithin(from + extra, from, this.at);
    putVariableByteInteger(this.bytes, from - 1, length);
    this.at += extra;
  }

  fail(code: EncodeErrorCode, field: string): never {
    throw new MqttEncodeError(code, field);
  }
}

/** Bytes of the fixed header of a packet with that remaining length. */
export function headerLength(remaining: number): number {
  return remaining < 0x80 ? 2 : remaining < 0x4000 ? 3 : remaining < 0x20_0000 ? 4 : HEADER_MAX;
}

function putHeader(bytes: Uint8Array, at: number, first: number, remaining: number): void {
  bytes[at] = first;
  if (remaining < 0x80) bytes[at + 1] = remaining;
  else if (remaining > MAX_REMAINING) throw new MqttEncodeError("packet_too_large", "packet");
  else putVariableByteInteger(bytes, at + 1, remaining);
}

function putVariableByteInteger(bytes: Uint8Array, at: number, value: number): number {
  while (value >= 0x80) {
    bytes[at++] = (value & 0x7f) | 0x80;
    value >>>= 7;
  }
  bytes[at] = value;
  return at + 1;
}
