// Messages to the server (sections 4.3, 4.4, 4.6, 4.9): the queue, and the exchanges that are not complete.

import type { Acknowledgement, Pubcomp, PublishProperties, Pubrec, QoS, UserProperty } from "@tautwire/mqtt-codec";
import { MqttError } from "../errors.js";
import type { Counters } from "./counters.js";
import { Deque } from "./deque.js";
import type { Link } from "./link.js";
import type { PacketIds } from "./packet-ids.js";

/** The acknowledgement of a published message by the server. */
export interface PublishResult {
  /** The reason code: 0, or 0x10 if the topic has no subscriber. Always 0 for QoS 0 and before MQTT 5.0. */
  readonly reason: number;
  readonly reasonString?: string | undefined;
  readonly userProperties?: readonly UserProperty[] | undefined;
}

/** The result of a message that succeeded without a reason string or properties. */
export const SUCCESS: PublishResult = /* @__PURE__ */ Object.freeze({ reason: 0 });

/** The stage of a message: queued, PUBLISH sent, PUBREL sent, complete. */
export type Stage = "waiting" | "sent" | "released" | "over";

/** A message in the queue, or one whose exchange is not complete. */
export interface Outgoing {
  topic: string;
  payload: Uint8Array | string;
  readonly qos: QoS;
  readonly retain: boolean;
  readonly properties: PublishProperties | undefined;
  /** The size that counts against the limit of the queue, in bytes. */
  readonly size: number;
  /** When it was published, for its expiry; in milliseconds. */
  readonly since: number;
  packetId: number;
  stage: Stage;
  /** The last connection on which it counted against the server's Receive Maximum; 0 if it was never sent. */
  epoch: number;
  /** The result so far. */
  result: PublishResult;
  /** Settles the promise of the message, once. */
  settle: ((error: MqttError | null, result: PublishResult) => void) | null;
  /** Its sequence number in the store, if it is there. */
  sequence?: number | undefined;
}

/** Limits of the outgoing queue. */
export interface QueueOptions {
  /** The maximum number of messages. Default: 10,000. */
  maxMessages?: number | undefined;
  /** The maximum size of topics and payloads. Default: 16 MiB. */
  maxBytes?: number | undefined;
  /** What happens to a message that does not fit: it is rejected (default), or the oldest messages are dropped. */
  policy?: "reject" | "drop-oldest" | undefined;
}

const DEFAULT_INFLIGHT = 1_024;
/** 3.1.1 has no Receive Maximum. A common server accepts 20 messages in flight, and loses further QoS 2 messages. */
const DEFAULT_INFLIGHT_V3 = 20;
const DEFAULT_QUEUE_MESSAGES = 10_000;
const DEFAULT_QUEUE_BYTES = 16 * 1024 * 1024;
const NO_PAYLOAD = "";

export class OutgoingMessages {
  /** @internal The exchanges in the order in which they are resent `[MQTT-4.6.0-1]`. */
  readonly inflight = new Map<number, Outgoing>();
  private readonly queue = new Deque<Outgoing>();
  private queueBytes = 0;
  /** Exchanges of an earlier connection that must be resent. */
  private readonly resends = new Deque<Outgoing>();
  /** The exchanges that count against the server's Receive Maximum on this connection (section 4.9). */
  private counted = 0;
  /** The maximum of `counted`. */
  private window = 0;
  /** Whether new messages are refused. */
  isClosing = false;
  private readonly maxMessages: number;
  private readonly maxBytes: number;
  private readonly dropsOldest: boolean;

  constructor(
    private readonly link: Link,
    private readonly ids: PacketIds,
    private readonly counters: Counters,
    options: QueueOptions,
    private readonly maxInflight: number | undefined,
    /** Whether QoS 1 messages of a lost session are published again. */
    private readonly republishes: boolean,
  ) {
    this.maxMessages = options.maxMessages ?? DEFAULT_QUEUE_MESSAGES;
    this.maxBytes = options.maxBytes ?? DEFAULT_QUEUE_BYTES;
    this.dropsOldest = options.policy === "drop-oldest";
  }

  /** The number of messages that have not been sent. */
  get queued(): number {
    return this.queue.length;
  }

  /** The number of incomplete exchanges. */
  get open(): number {
    return this.inflight.size;
  }

  /** Whether a QoS 0 message can be sent now without overtaking another message. */
  get isClear(): boolean {
    return this.link.isUp && !this.link.isCongested && !this.isClosing && this.queue.length === 0;
  }

  /** Sends the message, or queues it. Rejects it if neither is possible. */
  publish(message: Outgoing): void {
    if (this.link.isUp && !this.link.isCongested && this.queue.length === 0 && this.resends.length === 0) {
      if (message.qos === 0 || this.counted < this.window) {
        this.transmit(message);
        return;
      }
    }
    this.enqueue(message);
  }

  private enqueue(message: Outgoing): void {
    const { queue } = this;
    // A message that is larger than the whole queue waits in it alone.
    while (queue.length >= this.maxMessages || (queue.length > 0 && this.queueBytes + message.size > this.maxBytes)) {
      const oldest = this.dropsOldest ? this.takeQueued() : undefined;
      if (oldest === undefined) {
        this.counters.queueFull++;
        this.end(message, new MqttError("queue_full", `${queue.length} messages, ${this.queueBytes} bytes`));
        return;
      }
      this.counters.dropped++;
      this.end(oldest, new MqttError("dropped", oldest.topic));
    }
    this.append(message);
    this.link.recorder?.queued(message);
  }

  /** @internal Queues a message without checking the limits. */
  append(message: Outgoing): void {
    this.queue.push(message);
    this.queueBytes += message.size;
  }

  private takeQueued(): Outgoing | undefined {
    const message = this.queue.shift();
    if (message !== undefined) this.queueBytes -= message.size;
    return message;
  }

  /** Rejects the promise of a message, and drops the message unless its exchange has started. */
  cancel(message: Outgoing, signal: AbortSignal): void {
    if (message.stage === "waiting" && this.queue.remove(message)) {
      this.queueBytes -= message.size;
      this.link.recorder?.done(message);
    }
    const code = message.epoch === 0 ? "canceled" : "unacknowledged";
    finish(message, new MqttError(code, message.topic, { cause: signal.reason }), SUCCESS);
  }

  /** Sends as many messages as possible. */
  pump(): void {
    const { link, resends, queue } = this;
    while (link.isUp && !link.isCongested) {
      const repeated = resends.peek();
      if (repeated !== undefined) {
        if (repeated.stage === "sent" && this.counted >= this.window) return;
        resends.shift();
        this.repeat(repeated);
        continue;
      }
      const next = queue.peek();
      if (next === undefined || (next.qos > 0 && this.counted >= this.window)) return;
      this.takeQueued();
      this.transmit(next);
    }
  }

  /** Resends the packet of an exchange `[MQTT-4.4.0-1]`. */
  private repeat(message: Outgoing): void {
    if (message.stage === "released") this.link.send({ type: "pubrel", packetId: message.packetId });
    else if (message.stage === "sent") this.transmit(message);
  }

  private transmit(message: Outgoing): void {
    const { link } = this;
    const { qos } = message;
    const isRepeated = message.stage === "sent";
    try {
      const properties = this.propertiesNow(message);
      this.check(message);
      if (qos === 0) {
        this.put(message.topic, message.payload, message.retain, 0, null, false, properties);
        this.end(message, null);
        return;
      }
      if (!isRepeated) {
        message.packetId = this.ids.take();
        this.inflight.set(message.packetId, message);
        link.recorder?.sent(message);
      }
      this.put(message.topic, message.payload, message.retain, qos, message.packetId, isRepeated, properties);
      message.stage = "sent";
      this.count(message);
    } catch (error) {
      if (!(error instanceof MqttError)) throw error;
      if (message.packetId !== 0) this.release(message);
      this.end(message, error);
    }
  }

  private count(message: Outgoing): void {
    if (message.epoch === this.link.epoch) return;
    message.epoch = this.link.epoch;
    this.counted++;
  }

  private check(message: Outgoing): void {
    const { limits } = this.link;
    // [MQTT-3.2.2-11]
    const highest = limits.maximumQoS ?? 2;
    if (message.qos > highest) {
      throw new MqttError("qos_not_supported", `QoS ${message.qos}, the maximum is ${highest}`);
    }
    // [MQTT-3.2.2-14]
    if (message.retain && limits.retainAvailable === false) {
      throw new MqttError("retain_not_supported", message.topic);
    }
  }

  /** Returns the properties of a message with its remaining lifetime. */
  private propertiesNow(message: Outgoing): PublishProperties | undefined {
    const { properties } = message;
    const lifetime = properties?.messageExpiryInterval;
    if (lifetime === undefined) return properties;
    const waited = Math.floor(Math.max(0, this.link.now - message.since) / 1000);
    if (waited === 0) return properties;
    // Expire only messages that were never sent. The server may have received the others, so their exchange must be completed.
    if (waited >= lifetime && message.stage === "waiting") {
      this.counters.expired++;
      throw new MqttError("expired", message.topic);
    }
    return { ...properties, messageExpiryInterval: Math.max(1, lifetime - waited) };
  }

  /** Encodes a PUBLISH, with a topic alias if its topic has one. */
  put(
    topic: string,
    payload: Uint8Array | string,
    retain: boolean,
    qos: QoS,
    packetId: number | null,
    dup: boolean,
    properties: PublishProperties | undefined,
  ): void {
    const { link } = this;
    // Refuse a payload that is too large before memory is allocated for it.
    if (payload.length > link.maxPacketSize) link.refuse(payload.length);
    const alias = link.aliases === null ? undefined : link.aliases.take(topic);
    scratch.topic = topic;
    // Before 5.0 there are no properties.
    scratch.properties = link.version === 5 ? properties : undefined;
    if (alias !== undefined) {
      if (alias.known) scratch.topic = "";
      scratch.properties = properties === undefined ? alias.properties : { ...properties, ...alias.properties };
    }
    scratch.payload = payload;
    scratch.qos = qos as 1;
    scratch.packetId = packetId!;
    scratch.dup = dup;
    scratch.retain = retain;
    link.send(scratch, topic.length * 3 + payload.length + 32);
    if (alias !== undefined) alias.known = true;
    scratch.payload = NO_PAYLOAD;
  }

  onPuback(packet: Acknowledgement<"puback">): void {
    const message = this.inflight.get(packet.packetId);
    if (message?.qos === 1 && message.stage === "sent") this.complete(message, resultOf(packet));
  }

  onPubrec(packet: Pubrec): void {
    const { packetId, reason } = packet;
    const message = this.inflight.get(packetId);
    if (message?.qos !== 2) {
      // For an unknown exchange, answer with 0x92, so that the server can end it (section 4.3.3).
      this.link.send({ type: "pubrel", packetId, reason: this.link.version === 5 ? 0x92 : 0 });
      return;
    }
    if (reason >= 0x80) {
      this.complete(message, resultOf(packet));
      return;
    }
    if (message.stage === "sent") {
      message.stage = "released";
      this.count(message);
      this.link.recorder?.released(message);
      // Keep the reason code of PUBREC, such as 0x10, because PUBCOMP does not repeat it.
      message.result = resultOf(packet);
      // The server has the payload. Move the exchange to the end: PUBREL packets follow the order of PUBREC [MQTT-4.6.0-4].
      message.payload = NO_PAYLOAD;
      this.inflight.delete(packetId);
      this.inflight.set(packetId, message);
    }
    this.link.send({ type: "pubrel", packetId });
  }

  onPubcomp(packet: Pubcomp): void {
    const message = this.inflight.get(packet.packetId);
    if (message?.stage === "released") this.complete(message, message.result);
  }

  private complete(message: Outgoing, result: PublishResult): void {
    if (message.epoch === this.link.epoch) this.counted--;
    this.release(message);
    this.end(message, result.reason < 0x80 ? null : new MqttError("publish_refused", message.topic, result), result);
    this.pump();
  }

  private release(message: Outgoing): void {
    this.inflight.delete(message.packetId);
    this.ids.release(message.packetId);
  }

  onConnected(isSessionPresent: boolean): void {
    const { limits, version } = this.link;
    const maximum = this.maxInflight ?? (version === 5 ? DEFAULT_INFLIGHT : DEFAULT_INFLIGHT_V3);
    this.window = Math.min(limits.receiveMaximum ?? 65_535, maximum);
    this.counted = 0;
    this.resends.clear();
    if (isSessionPresent) this.resume();
    else this.sessionLost();
  }

  /**
   * Prepares the exchanges of a resumed session. PUBREL packets leave first, because exchanges that wait for PUBCOMP count
   * [MQTT-3.3.4-7]: behind a PUBLISH that waits for room in the window they would wait forever.
   */
  private resume(): void {
    const open = [...this.inflight.values()];
    for (const message of open) {
      if (message.stage !== "released") continue;
      this.count(message);
      this.resends.push(message);
    }
    for (const message of open) {
      if (message.stage === "sent") this.resends.push(message);
    }
  }

  /** Handles the loss of the server's session `[MQTT-3.2.2-5]`. */
  private sessionLost(): void {
    const renewed: Outgoing[] = [];
    for (const message of [...this.inflight.values()]) {
      this.release(message);
      if (message.qos === 1 && this.republishes && message.settle !== null) {
        message.packetId = 0;
        message.stage = "waiting";
        this.link.recorder?.unsent(message);
        renewed.push(message);
      } else {
        this.end(message, new MqttError("session_lost", message.topic));
      }
    }
    this.queue.prepend(renewed);
    for (const message of renewed) this.queueBytes += message.size;
  }

  /** Rejects all messages at the end of the client. */
  failAll(error: MqttError): void {
    const open = [...this.inflight.values(), ...this.queue.drain()];
    this.inflight.clear();
    this.resends.clear();
    this.queueBytes = 0;
    for (const message of open) this.end(message, error);
  }

  private end(message: Outgoing, error: MqttError | null, result = SUCCESS): void {
    message.stage = "over";
    this.link.recorder?.done(message);
    finish(message, error, result);
  }
}

/** One object for all packets, because the encoder reads it immediately. */
const scratch: {
  type: "publish";
  topic: string;
  payload: Uint8Array | string;
  qos: 1;
  packetId: number;
  dup: boolean;
  retain: boolean;
  properties: PublishProperties | undefined;
} = { type: "publish", topic: "", payload: NO_PAYLOAD, qos: 1, packetId: 0, dup: false, retain: false, properties: undefined };

function resultOf({ reason, properties }: Acknowledgement<"puback" | "pubrec">): PublishResult {
  return { reason, ...properties };
}

function finish(message: Outgoing, error: MqttError | null, result: PublishResult): void {
  const { settle } = message;
  message.settle = null;
  settle?.(error, result);
}
