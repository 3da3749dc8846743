import type { Publish, PublishProperties, QoS } from "@tautwire/mqtt-codec";
import { text, type PayloadCodec } from "../codecs/codec.js";
import { asMqttError } from "../errors.js";
import type { Topic } from "../topics/topic.js";

/** Acknowledges a message to the server. It is called once for each message. */
export type Acknowledge = (reason: number) => void;

/** The parts of a subscription that its messages need. */
export interface MessageContext {
  readonly codec: PayloadCodec<unknown> | undefined;
  readonly topic: Topic | undefined;
  /** Returns the codec for a message whose subscription has none. */
  readonly codecFor: (message: Publish) => PayloadCodec<unknown>;
}

/** A received message. */
export class Message<T = unknown, Params = unknown> {
  private parsed: unknown = NOT_PARSED;
  /** @internal */
  isAcknowledged = false;

  constructor(
    private readonly packet: Publish,
    private readonly context: MessageContext,
    private done: Acknowledge | null,
  ) {}

  /** The topic name. */
  get topic(): string {
    return this.packet.topic;
  }

  /** The payload: a read-only view of the received bytes. To keep a small payload and free the rest, copy it with `slice()`. */
  get payload(): Uint8Array {
    return this.packet.payload;
  }

  /** The QoS of the received PUBLISH. */
  get qos(): QoS {
    return this.packet.qos;
  }

  /** Whether the server sent a retained message because of a new subscription; see `retainAsPublished`. */
  get retain(): boolean {
    return this.packet.retain;
  }

  /** Whether the server may have sent the message before. */
  get dup(): boolean {
    return this.packet.dup;
  }

  /** The properties of the PUBLISH. Empty before MQTT 5.0. */
  get properties(): PublishProperties {
    return this.packet.properties;
  }

  /** The parameters of a typed topic. */
  get params(): Params {
    return this.context.topic?.match(this.topic) as Params;
  }

  /**
   * The decoded payload. The codec is that of the subscription, of the content type, or of the topic, or text if the payload format
   * indicator is 1; otherwise the value is the bytes.
   *
   * @throws {MqttError} `payload_invalid`: the codec cannot decode the payload.
   */
  get value(): T {
    if (this.parsed === NOT_PARSED) {
      const codec = this.context.codec ?? this.context.codecFor(this.packet);
      this.parsed = this.decode(codec);
    }
    return this.parsed as T;
  }

  /**
   * The payload as text.
   *
   * @throws {MqttError} `payload_invalid`: the payload is not UTF-8.
   */
  text(): string {
    return this.decode(text);
  }

  /** The same message with another codec for its {@link value}. */
  as<V>(codec: PayloadCodec<V>): Message<V, Params> {
    return new Message(this.packet, { ...this.context, codec: codec }, this.done);
  }

  /** @internal The same message for another subscription. */
  within<U, P>(context: MessageContext): Message<U, P> {
    return new Message(this.packet, context, this.done);
  }

  private decode<V>(codec: PayloadCodec<V>): V {
    try {
      return codec.decode(this.payload);
    } catch (error) {
      throw asMqttError(error, "payload_invalid", `${this.topic}: ${codec.contentType}`);
    }
  }

  /**
   * Acknowledges the message, so that the server does not send it again. Needed only with `ack: "manual"`. Further calls, and calls
   * for QoS 0 messages, have no effect.
   *
   * `reason`: 0, or a reason code of 0x80 or higher to refuse the message (section 3.4.2.1, MQTT 5.0).
   */
  acknowledge(reason = 0): void {
    this.isAcknowledged = true;
    const { done } = this;
    this.done = null;
    done?.(reason);
  }
}

const NOT_PARSED = /* @__PURE__ */ Symbol();
