import type { Connect, Packet } from "../packets.js";
import { decodeBody } from "./body.js";
import { Frame } from "./frame.js";
import { NOTHING, release } from "./reader.js";
import { shortAscii } from "./short-ascii.js";
import { StreamDecoder, type DecoderOptions } from "./stream-decoder.js";

/**
 * Decodes the byte stream of one connection. Push chunks of any size, then read packets until there are no more:
 *
 * ```ts
 * decoder.push(chunk);
 * for (const packet of decoder) handle(packet);
 * ```
 *
 * Payloads and other binary fields are views. They stay valid as long as the pushed chunk is not modified;
 * the decoder itself never overwrites memory to which it has returned a view. `payload.slice()` makes a copy.
 *
 * A chunk is referenced, not copied, until its packets have been read; only a packet that spans chunks is copied.
 */
export class MqttDecoder extends StreamDecoder {
  constructor(options: DecoderOptions = {}) {
    super(options, shortAscii);
  }

  /**
   * Returns the next packet as a frame: its type, flags and bytes. Only the fixed header is validated; the topic is validated when
   * it is read, everything else by `decode()`. A CONNECT is decoded, because it sets the version.
   *
   * @throws {MqttDecodeError} As {@link read}.
   */
  readFrame(): Frame | null {
    const bodyAt = this.next();
    if (bodyAt < 0) return null;
    const start = this.at;
    this.at = this.packetEnd;
    if (this.bytes[start]! >> 4 === 1) this.decode(start, bodyAt);
    return new Frame(this.bytes, start, this.packetEnd, this.protocolVersion, this.caches);
  }

  /** Iterates over packets until more bytes are needed. */
  [Symbol.iterator](): IterableIterator<Packet> {
    return {
      next: () => {
        const value = this.read();
        return value === null ? { value: undefined, done: true } : { value, done: false };
      },
      [Symbol.iterator]() {
        return this;
      },
    };
  }

  /** Discards all bytes, an error and the version of the CONNECT, for use with another connection. */
  reset(): void {
    this.protocolVersion = this.initialVersion;
    this.bytes = NOTHING;
    this.at = this.end = 0;
    this.chunk = this.failure = null;
    this.limit = this.maxPacketSize;
    release();
  }

  protected override decodeBody(first: number): Packet {
    const packet = decodeBody(first, this.protocolVersion);
    if (first >> 4 === 1) this.protocolVersion = (packet as Connect).protocolVersion;
    return packet;
  }
}
