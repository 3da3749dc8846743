/// <reference lib="esnext.disposable" preserve="true" />

import type { Connack, Publish, PublishProperties, QoS } from "@tautwire/mqtt-codec";
import { bytes, text, type PayloadCodec } from "../codecs/codec.js";
import { asMqttError, canceled, closedBy, MqttError } from "../errors.js";
import type { Counters } from "../session/counters.js";
import type { Receipt } from "../session/incoming.js";
import { SUCCESS, type PublishResult, type Outgoing } from "../session/outgoing.js";
import { Router } from "../topics/router.js";
import type { Topic, TopicArguments, TopicParams } from "../topics/topic.js";
import { checkQoS, checkRequest, checkTopic } from "./arguments.js";
import { Connection, type ConnectionOwner } from "./connection.js";
import { Emitter, type ClientEvents, type ClientState } from "./events.js";
import { Message } from "./message.js";
import { checkNames, systemClock, type ClientOptions } from "./options.js";
import type { Platform } from "./platform.js";
import { handled, isMistake, settling, whenAborted, type Settle } from "./promises.js";
import type { ServerAddress } from "./servers.js";
import { Subscription, type MessageHandler, type SubscribeOptions, type SubscriptionOwner } from "./subscription.js";

/** Options of {@link Client.publish}. */
export interface PublishOptions<T = unknown> {
  /** Default: 0. */
  qos?: QoS | undefined;
  /** Whether the server stores the message as the retained message of the topic. */
  retain?: boolean | undefined;
  /** The properties of the PUBLISH. Left out before MQTT 5.0. */
  properties?: PublishProperties | undefined;
  /** How the payload is encoded. */
  codec?: PayloadCodec<T> | undefined;
  /** Rejects the promise. A message that has not been sent yet is dropped. */
  signal?: AbortSignal | undefined;
}

/** Options of a subscription to a typed topic. */
export interface TopicSubscribeOptions<P extends string, T> extends SubscribeOptions<T> {
  /** The parameters that must have these values; the others match any value. */
  params?: Partial<TopicArguments<P>> | undefined;
}

/** Options of {@link Client.close}. */
export interface CloseOptions {
  /** How long to wait for pending messages, in milliseconds. Default: 5,000; 0 does not wait. */
  drainMs?: number | undefined;
  /** The reason code of DISCONNECT; with 4 the server publishes the will. Default: 0. MQTT 5.0. */
  reason?: number | undefined;
  /** Ends the client at once. */
  signal?: AbortSignal | undefined;
}

const DEFAULT_DRAIN_MS = 5_000;
const DEFAULT_READ_PAUSE_MS = 1_000;
const NOTHING_TO_STOP = (): void => undefined;
/** The names of all {@link PublishOptions}. */
const PUBLISH_NAMES = "qos retain properties codec signal";
/** The names of all {@link TopicSubscribeOptions}. */
const SUBSCRIBE_NAMES =
  "qos noLocal retainAsPublished retainHandling userProperties ack concurrency codec signal maxQueueMessages maxQueueBytes overflow subscriptionIdentifier params";

/** The local subscriptions to one filter, which share one subscription on the server. */
interface Entry {
  readonly filter: string;
  readonly identifier: number;
  readonly subscriptions: Subscription[];
}

/**
 * An MQTT client that reconnects automatically. Every promise that it returns settles, at the latest when the client closes. A rejection
 * that you do not handle is an unhandled rejection only for programming errors: `invalid_argument`, `invalid_options` or
 * `payload_invalid`.
 */
export class Client implements ConnectionOwner, SubscriptionOwner {
  /** @internal */
  readonly connection: Connection;
  /** @internal Whether the application has asked for a session that outlives the client. */
  readonly outlives: boolean;
  private readonly emitter = new Emitter<ClientEvents>();
  private readonly entries = new Map<string, Entry>();
  private readonly router = new Router<Entry>();
  private readonly topicCodecs = new Router<PayloadCodec<unknown>>();
  private readonly hasTopicCodecs: boolean;
  private lastIdentifier = 0;
  private fullSubscriptions = 0;
  private endError: MqttError | null = null;
  private readonly waiting = new Set<(error: MqttError | null) => void>();
  private stopListening = NOTHING_TO_STOP;

  /** @internal See `connect` and `createClient`. */
  constructor(
    server: ServerAddress | readonly ServerAddress[],
    /** @internal */
    readonly options: ClientOptions,
    platform: Platform,
    failsFast: boolean,
  ) {
    const { store, protocolVersion, cleanStart, sessionExpiryS = 0 } = options;
    this.outlives = store !== undefined || (protocolVersion === 4 ? cleanStart === false : sessionExpiryS > 0);
    this.connection = new Connection(server, options, platform, failsFast, this);
    const topicCodecs = Object.entries(options.topicCodecs ?? {});
    this.hasTopicCodecs = topicCodecs.length > 0;
    for (const [filter, codec] of topicCodecs) this.topicCodecs.add(filter, codec);
    options.store?.attach(this);
    this.stopListening = whenAborted(options.signal, (error) => {
      this.connection.end(error);
    });
    if (!this.connection.isOver()) this.connection.start();
  }

  /** The state of the client. */
  get state(): ClientState {
    return this.connection.state;
  }

  /** The client identifier, from the options or assigned by the server. */
  get clientId(): string {
    return this.connection.session.clientId;
  }

  /** @internal The output of `console.log` in Node.js, Deno and Bun. It hides the options, which may contain secrets. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `Client ${this.clientId}`;
  }

  /** The protocol version of the current or the next connection: 5, or 4 for MQTT 3.1.1. */
  get protocolVersion(): 4 | 5 {
    return this.connection.version;
  }

  /** The CONNACK of the last connection, with the limits and features of the server. */
  get connack(): Connack | null {
    return this.connection.connack;
  }

  /** Counts events and reached limits. The object is live: its values keep changing. */
  get counters(): Counters {
    return this.connection.counters;
  }

  /** How many messages wait to be sent, and how many are sent but not acknowledged. */
  get pending(): { queued: number; inflight: number } {
    const { outgoing } = this.connection.session;
    return { queued: outgoing.queued, inflight: outgoing.open };
  }

  /** Adds a listener. Returns a function that removes it. */
  on<Name extends keyof ClientEvents>(name: Name, listener: (event: ClientEvents[Name]) => void): () => void {
    return this.emitter.on(name, listener);
  }

  /** Resolves when the client is connected, at once if it already is. Rejects with the reason when the client closes. */
  connected(options: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.state === "connected") return Promise.resolve();
    if (this.connection.isOver()) return handled(Promise.reject(this.endError ?? closedBy(null)));
    return settling<unknown>((done) => {
      let stopListening = NOTHING_TO_STOP;
      const settle = (error: MqttError | null) => {
        this.waiting.delete(settle);
        stopListening();
        done(error, undefined);
      };
      this.waiting.add(settle);
      stopListening = whenAborted(options.signal, settle);
    }) as Promise<void>;
  }

  // Publishing.

  /**
   * Publishes a message. The promise resolves when a QoS 0 message has been written to the network, when the server has
   * acknowledged a QoS 1 message, and when the exchange of a QoS 2 message is complete. While the client is not connected, the message
   * waits in the queue. Do not change the payload until the promise is settled.
   *
   * Rejects with {@link MqttError}, also for invalid arguments. Such programming errors are counted, and become unhandled
   * rejections if you do not handle them.
   */
  publish(topic: string, payload: unknown, options?: PublishOptions): Promise<PublishResult>;
  publish<P extends string, T>(
    topic: Topic<P, T>,
    params: TopicArguments<P>,
    value: T,
    options?: PublishOptions<T>,
  ): Promise<PublishResult>;
  publish(topic: string | Topic, a: unknown, b?: unknown, c?: PublishOptions): Promise<PublishResult> {
    try {
      if (b === undefined && typeof topic === "string" && this.isPlain(a) && this.connection.session.sendNow(topic, a, false)) {
        return this.connection.written();
      }
      if (typeof topic === "string") return this.publishNow(topic, a, (b ?? {}), undefined);
      if (!(topic instanceof Object && "name" in topic)) checkTopic(topic);
      return this.publishNow(topic.name(a as Record<string, string>), b, c ?? {}, topic.codec);
    } catch (error) {
      const failure = asMqttError(error, "invalid_argument");
      this.countMistake(failure);
      return settling((settle) => {
        settle(failure, SUCCESS);
      });
    }
  }

  private countMistake(error: MqttError): void {
    if (isMistake(error)) this.connection.counters.mistakes++;
  }

  /** Whether a value is published without a codec. */
  private isPlain(value: unknown): value is Uint8Array | string {
    return !this.hasTopicCodecs && isPayload(value);
  }

  private publishNow(
    topic: string,
    value: unknown,
    options: PublishOptions,
    topicCodec: PayloadCodec<unknown> | undefined,
  ): Promise<PublishResult> {
    const { session } = this.connection;
    checkNames(options, PUBLISH_NAMES);
    const { qos = 0, retain = false, signal } = options;
    checkQoS(qos);
    const { payload, properties } = this.encode(topic, value, options, topicCodec);
    if (this.connection.isOver()) throw closedBy(this.endError);
    if (qos === 0 && signal === undefined && session.outgoing.isClear) {
      session.sendNow(topic, payload, retain, properties);
      return this.connection.written();
    }
    checkTopic(topic);
    if (qos === 0 && this.options.queueQoS0 === false && this.state !== "connected") {
      throw new MqttError("not_connected", topic);
    }
    if (signal?.aborted === true) throw canceled(signal);
    return this.publishLater(topic, payload, qos, retain, properties, signal);
  }

  private publishLater(
    topic: string,
    payload: Uint8Array | string,
    qos: QoS,
    retain: boolean,
    properties: PublishProperties | undefined,
    signal: AbortSignal | undefined,
  ): Promise<PublishResult> {
    const { session } = this.connection;
    return settling((settle) => {
      const message: Outgoing = {
        topic,
        payload,
        qos,
        retain,
        properties,
        size: topic.length + payload.length,
        since: session.link.now,
        packetId: 0,
        stage: "waiting",
        epoch: 0,
        result: SUCCESS,
        settle: (error, result) => {
          stopListening();
          if (error !== null) this.countMistake(error);
          settle(error, result);
        },
      };
      const stopListening = whenAborted(signal, () => {
        session.outgoing.cancel(message, signal!);
      });
      if (properties?.messageExpiryInterval !== undefined) this.updateTime(message);
      session.outgoing.publish(message);
      // The acknowledgement must be read even if the queue of a subscription is full.
      if (this.fullSubscriptions > 0) this.connection.resume();
    });
  }

  /** Updates the time of the session, which is stale after an idle period. */
  private updateTime(message: { since: number }): void {
    message.since = this.connection.session.link.now = (this.options.clock ?? systemClock).now();
  }

  private encode(
    topic: string,
    value: unknown,
    options: PublishOptions,
    topicCodec: PayloadCodec<unknown> | undefined,
  ): { payload: Uint8Array | string; properties: PublishProperties | undefined } {
    const { properties } = options;
    let codec = options.codec ?? topicCodec;
    if (codec === undefined) {
      if (this.isPlain(value)) return { payload: value, properties };
      codec = this.topicCodecs.match(topic)[0];
    }
    if (codec === undefined) {
      if (isPayload(value)) return { payload: value, properties };
      throw new MqttError("payload_invalid", `${topic}: set a codec, or use bytes or text`);
    }
    try {
      return { payload: codec.encode(value), properties: describe(codec, properties) };
    } catch (error) {
      throw asMqttError(error, "payload_invalid", `${topic}: ${codec.contentType}`);
    }
  }

  /**
   * Publishes a QoS 0 message without a promise, which is fastest. Returns whether the message was accepted. It is not, and is not
   * sent, if the client is not connected or the network cannot keep up.
   *
   * @throws {MqttError} The topic or the payload is invalid.
   */
  send(topic: string, payload: Uint8Array | string, options?: { retain?: boolean; properties?: PublishProperties }): boolean {
    const { session, counters } = this.connection;
    const isTaken = session.sendNow(topic, payload, options?.retain ?? false, options?.properties);
    if (!isTaken) counters.sendsRefused++;
    return isTaken;
  }

  // Subscribing.

  /**
   * Subscribes to a topic filter, or to several, and resubscribes after reconnections if necessary. Iterate over the result, or pass a
   * handler. Subscriptions to the same filter share one subscription on the server, with options that suit all; each gets all messages.
   *
   * @throws {MqttError} `invalid_argument`: the filter is invalid. `invalid_options`: an option is unknown.
   */
  subscribe<T = unknown>(
    filter: string | readonly string[],
    options?: SubscribeOptions<T> | MessageHandler<T>,
    handler?: MessageHandler<T>,
  ): Subscription<T>;
  subscribe<P extends string, T>(
    topic: Topic<P, T>,
    options?: TopicSubscribeOptions<P, T> | MessageHandler<T, TopicParams<P>>,
    handler?: MessageHandler<T, TopicParams<P>>,
  ): Subscription<T, TopicParams<P>>;
  subscribe(what: string | readonly string[] | Topic, a?: unknown, b?: unknown): unknown {
    // A copy, because the object identifies this subscription and must not change.
    const options = { ...(typeof a === "object" ? a : undefined) } as TopicSubscribeOptions<string, unknown>;
    const handler = (typeof a === "function" ? a : b) as MessageHandler | undefined;
    checkNames(options, SUBSCRIBE_NAMES);
    const { concurrency = 1 } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new MqttError("invalid_options", "concurrency: must be an integer from 1");
    }
    const topic = what instanceof Object && "filterFor" in what ? what : undefined;
    const filters = topic === undefined ? [what as string].flat() : [topic.filterFor(options.params ?? {})];
    if (filters.length === 0) throw new MqttError("invalid_argument", "no topic filter");
    for (const filter of filters) checkRequest(filter, options);
    if (options.noLocal === true && this.protocolVersion === 4) {
      throw new MqttError("not_supported", "noLocal needs MQTT 5.0");
    }
    return this.addSubscription([...new Set(filters)], options, handler, topic);
  }

  private addSubscription(
    filters: readonly string[],
    options: SubscribeOptions,
    handler: MessageHandler | undefined,
    topic: Topic | undefined,
  ): Subscription {
    let settle!: Settle<QoS>;
    const ready = settling<QoS>((settleReady) => {
      settle = settleReady;
    });
    let stopListening = NOTHING_TO_STOP;
    const onEnd = () => {
      stopListening();
    };
    const subscription = new Subscription(filters, options, handler, topic, this, onEnd, ready);
    if (this.connection.isOver()) {
      const error = closedBy(this.endError);
      settle(error, 0);
      subscription.finish(error);
      return subscription;
    }
    const left = this.leftFor(filters);
    this.ask(subscription, settle);
    for (const each of left) {
      void this.remove(each);
      subscription.takeOver(each);
    }
    if (this.fullSubscriptions > 0) this.connection.resume();
    stopListening = whenAborted(options.signal, (error) => {
      settle(error, 0);
      void this.remove(subscription);
      subscription.finish(error);
    });
    // It may have been refused or aborted already.
    if (subscription.isOver) stopListening();
    return subscription;
  }

  /** The subscriptions without a loop whose messages a new subscription to these filters takes over. */
  private leftFor(filters: readonly string[]): Set<Subscription> {
    const entries = filters.map((filter) => this.entries.get(filter)?.subscriptions ?? []);
    return new Set(entries.flat().filter((each) => each.isLeft && each.filters.every((filter) => filters.includes(filter))));
  }

  /** Subscribes to all filters of a subscription, and settles once with the lowest granted QoS. */
  private ask(subscription: Subscription, settle: Settle<QoS>): void {
    const { filters, options } = subscription;
    let left = filters.length;
    let lowest: QoS = 2;
    for (const filter of filters) {
      // An earlier filter may have been refused already.
      if (subscription.isOver) return;
      const entry = this.entryFor(filter, options);
      entry.subscriptions.push(subscription);
      this.connection.session.filters.subscribe(filter, entry.identifier, options, (error, qos) => {
        lowest = Math.min(lowest, qos) as QoS;
        left--;
        if (error === null && left > 0) return;
        subscription.isGranted = error === null;
        settle(error, lowest);
      });
    }
  }

  private entryFor(filter: string, options: SubscribeOptions): Entry {
    let entry = this.entries.get(filter);
    if (entry === undefined) {
      const isNumbered = this.options.subscriptionIdentifiers !== false;
      const identifier = options.subscriptionIdentifier ?? (isNumbered ? ++this.lastIdentifier : 0);
      entry = { filter, identifier, subscriptions: [] };
      this.entries.set(filter, entry);
      this.router.add(filter, entry);
    }
    return entry;
  }

  /** @internal Ends a subscription. Unsubscribes from its filters, or updates their options, if no other subscription needs them. */
  remove(subscription: Subscription): Promise<void> {
    const { filters, options } = subscription;
    const leaving = filters.map((filter) => {
      const entry = this.entries.get(filter);
      const at = entry?.subscriptions.indexOf(subscription) ?? -1;
      if (entry === undefined || at < 0) return Promise.resolve();
      entry.subscriptions.splice(at, 1);
      if (entry.subscriptions.length === 0) this.removeEntry(entry);
      if (this.connection.isOver()) return Promise.resolve();
      return settling<unknown>((settle) => {
        this.connection.session.filters.unsubscribe(filter, options, settle);
      });
    });
    return handled(Promise.all(leaving).then(NOTHING_TO_STOP));
  }

  private removeEntry(entry: Entry): void {
    this.entries.delete(entry.filter);
    this.router.remove(entry.filter, entry);
  }

  /** @internal */
  onRefused(filter: string, error: MqttError): void {
    const entry = this.entries.get(filter);
    if (entry === undefined) return;
    this.removeEntry(entry);
    const refused = entry.subscriptions.splice(0);
    for (const subscription of refused) {
      subscription.finish(error);
      // A subscription ends as a whole, so unsubscribe from its other filters.
      void this.remove(subscription);
    }
    if (refused.some(({ isObserved }) => !isObserved)) this.onError(error);
  }

  /** @internal */
  onFull(isFull: boolean): void {
    this.fullSubscriptions += isFull ? 1 : -1;
    const changes = isFull ? this.fullSubscriptions === 1 : this.fullSubscriptions === 0;
    if (changes) this.connection.pause(isFull);
  }

  /** @internal */
  afterReadPause(callback: () => void): () => void {
    const clock = this.options.clock ?? systemClock;
    const timer = clock.setTimeout(callback, this.options.maxReadPauseMs ?? DEFAULT_READ_PAUSE_MS);
    return () => {
      clock.clearTimeout(timer);
    };
  }

  /** @internal */
  onHeldUp(subscription: Subscription): void {
    this.connection.counters.heldUp++;
    this.emit("held_up", { subscription });
  }

  // Receiving.

  /** @internal */
  onMessage(packet: Publish, receipt: Receipt | null): void {
    const entries = this.router.match(packet.topic);
    if (entries.length === 1 && entries[0]!.subscriptions.length === 1) {
      const subscription = entries[0]!.subscriptions[0]!;
      subscription.deliver(packet, receipt === null ? null : this.acknowledger(receipt, 1));
    } else {
      this.deliverToMany(packet, receipt, entries);
    }
  }

  private deliverToMany(packet: Publish, receipt: Receipt | null, entries: readonly Entry[]): void {
    // A subscription with several matching filters gets the message once.
    const subscriptions = new Set(selectEntries(entries, packet).flatMap((entry) => entry.subscriptions));
    if (subscriptions.size === 0) {
      this.onUnhandled(packet, receipt);
      return;
    }
    const done = receipt === null ? null : this.acknowledger(receipt, subscriptions.size);
    for (const subscription of subscriptions) subscription.deliver(packet, done);
  }

  /** Returns a function that acknowledges after `count` calls, with the highest reason code of them. */
  private acknowledger(receipt: Receipt, count: number): (reason: number) => void {
    let left = count;
    let worst = 0;
    return (reason) => {
      worst = Math.max(worst, reason);
      if (--left === 0) this.connection.session.incoming.acknowledge(receipt, worst);
    };
  }

  private onUnhandled(packet: Publish, receipt: Receipt | null): void {
    this.connection.counters.unhandled++;
    const hasListeners = this.emitter.has("message");
    const done = receipt === null ? null : this.acknowledger(receipt, 1);
    const message = new Message(packet, { codec: undefined, topic: undefined, codecFor: this.codecFor }, done);
    if (hasListeners) this.emit("message", message);
    else message.acknowledge();
  }

  /** @internal */
  readonly codecFor = (packet: Publish): PayloadCodec<unknown> => {
    const { contentType, payloadFormatIndicator } = packet.properties;
    if (contentType !== undefined) {
      const type = contentType.split(";", 1)[0]!.trim().toLowerCase();
      for (const codec of this.options.codecs ?? []) {
        if (codec.contentType === type) return codec;
      }
    }
    const byTopic = this.hasTopicCodecs ? this.topicCodecs.match(packet.topic)[0] : undefined;
    if (byTopic !== undefined) return byTopic;
    return (payloadFormatIndicator === 1 ? text : bytes);
  };

  // The connection.

  /**
   * Re-authenticates on the current connection (section 4.12.1) while messages keep flowing. Resolves when the server has accepted.
   * If either side refuses, the connection ends. MQTT 5.0.
   *
   * @throws {MqttError} As a rejection: `not_supported`, also while a re-authentication is in progress; `connection_lost`;
   * `authentication_failed`; `server_disconnected` with the server's reason.
   */
  reauthenticate(): Promise<void> {
    return handled(this.connection.authenticate());
  }

  /** Drops the connection without a DISCONNECT, like a network failure; the client then reconnects. For tests. */
  cut(): void {
    this.connection.cut();
  }

  /**
   * Closes the client: waits for pending messages, sends DISCONNECT, and rejects what is still pending with
   * `closed`. Loops over subscriptions end. Resolves when the connection is closed; never rejects.
   */
  close(options: CloseOptions = {}): Promise<void> {
    const { signal, drainMs = DEFAULT_DRAIN_MS, reason = 0 } = options;
    const stopListening = whenAborted(signal, () => {
      this.connection.end(null);
    });
    return this.connection.close(drainMs, reason).finally(() => {
      stopListening();
      return this.options.store?.end(this.connection);
    });
  }

  /** Closes the client at the end of `await using client = …`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  onConnected(connack: Connack): void {
    for (const settle of [...this.waiting]) settle(null);
    this.emit("connected", { sessionPresent: connack.sessionPresent, connack });
  }

  /** @internal */
  onDisconnected(error: MqttError): void {
    this.emit("disconnected", { error });
  }

  /** @internal */
  onRetry(attempt: number, delayMs: number, error: MqttError): void {
    this.emit("reconnecting", { attempt, delayMs, error });
  }

  /** @internal */
  onClosed(error: MqttError | null): void {
    this.endError = error;
    this.stopListening();
    for (const settle of [...this.waiting]) settle(error ?? closedBy(null));
    const failure = error === null ? null : closedBy(error);
    for (const { subscriptions } of this.entries.values()) {
      for (const subscription of subscriptions) subscription.finish(failure);
    }
    this.entries.clear();
    this.emit("closed", { error });
  }

  /**
   * Allows Node.js to exit while the client is connected or connecting, like `unref` of a socket. It has no effect on
   * platforms without `unref`.
   */
  unref(): this {
    this.connection.setRef(false);
    return this;
  }

  /** Reverses {@link unref}. */
  ref(): this {
    this.connection.setRef(true);
    return this;
  }

  /** @internal */
  onError(error: MqttError): void {
    this.connection.report({ type: "error", error });
    this.emit("error", error);
  }

  private emit<Name extends keyof ClientEvents>(name: Name, event: ClientEvents[Name]): void {
    const thrown = this.emitter.emit(name, event);
    if (thrown === undefined) return;
    const error = new MqttError("callback_failed", `a listener for ${name}`, { cause: thrown });
    this.connection.report({ type: "error", error });
    if (name !== "error") this.emitter.emit("error", error);
  }
}

function isPayload(value: unknown): value is Uint8Array | string {
  return typeof value === "string" || value instanceof Uint8Array;
}

/** Selects the matching filters whose subscription identifiers the packet carries. */
function selectEntries(entries: readonly Entry[], packet: Publish): readonly Entry[] {
  const identifiers = packet.properties.subscriptionIdentifiers;
  if (identifiers === undefined || entries.length < 2) return entries;
  const named = entries.filter(({ identifier }) => identifiers.includes(identifier));
  return named.length > 0 ? named : entries;
}

function describe(codec: PayloadCodec<unknown>, properties: PublishProperties | undefined): PublishProperties {
  return {
    contentType: codec.contentType,
    ...(codec.isText ? { payloadFormatIndicator: 1 as const } : undefined),
    ...properties,
  };
}
