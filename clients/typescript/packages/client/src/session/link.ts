import type { ConnackProperties, PacketInit, ProtocolVersion } from "@tautwire/mqtt-codec";
import { MqttEncodeError } from "@tautwire/mqtt-codec/client";
import { MqttError } from "../errors.js";
import type { TopicAliases } from "./aliases.js";
import type { Counters } from "./counters.js";
import type { Recorder } from "./recorder.js";
import { Outbox } from "./outbox.js";
import type { Trace } from "./trace.js";

/** The maximum size of a packet in bytes (section 2.1.4). */
const PACKET_MAX_BYTES = 268_435_460;
/** The outbox is flushed before the end of the turn when it holds this many bytes. */
export const FLUSH_BYTES = 64 * 1024;

/** The state of the current connection that the parts of a session share. */
export class Link {
  readonly outbox = new Outbox();
  /** Whether the server has accepted the connection and packets may be sent. */
  isUp = false;
  /** Whether the write buffer of the transport is full. */
  isCongested = false;
  /** Counts connections. Packets of an earlier connection need no acknowledgement on this one. */
  epoch = 0;
  /** The time of the clock in milliseconds, as of the last call of the session. */
  now = 0;
  /** The limits in the CONNACK of this connection (section 3.2.2.3); the standard defines defaults for missing ones. */
  limits: ConnackProperties = {};
  /** The maximum packet size of the server, in bytes. */
  maxPacketSize = PACKET_MAX_BYTES;
  aliases: TopicAliases | null = null;
  trace: Trace | undefined;
  /** Persists the session, if there is a store. */
  recorder: Recorder | undefined;

  constructor(
    /** Notified when there are bytes to send. */
    private readonly owner: { onOutput(): void },
    private readonly counters: Counters,
  ) {}

  /** Applies the limits of the server. */
  accept(limits: ConnackProperties): void {
    this.limits = limits;
    this.maxPacketSize = Math.min(limits.maximumPacketSize ?? PACKET_MAX_BYTES, PACKET_MAX_BYTES);
  }

  get version(): ProtocolVersion {
    return this.outbox.version;
  }

  /**
   * Encodes a packet for this connection and returns its size in bytes. `atLeast`: an estimate of the size, which avoids a second try.
   *
   * @throws {MqttError} `packet_too_large` or `invalid_argument`; nothing is written then.
   */
  send(packet: PacketInit, atLeast = 64): number {
    const { outbox } = this;
    let size: number;
    try {
      size = outbox.put(packet, atLeast);
    } catch (error) {
      if (!(error instanceof MqttEncodeError)) throw error;
      if (error.code === "packet_too_large") this.refuse(atLeast);
      throw new MqttError("invalid_argument", error.message, { cause: error });
    }
    if (size > this.maxPacketSize) {
      outbox.undo(size);
      this.refuse(size);
    }
    this.counters.packetsSent++;
    this.trace?.("sent", packet, size);
    if (outbox.length === size || outbox.length >= FLUSH_BYTES) this.owner.onOutput();
    return size;
  }

  /** @throws {MqttError} `packet_too_large` */
  refuse(size: number): never {
    // [MQTT-3.2.2-15]
    throw new MqttError("packet_too_large", `${size} bytes, the maximum is ${this.maxPacketSize}`);
  }
}
