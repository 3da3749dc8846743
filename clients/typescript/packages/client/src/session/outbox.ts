import type { PacketInit, ProtocolVersion } from "@tautwire/mqtt-codec";
import { encodeClientInto, MqttEncodeError } from "@tautwire/mqtt-codec/client";

const FIRST_BYTES = 16 * 1024;

/** The bytes that one turn of the event loop has to send: packets are encoded straight into one buffer. */
export class Outbox {
  version: ProtocolVersion = 5;
  /** How many bytes wait in `bytes`, from its beginning. */
  length = 0;
  private bytes = new Uint8Array(FIRST_BYTES);

  /**
   * Encodes a packet behind the others, and answers how many bytes it took. `atLeast`: a guess that saves a second try.
   *
   * @throws {MqttEncodeError} The packet cannot be written; the outbox is as before.
   */
  put(packet: PacketInit, atLeast: number): number {
    const { length } = this;
    if (length + atLeast > this.bytes.length) this.grow(atLeast);
    for (;;) {
      try {
        const taken = encodeClientInto(packet, this.bytes, length, this.version);
        this.length = length + taken;
        return taken;
      } catch (error) {
        if (!(error instanceof MqttEncodeError && error.code === "buffer_too_small")) throw error;
        this.grow(this.bytes.length);
      }
    }
  }

  /** Takes back the last `count` bytes. */
  unput(count: number): void {
    this.length -= count;
  }

  /** What there is to send. It is written over by the next packets unless {@link handOver} says that it is not free. */
  peek(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }

  /** All has been sent. `isFree`: whether its memory may be written to again. */
  handOver(isFree: boolean): void {
    this.length = 0;
    if (!isFree || this.bytes.length > 16 * FIRST_BYTES) this.bytes = new Uint8Array(FIRST_BYTES);
  }

  private grow(size: number): void {
    const bytes = new Uint8Array(Math.max(this.bytes.length * 2, this.length + size));
    bytes.set(this.bytes.subarray(0, this.length));
    this.bytes = bytes;
  }
}
