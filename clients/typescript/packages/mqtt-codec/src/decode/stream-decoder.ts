import { MqttDecodeError } from "../decode-error.js";
import type { DecodeErrorCode } from "../error-codes.js";
import type { Packet, ProtocolVersion } from "../packets.js";
import { firstByteError, isValidFirst, MAX_PACKET_SIZE } from "./fixed-header.js";
import { begin, NOTHING, type Caches } from "./reader.js";
import type { ShortAscii } from "./text.js";
import { TextCache, TEXTS, TOPICS } from "./text-cache.js";

/** Packets that span chunks are assembled in blocks of this many bytes. */
const BLOCK_BYTES = 16 << 10;

/** Chunks of up to this size are copied whole after an incomplete packet; of larger ones only the part that completes it. */
const SMALL_CHUNK_BYTES = 64;

/** Options of a decoder. */
export interface DecoderOptions {
  /** The protocol version of the connection, until a CONNECT sets it. Default: 5. */
  protocolVersion?: ProtocolVersion | undefined;
  /** The maximum packet size in bytes, fixed header included. Default: the limit of the protocol. */
  maxPacketSize?: number | undefined;
}

/** Splits the byte stream of one connection into packets, for chunks of any size. */
export abstract class StreamDecoder {
  /** The version in which packets are decoded. A CONNECT sets it, on both sides of a connection. */
  protocolVersion: ProtocolVersion;
  /** The maximum packet size in bytes. */
  readonly maxPacketSize: number;

  protected readonly initialVersion: ProtocolVersion;
  protected readonly caches: Caches;
  /** The bytes being read: a pushed chunk, or the block below. Those from `at` to `end` are unread. */
  protected bytes: Uint8Array = NOTHING;
  protected at = 0;
  protected end = 0;
  /** The end of the packet that has been found. */
  protected packetEnd = 0;
  /** Where packets that span chunks are assembled. Written only after `blockEnd`, so that views of it stay valid. */
  private block = NOTHING;
  private blockEnd = 0;
  /** The rest of a chunk whose start completes the packet in the block. */
  protected chunk: Uint8Array | null = null;
  private chunkAt = 0;
  protected failure: MqttDecodeError | null = null;
  /** The maximum packet size, or -1 after a failure: one check for both. */
  protected limit: number;

  protected constructor(options: DecoderOptions, shortAscii: ShortAscii | null) {
    this.caches = { topics: new TextCache(TOPICS), texts: new TextCache(TEXTS), filters: null, shortAscii };
    this.protocolVersion = this.initialVersion = options.protocolVersion ?? 5;
    this.maxPacketSize = this.limit = options.maxPacketSize ?? MAX_PACKET_SIZE;
  }

  /** The number of bytes that were pushed and not read as packets. */
  get bufferedBytes(): number {
    return this.end - this.at + (this.chunk === null ? 0 : this.chunk.length - this.chunkAt);
  }

  /** Adds the next bytes of the stream. Copies only a packet that spans chunks. */
  push(chunk: Uint8Array): void {
    const rest = this.chunk;
    if (this.at === this.end && rest === null) {
      this.bytes = chunk;
      this.at = 0;
      this.end = chunk.length;
      return;
    }
    if (rest !== null) {
      this.chunk = null;
      this.absorb(rest.subarray(this.chunkAt));
    }
    if (chunk.length <= SMALL_CHUNK_BYTES) {
      this.absorb(chunk);
    } else {
      this.chunk = chunk;
      this.chunkAt = 0;
    }
  }

  /**
   * Returns the next packet, or null if more bytes are needed.
   *
   * @throws {MqttDecodeError} The stream is invalid. Every later call throws the same error, until {@link reset}.
   */
  read(): Packet | null {
    const bodyAt = this.next();
    if (bodyAt < 0) return null;
    const start = this.at;
    this.at = this.packetEnd;
    return this.decode(start, bodyAt);
  }

  /** Decodes the body at the reader's position. `first`: the validated first byte of the packet. */
  protected abstract decodeBody(first: number): Packet;

  protected decode(start: number, bodyAt: number): Packet {
    const first = this.bytes[start]!;
    begin(this.bytes, start, bodyAt, this.packetEnd, this.caches);
    try {
      return this.decodeBody(first);
    } catch (error) {
      throw this.failed(error as MqttDecodeError);
    }
  }

  /** Finds the next complete packet. Returns the start of its body and sets `packetEnd`, or returns -1. */
  protected next(): number {
    const at = this.at;
    const end = this.end;
    const bytes = this.bytes;
    if (end - at >= 2) {
      // The common case: a packet of less than 130 bytes.
      const length = bytes[at + 1]!;
      if (length < 0x80 && isValidFirst(bytes[at]!) && length + 2 <= this.limit) {
        const packetEnd = at + 2 + length;
        if (packetEnd <= end) {
          this.packetEnd = packetEnd;
          return at + 2;
        }
        if (bytes === this.block && this.chunk === null) return -1;
      }
    } else if (at === end && this.chunk === null && this.failure === null) {
      return -1;
    }
    return this.find();
  }

  private find(): number {
    if (this.failure !== null) throw this.failure;
    for (;;) {
      const at = this.at;
      const have = this.end - at;
      // If the header is incomplete, copy one more byte: the bytes after the header are taken from the chunk itself.
      let wanted = have + 1;
      const first = this.bytes[at]!;
      // 3.1 sets DUP on everything that it resends at QoS 1, also on PUBREL, SUBSCRIBE and UNSUBSCRIBE.
      const withoutDup = this.protocolVersion === 3 && (first & 2) !== 0 ? first & 0xf7 : first;
      if (have > 0 && !isValidFirst(withoutDup)) this.fail(firstByteError(first), 0);
      let length = 0;
      for (let count = 1; count < have; count++) {
        const byte = this.bytes[at + count]!;
        length |= (byte & 0x7f) << (7 * count - 7);
        if (byte < 0x80) {
          if (byte === 0 && count > 1) this.fail("variable_byte_integer_not_minimal", 1);
          wanted = 1 + count + length;
          if (wanted > this.limit) this.fail("packet_too_large", 1, 0x95);
          this.packetEnd = at + wanted;
          if (wanted <= have) return at + 1 + count;
          break;
        }
        if (count === 4) this.fail("variable_byte_integer_too_long", 1);
      }
      if (!this.more(wanted)) return -1;
    }
  }

  /** Makes `wanted` bytes of the packet at `at` available contiguously, if they have arrived. */
  private more(wanted: number): boolean {
    const chunk = this.chunk;
    const have = this.end - this.at;
    if (chunk === null) {
      // Copy the start of a packet, because the caller may reuse the chunk.
      if (have > 0 && this.bytes !== this.block) this.absorb(NOTHING);
      return false;
    }
    if (have === 0) {
      this.bytes = chunk;
      this.at = this.chunkAt;
      this.end = chunk.length;
      this.chunk = null;
      return this.at < this.end;
    }
    const missing = wanted - have;
    const part = chunk.subarray(this.chunkAt, this.chunkAt + missing);
    this.chunkAt += part.length;
    if (this.chunkAt === chunk.length) this.chunk = null;
    this.absorb(part);
    return part.length === missing;
  }

  /** Appends bytes to the unread ones, in the block. */
  private absorb(more: Uint8Array): void {
    const { length } = more;
    let at = this.blockEnd;
    if (this.bytes !== this.block || at + length > this.block.length) at = this.move(length);
    this.block.set(more, at);
    this.end = this.blockEnd = at + length;
  }

  /** Moves the unread bytes to a place with room for `added` more. Returns their end. */
  private move(added: number): number {
    const left = this.bytes.subarray(this.at, this.end);
    const size = left.length + added;
    let at = this.blockEnd;
    if (at + size > this.block.length) {
      // Grow with the bytes that have arrived, not with the announced length: 5 bytes must not reserve 256 MB.
      this.block = new Uint8Array(size > BLOCK_BYTES / 4 ? 2 * size : BLOCK_BYTES);
      at = 0;
    }
    this.block.set(left, at);
    this.bytes = this.block;
    this.at = at;
    return at + left.length;
  }

  private fail(code: DecodeErrorCode, offset: number, reason = 0x81): never {
    throw this.failed(new MqttDecodeError(code, offset, reason));
  }

  /** Marks the stream as failed. */
  private failed(error: MqttDecodeError): MqttDecodeError {
    this.limit = -1;
    return (this.failure = error);
  }
}
