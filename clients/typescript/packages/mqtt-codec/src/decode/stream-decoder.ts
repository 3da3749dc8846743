import { MqttDecodeError } from "../decode-error.js";
import type { DecodeErrorCode } from "../error-codes.js";
import type { Packet, ProtocolVersion } from "../packets.js";
import { firstByteFlaw, isLegalFirst, MAX_PACKET_SIZE } from "./fixed-header.js";
import { begin, NOTHING, type Caches } from "./reader.js";
import type { ShortAscii } from "./text.js";
import { TextCache, TEXTS, TOPICS } from "./text-cache.js";

/** Packets that are cut by the end of a chunk are put together in blocks of this many bytes. */
const BLOCK_BYTES = 16 << 10;

/** Chunks of up to so many bytes are copied whole behind a cut packet, larger ones only as far as the packet goes. */
const SMALL_CHUNK_BYTES = 64;

/** What a decoder needs to know about its connection. */
export interface DecoderOptions {
  /** The version that the connection speaks, until a CONNECT says its own. Default: 5. */
  protocolVersion?: ProtocolVersion | undefined;
  /** The largest whole packet in bytes, fixed header included, that is accepted. Default: what the format can express. */
  maxPacketSize?: number | undefined;
}

/** Finds the packets in the byte stream of one connection, however it is cut into chunks. */
export abstract class StreamDecoder {
  /** The version in which packets are read. A CONNECT sets it, on both sides of a connection alike. */
  protocolVersion: ProtocolVersion;
  /** The largest whole packet in bytes that is accepted. */
  readonly maxPacketSize: number;

  protected readonly initialVersion: ProtocolVersion;
  protected readonly caches: Caches;
  /** What is being read: a pushed chunk, or the block below. Bytes from `at` to `end` have not been taken yet. */
  protected bytes: Uint8Array = NOTHING;
  protected at = 0;
  protected end = 0;
  /** The end of the packet that has been found. */
  protected packetEnd = 0;
  /** Where cut packets are put together. Written only behind `blockEnd`, so that views into it stay as they are. */
  private block = NOTHING;
  private blockEnd = 0;
  /** The rest of a chunk whose beginning completes the packet in the block. */
  protected chunk: Uint8Array | null = null;
  private chunkAt = 0;
  protected failure: MqttDecodeError | null = null;
  /** The largest packet, or -1 after a failure: one check for both. */
  protected limit: number;

  protected constructor(options: DecoderOptions, shortAscii: ShortAscii | null) {
    this.caches = { topics: new TextCache(TOPICS), texts: new TextCache(TEXTS), filters: null, shortAscii };
    this.protocolVersion = this.initialVersion = options.protocolVersion ?? 5;
    this.maxPacketSize = this.limit = options.maxPacketSize ?? MAX_PACKET_SIZE;
  }

  /** How many bytes have been pushed and not been taken as packets. */
  get bufferedBytes(): number {
    return this.end - this.at + (this.chunk === null ? 0 : this.chunk.length - this.chunkAt);
  }

  /** Gives the decoder the next bytes of the stream. Costs nothing but a copy of a packet that the last chunk cut. */
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
   * The next packet, or null if more bytes are needed for one.
   *
   * @throws {MqttDecodeError} The stream is not MQTT from here on. Every later call throws the same, until {@link reset}.
   */
  read(): Packet | null {
    const bodyAt = this.next();
    if (bodyAt < 0) return null;
    const start = this.at;
    this.at = this.packetEnd;
    return this.decode(start, bodyAt);
  }

  /** Decodes the body that the reader has begun. `first`: the checked first byte of the packet. */
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

  /** Looks for the next whole packet: answers where its body begins, with `packetEnd` set, or -1. */
  protected next(): number {
    const at = this.at;
    const end = this.end;
    const bytes = this.bytes;
    if (end - at >= 2) {
      // The common case: a packet of less than 130 bytes.
      const length = bytes[at + 1]!;
      if (length < 0x80 && isLegalFirst(bytes[at]!) && length + 2 <= this.limit) {
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
      // One more byte, if it is the header that is cut: what lies behind it is taken from the chunk itself.
      let wanted = have + 1;
      const first = this.bytes[at]!;
      // 3.1 sets DUP on all that it sends again at QoS 1, on PUBREL, SUBSCRIBE and UNSUBSCRIBE too.
      const withoutDup = this.protocolVersion === 3 && (first & 2) !== 0 ? first & 0xf7 : first;
      if (have > 0 && !isLegalFirst(withoutDup)) this.fail(firstByteFlaw(first), 0);
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

  /** Makes `wanted` bytes of the packet at `at` available in one piece, if they have arrived. */
  private more(wanted: number): boolean {
    const chunk = this.chunk;
    const have = this.end - this.at;
    if (chunk === null) {
      // The beginning of a packet: the chunk it came in may be reused once it is copied.
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

  /** Puts these bytes behind those that are left, in the block. */
  private absorb(more: Uint8Array): void {
    const { length } = more;
    let at = this.blockEnd;
    if (this.bytes !== this.block || at + length > this.block.length) at = this.move(length);
    this.block.set(more, at);
    this.end = this.blockEnd = at + length;
  }

  /** Puts the bytes that are left where so many more can be put behind them: answers where. */
  private move(added: number): number {
    const left = this.bytes.subarray(this.at, this.end);
    const size = left.length + added;
    let at = this.blockEnd;
    if (at + size > this.block.length) {
      // Grows with what has arrived, not with what a header has announced: 5 bytes cannot reserve 256 MB.
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

  /** From here on the stream is of no use. */
  private failed(error: MqttDecodeError): MqttDecodeError {
    this.limit = -1;
    return (this.failure = error);
  }
}
