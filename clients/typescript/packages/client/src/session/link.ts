import type { ConnackProperties, PacketInit, ProtocolVersion } from "@tautwire/mqtt-codec";
import { MqttEncodeError } from "@tautwire/mqtt-codec/client";
import { MqttError } from "../errors.js";
import type { TopicAliases } from "./aliases.js";
import type { Counters } from "./counters.js";
import type { Keeper } from "./keeper.js";
import { Outbox } from "./outbox.js";
import type { Trace } from "./trace.js";

/** The most bytes of a packet (section 2.1.4). */
const PACKET_MAX_BYTES = 268_435_460;
/** Bytes that are sent without waiting for the end of the turn. */
export const FLUSH_BYTES = 64 * 1024;

/** What the parts of a session know about the present connection. */
export class Link {
  readonly outbox = new Outbox();
  /** Whether the server has accepted the connection and packets may be sent. */
  isUp = false;
  /** Whether the transport has more than it should hold. */
  isCongested = false;
  /** Counts connections: what was sent or received on an earlier one needs no answer on this one. */
  epoch = 0;
  /** Milliseconds of the clock, when somebody last told. */
  now = 0;
  /** What the server of this connection accepts (section 3.2.2.3); where it says nothing, the standard has defaults. */
  limits: ConnackProperties = {};
  /** The largest packet that it accepts, in bytes. */
  maxPacketSize = PACKET_MAX_BYTES;
  aliases: TopicAliases | null = null;
  trace: Trace | undefined;
  /** Keeps what happens in a store, if there is one. */
  keeper: Keeper | undefined;

  constructor(
    /** Is told when there is something to send. */
    private readonly owner: { onOutput(): void },
    private readonly counters: Counters,
  ) {}

  /** The server has said what it accepts. */
  accept(limits: ConnackProperties): void {
    this.limits = limits;
    this.maxPacketSize = Math.min(limits.maximumPacketSize ?? PACKET_MAX_BYTES, PACKET_MAX_BYTES);
  }

  get version(): ProtocolVersion {
    return this.outbox.version;
  }

  /**
   * Encodes a packet for this connection and answers its size in bytes. `atLeast`: a guess that saves a second try.
   *
   * @throws {MqttError} `packet_too_large` or `invalid_argument`; nothing has been written then.
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
      outbox.unput(size);
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
    throw new MqttError("packet_too_large", `${size} bytes, the most is ${this.maxPacketSize}`);
  }
}
