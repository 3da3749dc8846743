import type { Publish, PublishProperties, QoS } from "@tautwire/mqtt-codec";
import { text, type PayloadCodec } from "../codecs/codec.js";
import { asMqttError } from "../errors.js";
import type { Topic } from "../topics/topic.js";

/** Tells the server that the application is done with a message. It is called once for each message. */
export type Acknowledge = (reason: number) => void;

/** What a message needs to know about the subscription that it came by. */
export interface MessageContext {
  readonly codec: PayloadCodec<unknown> | undefined;
  readonly topic: Topic | undefined;
  /** The codec for messages without one of their subscription. */
  readonly codecFor: (message: Publish) => PayloadCodec<unknown>;
}

/** A received message. */
export class Message<T = unknown, Params = unknown> {
  private parsed: unknown = NOT_PARSED;

  constructor(
    private readonly packet: Publish,
    private readonly context: MessageContext,
    private done: Acknowledge | null,
  ) {}

  /** The topic name. */
  get topic(): string {
    return this.packet.topic;
  }

  /** The message itself. A view of what arrived, which nobody writes to: `slice()` it to keep little of much. */
  get payload(): Uint8Array {
    return this.packet.payload;
  }

  /** The QoS with which it came. */
  get qos(): QoS {
    return this.packet.qos;
  }

  /** Whether it is a retained message, sent because the subscription is new; see `retainAsPublished`. */
  get retain(): boolean {
    return this.packet.retain;
  }

  /** Whether the server may have sent it before. */
  get dup(): boolean {
    return this.packet.dup;
  }

  /** What else came with it. Empty before MQTT 5.0. */
  get properties(): PublishProperties {
    return this.packet.properties;
  }

  /** The parameters of a typed topic. */
  get params(): Params {
    return this.context.topic?.match(this.topic) as Params;
  }

  /**
   * The payload as its codec gives it: that of the subscription, or of the content type, or of the topic, or text if the
   * message says that it is text; otherwise the bytes.
   *
   * @throws {MqttError} `payload_invalid`: the payload is not what the codec takes.
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
   * @throws {MqttError} `payload_invalid`: it is not UTF-8.
   */
  text(): string {
    return this.decode(text);
  }

  /** The same message with another codec for its {@link value}. */
  as<V>(codec: PayloadCodec<V>): Message<V, Params> {
    return new Message(this.packet, { ...this.context, codec: codec }, this.done);
  }

  /** @internal The same message as one of another subscription. */
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
   * Says that the application is done with the message; the server may then forget it. Needed with `ack: "manual"` alone,
   * without effect the second time and for QoS 0.
   *
   * `reason`: 0, or a reason code from 0x80 on for a message that is refused (section 3.4.2.1, MQTT 5.0).
   */
  acknowledge(reason = 0): void {
    const { done } = this;
    this.done = null;
    done?.(reason);
  }
}

const NOT_PARSED = /* @__PURE__ */ Symbol();
