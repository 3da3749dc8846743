import type { PacketInit, ProtocolVersion } from "@tautwire/mqtt-codec";
import { encodeClientInto, MqttEncodeError } from "@tautwire/mqtt-codec/client";

const FIRST_BYTES = 16 * 1024;

/** The bytes to send in one turn of the event loop. Packets are encoded directly into one buffer. */
export class Outbox {
  version: ProtocolVersion = 5;
  /** The number of bytes in the buffer. */
  length = 0;
  private bytes = new Uint8Array(FIRST_BYTES);

  /**
   * Appends a packet and returns its size in bytes. `atLeast`: an estimate of the size, which avoids a second try.
   *
   * @throws {MqttEncodeError} The packet cannot be encoded; the outbox is unchanged.
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

  /** Removes the last `count` bytes. */
  undo(count: number): void {
    this.length -= count;
  }

  /** Returns the bytes to send. Later packets overwrite them, unless {@link handOver} is called with false. */
  peek(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }

  /** Clears the outbox after its bytes were sent or dropped. `isFree`: whether their memory can be reused. */
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
