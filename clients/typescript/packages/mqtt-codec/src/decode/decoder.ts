import type { Connect, Packet } from "../packets.js";
import { decodeBody } from "./body.js";
import { Frame } from "./frame.js";
import { NOTHING, release } from "./reader.js";
import { shortAscii } from "./short-ascii.js";
import { StreamDecoder, type DecoderOptions } from "./stream-decoder.js";

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
export class MqttDecoder extends StreamDecoder {
  constructor(options: DecoderOptions = {}) {
    super(options, shortAscii);
  }

  /**
   * The next packet as a frame: type, flags and where its bytes are. Only the fixed header is checked; the topic is when it
   * is asked for, all the rest when the packet is. A CONNECT is decoded, for its version.
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

  /** Packets until more bytes are needed. */
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

  /** Forgets all bytes, an error and what a CONNECT has said: for another connection. */
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
