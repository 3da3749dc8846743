import { MqttEncodeError, type ConnackProperties, type PacketInit, type ProtocolVersion } from "@tautwire/mqtt-codec";
import { MqttError } from "../errors.js";
import type { TopicAliases } from "./aliases.js";
import type { Counters } from "./counters.js";
import { Outbox } from "./outbox.js";
import type { Trace } from "./trace.js";

/** What the server of this connection accepts (section 3.2.2.3), with the defaults of the standard where it says nothing. */
export interface ServerLimits {
  /** How many QoS 1 and 2 messages it takes at once. */
  receiveMaximum: number;
  maximumQoS: 0 | 1 | 2;
  retainAvailable: boolean;
  /** The largest packet in bytes. */
  maximumPacketSize: number;
  /** The highest topic alias it takes. */
  topicAliasMaximum: number;
  wildcardSubscriptions: boolean;
  subscriptionIdentifiers: boolean;
  sharedSubscriptions: boolean;
}

export function limitsOf(properties: ConnackProperties): ServerLimits {
  return {
    receiveMaximum: properties.receiveMaximum ?? 65_535,
    maximumQoS: properties.maximumQoS ?? 2,
    retainAvailable: properties.retainAvailable ?? true,
    maximumPacketSize: properties.maximumPacketSize ?? Infinity,
    topicAliasMaximum: properties.topicAliasMaximum ?? 0,
    wildcardSubscriptions: properties.wildcardSubscriptionAvailable ?? true,
    subscriptionIdentifiers: properties.subscriptionIdentifierAvailable ?? true,
    sharedSubscriptions: properties.sharedSubscriptionAvailable ?? true,
  };
}

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
  limits: ServerLimits = limitsOf({});
  aliases: TopicAliases | null = null;
  trace: Trace | undefined;

  constructor(
    /** Is told when there is something to send. */
    private readonly owner: { onOutput(): void },
    private readonly counters: Counters,
  ) {}

  get version(): ProtocolVersion {
    return this.outbox.version;
  }

  /**
   * Encodes a packet for this connection and answers its size in bytes.
   *
   * @throws {MqttError} `packet_too_large` or `invalid_argument`; nothing has been written then.
   */
  send(packet: PacketInit, atLeast = 64): number {
    const { outbox } = this;
    let size: number;
    try {
      size = outbox.put(packet, atLeast);
    } catch (error) {
      if (error instanceof MqttEncodeError) throw new MqttError("invalid_argument", error.message, { cause: error });
      throw error;
    }
    if (size > this.limits.maximumPacketSize) {
      outbox.unput(size);
      // [MQTT-3.2.2-15]
      throw new MqttError("packet_too_large", `${size} bytes, the server takes ${this.limits.maximumPacketSize}`);
    }
    this.counters.packetsSent++;
    this.trace?.("sent", packet, size);
    if (outbox.length === size || outbox.length >= FLUSH_BYTES) this.owner.onOutput();
    return size;
  }
}
