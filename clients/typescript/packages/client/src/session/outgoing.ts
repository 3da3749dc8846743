// Messages to the server (sections 4.3, 4.4, 4.6, 4.9): the queue of those that wait, and the exchanges that are not complete.

import type { Acknowledgement, Pubcomp, PublishProperties, Pubrec, QoS, UserProperty } from "@tautwire/mqtt-codec";
import { MqttError } from "../errors.js";
import type { Counters } from "./counters.js";
import { Deque } from "./deque.js";
import type { Link } from "./link.js";
import type { PacketIds } from "./packet-ids.js";

/** What the server said to a message. */
export interface Answer {
  /** The reason code: 0, or 0x10 if nobody subscribes to the topic. Always 0 for QoS 0 and before MQTT 5.0. */
  readonly reason: number;
  readonly reasonString?: string | undefined;
  readonly userProperties?: readonly UserProperty[] | undefined;
}

/** A success about which there is nothing to say. */
export const SUCCESS: Answer = /* @__PURE__ */ Object.freeze({ reason: 0 });

/** Where a message is on its way. */
export type Stage = "waiting" | "sent" | "released" | "over";

/** A message that waits, or whose exchange is not complete. */
export interface Outgoing {
  topic: string;
  payload: Uint8Array | string;
  readonly qos: QoS;
  readonly retain: boolean;
  readonly properties: PublishProperties | undefined;
  /** What it counts for in the queue, in bytes. */
  readonly size: number;
  /** When it was given to the session, for its expiry; milliseconds. */
  readonly since: number;
  packetId: number;
  stage: Stage;
  /** The connection on which its PUBLISH was sent last; 0 if it never was. */
  epoch: number;
  /** What the server has said to it so far. */
  answer: Answer;
  /** Told once how it ended. */
  settle: ((error: MqttError | null, answer: Answer) => void) | null;
  /** Its number in the store, if it is there. */
  sequence?: number | undefined;
}

/** Limits of what waits. */
export interface QueueOptions {
  /** How many messages wait for a connection or for the server. Default: 10,000. */
  maxMessages?: number | undefined;
  /** How many bytes of topics and payloads wait. Default: 16 MiB. */
  maxBytes?: number | undefined;
  /** What happens to a message that does not fit: it is refused (default), or the oldest make room for it. */
  policy?: "reject" | "drop-oldest" | undefined;
}

const DEFAULT_INFLIGHT = 1_024;
/** A server of 3.1.1 cannot say how many it takes. A common one takes 20, and loses QoS 2 messages beyond them. */
const DEFAULT_INFLIGHT_V3 = 20;
const DEFAULT_QUEUE_MESSAGES = 10_000;
const DEFAULT_QUEUE_BYTES = 16 * 1024 * 1024;
const NO_PAYLOAD = "";

export class OutgoingMessages {
  /** Exchanges in the order in which they are to be sent again `[MQTT-4.6.0-1]`. */
  /** @internal */
  readonly inflight = new Map<number, Outgoing>();
  private readonly queue = new Deque<Outgoing>();
  private queueBytes = 0;
  /** Exchanges of an earlier connection that have to be sent again. */
  private readonly again = new Deque<Outgoing>();
  /** How many more PUBLISH with QoS 1 and 2 the server takes (section 4.9). */
  private quota = 0;
  /** Whether no new messages are taken. */
  isClosing = false;
  private highestQuota = 0;
  private readonly maxMessages: number;
  private readonly maxBytes: number;
  private readonly dropsOldest: boolean;

  constructor(
    private readonly link: Link,
    private readonly ids: PacketIds,
    private readonly counters: Counters,
    options: QueueOptions,
    private readonly maxInflight: number | undefined,
    /** Whether QoS 1 messages that a lost session leaves open are sent again as new ones. */
    private readonly republishes: boolean,
  ) {
    this.maxMessages = options.maxMessages ?? DEFAULT_QUEUE_MESSAGES;
    this.maxBytes = options.maxBytes ?? DEFAULT_QUEUE_BYTES;
    this.dropsOldest = options.policy === "drop-oldest";
  }

  /** Messages that have not been sent. */
  get queued(): number {
    return this.queue.length;
  }

  /** Exchanges that are not complete. */
  get open(): number {
    return this.inflight.size;
  }

  /** Whether a QoS 0 message could be sent this moment, without overtaking another one. */
  get isClear(): boolean {
    return this.link.isUp && !this.link.isCongested && !this.isClosing && this.queue.length === 0;
  }

  /** Sends the message now if it can be sent, or lets it wait. Settles it at once if it can do neither. */
  give(message: Outgoing): void {
    if (this.link.isUp && !this.link.isCongested && this.queue.length === 0 && this.again.length === 0) {
      if (message.qos === 0 || this.quota > 0) {
        this.transmit(message);
        return;
      }
    }
    this.enqueue(message);
  }

  private enqueue(message: Outgoing): void {
    const { queue } = this;
    while (queue.length >= this.maxMessages || this.queueBytes + message.size > this.maxBytes) {
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
    this.link.keeper?.queued(message);
  }

  /** @internal Without a look at the limits. */
  append(message: Outgoing): void {
    this.queue.push(message);
    this.queueBytes += message.size;
  }

  private takeQueued(): Outgoing | undefined {
    const message = this.queue.shift();
    if (message !== undefined) this.queueBytes -= message.size;
    return message;
  }

  /** Settles the message. It is not sent if it has not been; an exchange that has begun goes on. */
  cancel(message: Outgoing, signal: AbortSignal): void {
    if (message.stage === "waiting" && this.queue.remove(message)) {
      this.queueBytes -= message.size;
      this.link.keeper?.done(message);
    }
    const code = message.epoch === 0 ? "canceled" : "unacknowledged";
    finish(message, new MqttError(code, message.topic, { cause: signal.reason }), SUCCESS);
  }

  /** Sends what can be sent. */
  pump(): void {
    const { link, again, queue } = this;
    while (link.isUp && !link.isCongested) {
      const repeated = again.peek();
      if (repeated !== undefined) {
        if (repeated.stage === "sent" && this.quota === 0) return;
        again.shift();
        this.repeat(repeated);
        continue;
      }
      const next = queue.peek();
      if (next === undefined || (next.qos > 0 && this.quota === 0)) return;
      this.takeQueued();
      this.transmit(next);
    }
  }

  /** The second and later times an exchange is sent `[MQTT-4.4.0-1]`. */
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
        link.keeper?.sent(message);
      }
      this.put(message.topic, message.payload, message.retain, qos, message.packetId, isRepeated, properties);
      message.stage = "sent";
      message.epoch = link.epoch;
      this.quota--;
    } catch (error) {
      if (!(error instanceof MqttError)) throw error;
      if (message.packetId !== 0) this.forget(message);
      this.end(message, error);
    }
  }

  private check(message: Outgoing): void {
    const { limits } = this.link;
    // [MQTT-3.2.2-11]
    const highest = limits.maximumQoS ?? 2;
    if (message.qos > highest) {
      throw new MqttError("qos_not_supported", `QoS ${message.qos}, the most is ${highest}`);
    }
    // [MQTT-3.2.2-14]
    if (message.retain && limits.retainAvailable === false) {
      throw new MqttError("retain_not_supported", message.topic);
    }
  }

  /** What is left of its lifetime goes with a message that has waited. */
  private propertiesNow(message: Outgoing): PublishProperties | undefined {
    const { properties } = message;
    const lifetime = properties?.messageExpiryInterval;
    if (lifetime === undefined) return properties;
    const waited = Math.floor(Math.max(0, this.link.now - message.since) / 1000);
    if (waited === 0) return properties;
    // The receiver of a PUBLISH that was sent may have it, and its exchange must be completed.
    if (waited >= lifetime && message.stage === "waiting") {
      this.counters.expired++;
      throw new MqttError("expired", message.topic);
    }
    return { ...properties, messageExpiryInterval: Math.max(1, lifetime - waited) };
  }

  /** Encodes a PUBLISH, with a topic alias if there is one for its topic. */
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
    // What is far too large takes no memory.
    if (payload.length > link.maxPacketSize) link.refuse(payload.length);
    const alias = link.aliases === null ? undefined : link.aliases.take(topic);
    scratch.topic = topic;
    // Before 5.0 there are none: what they say is left out.
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
    if (message?.qos === 1 && message.stage === "sent") this.complete(message, answerOf(packet));
  }

  onPubrec(packet: Pubrec): void {
    const { packetId, reason } = packet;
    const message = this.inflight.get(packetId);
    if (message?.qos !== 2) {
      // Whoever asks for an exchange that is not known is told so, and can end it (section 4.3.3).
      this.link.send({ type: "pubrel", packetId, reason: this.link.version === 5 ? 0x92 : 0 });
      return;
    }
    if (reason >= 0x80) {
      this.complete(message, answerOf(packet));
      return;
    }
    if (message.stage === "sent") {
      message.stage = "released";
      this.link.keeper?.released(message);
      // PUBCOMP does not repeat it, such as that nobody has subscribed.
      message.answer = answerOf(packet);
      // The server owns it now. Behind the others: PUBREL go in the order of PUBREC [MQTT-4.6.0-4].
      message.payload = NO_PAYLOAD;
      this.inflight.delete(packetId);
      this.inflight.set(packetId, message);
    }
    this.link.send({ type: "pubrel", packetId });
  }

  onPubcomp(packet: Pubcomp): void {
    const message = this.inflight.get(packet.packetId);
    if (message?.stage === "released") this.complete(message, message.answer);
  }

  private complete(message: Outgoing, answer: Answer): void {
    this.forget(message);
    this.quota = Math.min(this.quota + 1, this.highestQuota);
    this.end(message, answer.reason < 0x80 ? null : new MqttError("publish_refused", message.topic, answer), answer);
    this.pump();
  }

  private forget(message: Outgoing): void {
    this.inflight.delete(message.packetId);
    this.ids.release(message.packetId);
  }

  onConnected(isSessionPresent: boolean): void {
    const { limits, version } = this.link;
    const window = this.maxInflight ?? (version === 5 ? DEFAULT_INFLIGHT : DEFAULT_INFLIGHT_V3);
    this.highestQuota = this.quota = Math.min(limits.receiveMaximum ?? 65_535, window);
    this.again.clear();
    if (isSessionPresent) {
      for (const message of this.inflight.values()) this.again.push(message);
    } else {
      this.startOver();
    }
  }

  /** The server's session is gone `[MQTT-3.2.2-5]`. */
  private startOver(): void {
    const renewed: Outgoing[] = [];
    for (const message of [...this.inflight.values()]) {
      this.forget(message);
      if (message.qos === 1 && this.republishes && message.settle !== null) {
        message.packetId = 0;
        message.stage = "waiting";
        this.link.keeper?.unsent(message);
        renewed.push(message);
      } else {
        this.end(message, new MqttError("session_lost", message.topic));
      }
    }
    this.queue.prepend(renewed);
    for (const message of renewed) this.queueBytes += message.size;
  }

  /** The end of the client: nothing will be sent any more. */
  failAll(error: MqttError): void {
    const open = [...this.inflight.values(), ...this.queue.drain()];
    this.inflight.clear();
    this.again.clear();
    this.queueBytes = 0;
    for (const message of open) this.end(message, error);
  }

  private end(message: Outgoing, error: MqttError | null, answer = SUCCESS): void {
    message.stage = "over";
    this.link.keeper?.done(message);
    finish(message, error, answer);
  }
}

/** One object for all: the encoder reads it at once. */
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

function answerOf({ reason, properties }: Acknowledgement<"puback" | "pubrec">): Answer {
  return { reason, ...properties };
}

function finish(message: Outgoing, error: MqttError | null, answer: Answer): void {
  const { settle } = message;
  message.settle = null;
  settle?.(error, answer);
}
