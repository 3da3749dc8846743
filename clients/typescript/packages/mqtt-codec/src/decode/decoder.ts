import { MqttDecodeError } from "../decode-error.js";
import type { Packet, ProtocolVersion } from "../packets.js";
import { decodeBody, decodePublish } from "./body.js";
import { firstByteFlaw, isLegalFirst, MAX_PACKET_SIZE } from "./fixed-header.js";
import { Frame } from "./frame.js";
import { Reader } from "./reader.js";
import { TextCache, TOPICS } from "./text-cache.js";

/** Packets that are cut by the end of a chunk are put together in blocks of this many bytes. */
const BLOCK_BYTES = 16 * 1024;

/** Chunks of up to so many bytes are copied whole behind a cut packet, larger ones only as far as the packet goes. */
const SMALL_CHUNK_BYTES = 64;

/** What a decoder needs to know about its connection. */
export interface DecoderOptions {
  /** The version that the connection speaks, until a CONNECT says its own. Default: 5. */
  protocolVersion?: ProtocolVersion | undefined;
  /** The largest whole packet in bytes, fixed header included, that is accepted. Default: what the format can express. */
  maxPacketSize?: number | undefined;
}

/**
 * Decodes the byte stream of one connection. Push chunks of any size, then take packets until there are no more:
 *
 * ```ts
 * decoder.push(chunk);
 * for (const packet of decoder) handle(packet);
 * ```
 *
 * Payloads and other binary fields are views. They stay valid as long as the memory of the pushed chunk is not written to;
 * the decoder itself never writes where it has given out a view. `payload.slice()` makes a copy of your own.
 *
 * A chunk is kept, not copied, until its packets have been taken; only a packet that is cut by its end is copied.
 */
export class MqttDecoder {
  /** The version in which packets are read. A CONNECT sets it, on both sides of a connection alike. */
  protocolVersion: ProtocolVersion;
  /** The largest whole packet in bytes that is accepted. */
  readonly maxPacketSize: number;

  private readonly initialVersion: ProtocolVersion;
  private readonly reader = new Reader();
  private readonly topics = new TextCache(TOPICS);
  /** What is being read: a pushed chunk, or the block below. Bytes from `at` to `end` have not been taken yet. */
  private bytes: Uint8Array;
  private at = 0;
  private end = 0;
  /** Where cut packets are put together. Written only behind `blockEnd`, so that views into it stay as they are. */
  private block: Uint8Array;
  private blockEnd = 0;
  /** The rest of a chunk whose beginning completes the packet in the block. */
  private chunk: Uint8Array | null = null;
  private chunkAt = 0;
  private failure: MqttDecodeError | null = null;

  constructor(options: DecoderOptions = {}) {
    this.initialVersion = options.protocolVersion ?? 5;
    this.protocolVersion = this.initialVersion;
    this.maxPacketSize = options.maxPacketSize ?? MAX_PACKET_SIZE;
    this.block = NOTHING;
    this.bytes = NOTHING;
  }

  /** How many bytes have been pushed and not been taken as packets. */
  get bufferedBytes(): number {
    return this.end - this.at + (this.chunk === null ? 0 : this.chunk.length - this.chunkAt);
  }

  /** Gives the decoder the next bytes of the stream. Costs nothing but a copy of a packet that the last chunk cut. */
  push(chunk: Uint8Array): void {
    if (this.at === this.end && this.chunk === null) {
      this.bytes = chunk;
      this.at = 0;
      this.end = chunk.length;
      return;
    }
    const { length } = chunk;
    const { block, end } = this;
    if (this.chunk !== null) {
      this.absorb(this.chunk, this.chunkAt, this.chunk.length);
      this.chunk = null;
    } else if (length <= SMALL_CHUNK_BYTES && this.bytes === block && end === this.blockEnd && end + length <= block.length) {
      copy(chunk, 0, length, block, end);
      this.end = this.blockEnd = end + length;
      return;
    }
    if (length <= SMALL_CHUNK_BYTES) {
      this.absorb(chunk, 0, length);
    } else {
      this.chunk = chunk;
      this.chunkAt = 0;
    }
  }

  /**
   * The next packet, or null if more bytes are needed for one.
   *
   * @throws {MqttDecodeError} The stream is not MQTT from here on. Every later call throws the same, until {@link reset}.
   */
  read(): Packet | null {
    const { at, end, bytes } = this;
    if (this.failure === null) {
      if (end - at >= 2) {
        // The common case: a packet of less than 130 bytes.
        const first = bytes[at]!;
        const length = bytes[at + 1]!;
        if (length < 0x80 && isLegalFirst(first) && length + 2 <= this.maxPacketSize) {
          const packetEnd = at + 2 + length;
          if (packetEnd <= end) return this.decode(first, at, at + 2, packetEnd);
          if (this.chunk === null && bytes === this.block) return null;
        }
      } else if (at === end && this.chunk === null) {
        return null;
      }
    }
    const bodyAt = this.next();
    return bodyAt < 0 ? null : this.decode(this.bytes[this.at]!, this.at, bodyAt, this.packetEnd);
  }

  /**
   * The next packet as a frame: type, flags and where its bytes are. Only the fixed header is checked; the topic is when it
   * is asked for, all the rest when the packet is. A CONNECT is decoded, for its version.
   *
   * @throws {MqttDecodeError} As {@link read}.
   */
  readFrame(): Frame | null {
    const { at, end, bytes } = this;
    let bodyAt = at + 2;
    let packetEnd: number;
    const first = bytes[at]!;
    const length = bytes[at + 1]!;
    if (
      this.failure === null &&
      end - at >= 2 &&
      length < 0x80 &&
      bodyAt + length <= end &&
      isLegalFirst(first) &&
      length + 2 <= this.maxPacketSize
    ) {
      packetEnd = bodyAt + length;
    } else {
      bodyAt = this.next();
      if (bodyAt < 0) return null;
      packetEnd = this.packetEnd;
    }
    const start = this.at;
    if (this.bytes[start]! >> 4 === 1) this.decode(this.bytes[start]!, start, bodyAt, packetEnd);
    this.at = packetEnd;
    return new Frame(this.bytes, start, bodyAt, packetEnd, this.protocolVersion, this.topics);
  }

  /** Packets until more bytes are needed. */
  [Symbol.iterator](): IterableIterator<Packet> {
    return new Packets(this);
  }

  /** Forgets all bytes, an error and what a CONNECT has said: for another connection. */
  reset(): void {
    this.protocolVersion = this.initialVersion;
    this.bytes = NOTHING;
    this.at = 0;
    this.end = 0;
    this.chunk = null;
    this.failure = null;
    this.reader.short = "field_past_end";
    this.reader.release();
  }

  private packetEnd = 0;

  private decode(first: number, start: number, bodyAt: number, packetEnd: number): Packet {
    const r = this.reader;
    r.bytes = this.bytes;
    r.start = start;
    r.at = bodyAt;
    r.end = packetEnd;
    this.at = packetEnd;
    try {
      if (first >> 4 === 3) return decodePublish(r, first, this.protocolVersion, this.topics);
      const packet = decodeBody(r, first, this.protocolVersion);
      if (packet.type === "connect") this.protocolVersion = packet.protocolVersion;
      return packet;
    } catch (error) {
      if (error instanceof MqttDecodeError) this.failure = error;
      throw error;
    }
  }

  /** Looks for the next whole packet: answers where its body begins, with `packetEnd` set, or -1. */
  private next(): number {
    if (this.failure !== null) throw this.failure;
    for (;;) {
      const bodyAt = this.header();
      if (bodyAt > 0 && this.packetEnd <= this.end) return bodyAt;
      // One more byte, if it is the header that is cut: what lies behind it is taken from the chunk itself.
      const wanted = bodyAt > 0 ? this.packetEnd - this.at : this.end - this.at + 1;
      if (!this.more(wanted)) return -1;
    }
  }

  /** Checks as much of the fixed header as there is: answers where the body begins, or 0 if the header is cut. */
  private header(): number {
    const { bytes, at, end } = this;
    if (at === end) return 0;
    if (!isLegalFirst(bytes[at]!)) this.fail(firstByteFlaw(bytes[at]!) ?? "flags_reserved", 0);
    let length = 0;
    for (let count = 0; count < 4; count++) {
      const lengthAt = at + 1 + count;
      if (lengthAt >= end) return 0;
      const byte = bytes[lengthAt]!;
      length |= (byte & 0x7f) << (7 * count);
      if (byte < 0x80) {
        if (byte === 0 && count > 0) this.fail("variable_byte_integer_not_minimal", 1);
        if (lengthAt + 1 - at + length > this.maxPacketSize) this.fail("packet_too_large", 1, 0x95);
        this.packetEnd = lengthAt + 1 + length;
        return lengthAt + 1;
      }
    }
    return this.fail("variable_byte_integer_too_long", 1);
  }

  /** Makes `wanted` bytes of the packet at `at` available in one piece, if they have arrived. */
  private more(wanted: number): boolean {
    const { chunk } = this;
    if (chunk === null) {
      this.stash();
      return false;
    }
    if (this.at === this.end) {
      this.bytes = chunk;
      this.at = this.chunkAt;
      this.end = chunk.length;
      this.chunk = null;
      return this.at < this.end;
    }
    const missing = wanted - (this.end - this.at);
    const taken = Math.min(missing, chunk.length - this.chunkAt);
    this.absorb(chunk, this.chunkAt, this.chunkAt + taken);
    this.chunkAt += taken;
    if (this.chunkAt === chunk.length) this.chunk = null;
    return taken === missing;
  }

  /** The bytes that are left are the beginning of a packet: the chunk they came in may be reused once they are copied. */
  private stash(): void {
    if (this.at < this.end && this.bytes !== this.block) this.absorb(NOTHING, 0, 0);
  }

  /** Puts these bytes behind those that are left, in the block. */
  private absorb(from: Uint8Array, start: number, end: number): void {
    const have = this.end - this.at;
    const added = end - start;
    const isInBlock = this.bytes === this.block && this.end === this.blockEnd;
    if (isInBlock && this.end + added <= this.block.length) {
      copy(from, start, end, this.block, this.end);
      this.end += added;
      this.blockEnd = this.end;
      return;
    }
    const old = this.bytes;
    const oldAt = this.at;
    if (have + added > this.block.length - this.blockEnd) {
      // Grows with what has arrived, not with what a header has announced: 5 bytes cannot reserve 256 MB.
      this.block = new Uint8Array(Math.max(BLOCK_BYTES, have + added > BLOCK_BYTES / 4 ? 2 * (have + added) : 0));
      this.blockEnd = 0;
    }
    const at = this.blockEnd;
    copy(old, oldAt, oldAt + have, this.block, at);
    copy(from, start, end, this.block, at + have);
    this.bytes = this.block;
    this.at = at;
    this.end = at + have + added;
    this.blockEnd = this.end;
  }

  private fail(code: MqttDecodeError["code"], offset: number, reason = 0x81): never {
    this.failure = new MqttDecodeError(code, offset, reason);
    throw this.failure;
  }
}

const NOTHING: Uint8Array = /* @__PURE__ */ new Uint8Array(0);

class Packets implements IterableIterator<Packet> {
  constructor(private readonly decoder: MqttDecoder) {}

  next(): IteratorResult<Packet> {
    const value = this.decoder.read();
    return value === null ? { value: undefined, done: true } : { value, done: false };
  }

  [Symbol.iterator](): this {
    return this;
  }
}

/** A loop, four bytes at a time, is faster than a call for the few bytes that most cut packets have. */
function copy(from: Uint8Array, start: number, end: number, to: Uint8Array, at: number): void {
  if (end - start > 64) {
    to.set(from.subarray(start, end), at);
    return;
  }
  let i = start;
  for (; i + 4 <= end; i += 4, at += 4) {
    to[at] = from[i]!;
    to[at + 1] = from[i + 1]!;
    to[at + 2] = from[i + 2]!;
    to[at + 3] = from[i + 3]!;
  }
  for (; i < end; i++) to[at++] = from[i]!;
}
