/// <reference lib="esnext.disposable" preserve="true" />

import type { Connack, Publish, PublishProperties, QoS } from "@tautwire/mqtt-codec";
import { encodeClientInto } from "@tautwire/mqtt-codec/client";
import { bytes, text, type PayloadCodec } from "../codecs/codec.js";
import { aborted, asMqttError, MqttError } from "../errors.js";
import type { Counters } from "../session/counters.js";
import type { Receipt } from "../session/incoming.js";
import type { Answer, Outgoing } from "../session/outgoing.js";
import { Router } from "../topics/router.js";
import { Topic, type TopicArguments, type TopicParams } from "../topics/topic.js";
import { Connection, type ConnectionOwner } from "./connection.js";
import { Emitter, type ClientEvents, type ClientState } from "./events.js";
import { Message } from "./message.js";
import { systemClock, type ClientOptions } from "./options.js";
import type { Platform } from "./platform.js";
import { Subscription, type MessageHandler, type SubscribeOptions, type SubscriptionOwner } from "./subscription.js";

/** How a message is published. */
export interface PublishOptions<T = unknown> {
  /** Default: 0. */
  qos?: QoS | undefined;
  /** Whether the server keeps it as the retained message of the topic. */
  retain?: boolean | undefined;
  /** What else goes with it. Left out before MQTT 5.0. */
  properties?: PublishProperties | undefined;
  /** How the payload is encoded. */
  codec?: PayloadCodec<T> | undefined;
  /** Rejects the promise. A message that has not been sent will not be. */
  signal?: AbortSignal | undefined;
}

/** How messages of a typed topic are received. */
export interface TopicSubscribeOptions<P extends string, T> extends SubscribeOptions<T> {
  /** Parameters that must have these values; all values match the others. */
  params?: Partial<TopicArguments<P>> | undefined;
}

/** How a client ends. */
export interface CloseOptions {
  /** How long to wait for messages that are on their way, in milliseconds. Default: 5,000; 0 not to wait. */
  drainMs?: number | undefined;
  /** The reason code of DISCONNECT; 4 has the server publish the will. Default: 0. MQTT 5.0. */
  reason?: number | undefined;
  /** Ends the client at once. */
  signal?: AbortSignal | undefined;
}

const DEFAULT_DRAIN_MS = 5_000;
const NOTHING_TO_STOP = (): void => undefined;
/** The most bytes of a text (section 1.5.4). */
const TEXT_MAX = 65_535;

/** Local subscriptions to one filter: the server knows it once. */
interface Entry {
  readonly filter: string;
  readonly identifier: number;
  readonly subscriptions: Subscription[];
}

/**
 * An MQTT client that stays connected. Every promise that it gives settles, at the latest when the client closes; a rejected
 * one that nobody looks at is no unhandled rejection.
 */
export class Client implements ConnectionOwner, SubscriptionOwner {
  private readonly connection: Connection;
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
    url: string | URL,
    /** @internal */
    readonly options: ClientOptions,
    platform: Platform,
    failsFast: boolean,
  ) {
    this.connection = new Connection(url, options, platform, failsFast, this);
    const topicCodecs = Object.entries(options.topicCodecs ?? {});
    this.hasTopicCodecs = topicCodecs.length > 0;
    for (const [filter, codec] of topicCodecs) this.topicCodecs.add(filter, codec);
    this.stopListening = whenAborted(options.signal, (error) => {
      this.connection.end(error);
    });
    if (!this.connection.isOver()) this.connection.start();
  }

  /** Where the client is. */
  get state(): ClientState {
    return this.connection.state;
  }

  /** The client identifier: the one of the options, or that the server has chosen. */
  get clientId(): string {
    return this.connection.session.clientId;
  }

  /** The protocol version of the present or the next connection: 5, or 4 for MQTT 3.1.1. */
  get protocolVersion(): 4 | 5 {
    return this.connection.version;
  }

  /** The CONNACK of the last connection, with what the server offers. */
  get connack(): Connack | null {
    return this.connection.connack;
  }

  /** What has happened so far, and which limits were hit. Counts on while you look. */
  get counters(): Counters {
    return this.connection.counters;
  }

  /** How many messages wait to be sent, and how many were sent and wait for the server. */
  get pending(): { queued: number; inflight: number } {
    const { outgoing } = this.connection.session;
    return { queued: outgoing.queued, inflight: outgoing.open };
  }

  /** Calls the listener with every such event, until the function that this returns is called. */
  on<Name extends keyof ClientEvents>(name: Name, listener: (event: ClientEvents[Name]) => void): () => void {
    return this.emitter.on(name, listener);
  }

  /** Resolves when the client is connected, at once if it is. Rejects when it closes, with the reason. */
  connected(options: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.state === "connected") return Promise.resolve();
    if (this.connection.isOver()) return handled(Promise.reject(this.endError ?? this.closedError()));
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
   * Publishes a message. The promise resolves when a QoS 0 message has been handed to the network, when the server has
   * acknowledged a QoS 1 message, and when the exchange of a QoS 2 message is complete. Without a connection the message
   * waits in the queue. Do not change the payload until the promise is settled.
   *
   * Rejects with {@link MqttError}; what is wrong with the arguments is a rejection too.
   */
  publish(topic: string, payload: unknown, options?: PublishOptions): Promise<Answer>;
  publish<P extends string, T>(
    topic: Topic<P, T>,
    params: TopicArguments<P>,
    value: T,
    options?: PublishOptions<T>,
  ): Promise<Answer>;
  publish(topic: string | Topic, a: unknown, b?: unknown, c?: PublishOptions): Promise<Answer> {
    try {
      if (b === undefined && typeof topic === "string" && this.isPlain(a) && this.connection.session.sendNow(topic, a, false)) {
        return this.connection.written();
      }
      if (typeof topic === "string") return this.publishNow(topic, a, (b ?? {}), undefined);
      return this.publishNow(topic.name(a as Record<string, string>), b, c ?? {}, topic.codec);
    } catch (error) {
      return handled(Promise.reject(asMqttError(error, "invalid_argument", "cannot publish")));
    }
  }

  /** Whether it goes as it is. */
  private isPlain(value: unknown): value is Uint8Array | string {
    return !this.hasTopicCodecs && isPayload(value);
  }

  private publishNow(
    topic: string,
    value: unknown,
    options: PublishOptions,
    topicCodec: PayloadCodec<unknown> | undefined,
  ): Promise<Answer> {
    const { session } = this.connection;
    const { qos = 0, retain = false, signal } = options;
    const { payload, properties } = this.encode(topic, value, options, topicCodec);
    if (this.connection.isOver()) throw this.closedError();
    if (qos === 0 && signal === undefined && session.outgoing.isClear) {
      session.sendNow(topic, payload, retain, properties);
      return this.connection.written();
    }
    checkTopic(topic);
    if (qos === 0 && this.options.queueQoS0 === false && this.state !== "connected") {
      throw new MqttError("connection_lost", "not connected, and QoS 0 messages do not wait");
    }
    if (signal?.aborted === true) throw aborted(signal);
    return this.publishLater(topic, payload, qos, retain, properties, signal);
  }

  private publishLater(
    topic: string,
    payload: Uint8Array | string,
    qos: QoS,
    retain: boolean,
    properties: PublishProperties | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
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
        settle: (error, answer) => {
          stopListening();
          settle(error, answer);
        },
      };
      const stopListening = whenAborted(signal, (error) => {
        session.outgoing.cancel(message, error);
      });
      if (properties?.messageExpiryInterval !== undefined) this.updateTime(message);
      session.outgoing.give(message);
      // The answer must be read though a subscription is full.
      if (this.fullSubscriptions > 0) this.connection.readOn();
    });
  }

  /** The session's own time may be old while nothing happens. */
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
      throw new MqttError("payload_invalid", `${topic}: a payload is bytes or text unless there is a codec`);
    }
    try {
      return { payload: codec.encode(value), properties: describe(codec, properties) };
    } catch (error) {
      throw asMqttError(error, "payload_invalid", `${topic}: the codec for ${codec.contentType} does not take this value`);
    }
  }

  /**
   * Publishes a QoS 0 message, without a promise: the fastest way. Answers whether it was taken. False: there is no
   * connection, or the network does not keep up; the message is not sent then.
   *
   * @throws {MqttError} The topic or the payload is not one.
   */
  send(topic: string, payload: Uint8Array | string, options?: { retain?: boolean; properties?: PublishProperties }): boolean {
    const { session, counters } = this.connection;
    const isTaken = session.sendNow(topic, payload, options?.retain ?? false, options?.properties);
    if (!isTaken) counters.sendsRefused++;
    return isTaken;
  }

  // Subscribing.

  /**
   * Subscribes to a topic filter, over all reconnections. Iterate the result, or give a handler.
   *
   * @throws {MqttError} `invalid_argument`: it is not a topic filter.
   */
  subscribe<T = unknown>(
    filter: string,
    options?: SubscribeOptions<T> | MessageHandler<T>,
    handler?: MessageHandler<T>,
  ): Subscription<T>;
  subscribe<P extends string, T>(
    topic: Topic<P, T>,
    options?: TopicSubscribeOptions<P, T> | MessageHandler<T, TopicParams<P>>,
    handler?: MessageHandler<T, TopicParams<P>>,
  ): Subscription<T, TopicParams<P>>;
  subscribe(what: string | Topic, a?: unknown, b?: unknown): unknown {
    const options = (typeof a === "object" ? a : {}) as TopicSubscribeOptions<string, unknown>;
    const handler = (typeof a === "function" ? a : b) as MessageHandler | undefined;
    const topic = typeof what === "string" ? undefined : what;
    const filter = typeof what === "string" ? what : what.filterFor(options.params ?? {});
    checkFilter(filter);
    return this.addSubscription(filter, options, handler, topic);
  }

  private addSubscription(
    filter: string,
    options: SubscribeOptions,
    handler: MessageHandler | undefined,
    topic: Topic | undefined,
  ): Subscription {
    const { session } = this.connection;
    const entry = this.entryFor(filter, options);
    let settle!: Settle<QoS>;
    const ready = settling<QoS>((settleReady) => {
      settle = settleReady;
    });
    let stopListening = NOTHING_TO_STOP;
    const onEnd = () => {
      stopListening();
    };
    const subscription = new Subscription(filter, options, handler, topic, this, onEnd, ready);
    if (this.connection.isOver()) {
      const error = this.closedError();
      settle(error, 0);
      subscription.finish(error);
      return subscription;
    }
    entry.subscriptions.push(subscription);
    session.filters.subscribe(filter, entry.identifier, this.filterOptions(options), settle);
    if (this.fullSubscriptions > 0) this.connection.readOn();
    stopListening = whenAborted(options.signal, (error) => {
      settle(error, 0);
      void this.remove(subscription);
      subscription.finish(error);
    });
    return subscription;
  }

  private filterOptions(options: SubscribeOptions): SubscribeOptions {
    if (this.protocolVersion === 5) return options;
    if (options.noLocal === true) throw new MqttError("not_supported", "MQTT 3.1.1 has no noLocal");
    return { qos: options.qos };
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

  /** @internal Ends a subscription; the server is told when it was the last one to its filter. */
  remove(subscription: Subscription): Promise<void> {
    const entry = this.entries.get(subscription.filter);
    const at = entry?.subscriptions.indexOf(subscription) ?? -1;
    if (entry === undefined || at < 0) return Promise.resolve();
    entry.subscriptions.splice(at, 1);
    if (entry.subscriptions.length > 0) return Promise.resolve();
    this.forget(entry);
    if (this.connection.isOver()) return Promise.resolve();
    return settling<unknown>((settle) => {
      this.connection.session.filters.unsubscribe(entry.filter, settle);
    }) as Promise<void>;
  }

  private forget(entry: Entry): void {
    this.entries.delete(entry.filter);
    this.router.remove(entry.filter, entry);
  }

  /** @internal */
  onRefused(filter: string, error: MqttError): void {
    const entry = this.entries.get(filter);
    if (entry === undefined) return;
    this.forget(entry);
    for (const subscription of entry.subscriptions.splice(0)) subscription.finish(error);
    this.onError(error);
  }

  /** @internal */
  onFull(isFull: boolean): void {
    this.fullSubscriptions += isFull ? 1 : -1;
    const changes = isFull ? this.fullSubscriptions === 1 : this.fullSubscriptions === 0;
    if (changes) this.connection.pause(isFull);
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
    const subscriptions = chosen(entries, packet).flatMap((entry) => entry.subscriptions);
    if (subscriptions.length === 0) {
      this.onUnhandled(packet, receipt);
      return;
    }
    const done = receipt === null ? null : this.acknowledger(receipt, subscriptions.length);
    for (const subscription of subscriptions) subscription.deliver(packet, done);
  }

  /** Acknowledges when so many have, with the worst reason. */
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
    const isHeard = this.emitter.has("message");
    const done = receipt === null ? null : this.acknowledger(receipt, 1);
    const message = new Message(packet, { codec: undefined, topic: undefined, codecFor: this.codecFor }, done);
    if (isHeard) this.emit("message", message);
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
   * Runs the extended authentication again on the present connection (section 4.12.1), while messages flow, and resolves when the
   * server has accepted. Where either side refuses, the connection ends. MQTT 5.0.
   *
   * @throws {MqttError} As a rejection: `not_supported`, also while one goes on; `connection_lost`; `authentication_failed`;
   * `server_disconnected` with the server's reason.
   */
  reauthenticate(): Promise<void> {
    return handled(this.connection.authenticate());
  }

  /** Ends the connection without a word, as a failure of the network would; the client then connects again. For tests. */
  cut(): void {
    this.connection.cut();
  }

  /**
   * Ends the client: waits for messages that are on their way, says DISCONNECT, and settles everything that is left with
   * `closed`. Loops over subscriptions end. Resolves when the connection is closed; never rejects.
   */
  close(options: CloseOptions = {}): Promise<void> {
    const { signal, drainMs = DEFAULT_DRAIN_MS, reason = 0 } = options;
    const stopListening = whenAborted(signal, () => {
      this.connection.end(null);
    });
    return this.connection.close(drainMs, reason).finally(stopListening);
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
    for (const settle of [...this.waiting]) settle(error ?? this.closedError());
    const failure = error === null ? null : this.closedError();
    for (const { subscriptions } of this.entries.values()) {
      for (const subscription of subscriptions) subscription.finish(failure);
    }
    this.entries.clear();
    this.emit("closed", { error });
  }

  private closedError(): MqttError {
    const { endError } = this;
    return new MqttError("closed", "the client is closed", endError === null ? {} : { cause: endError });
  }

  /** @internal A handler failed, or a subscription was refused. */
  onError(error: MqttError): void {
    this.connection.report({ type: "error", error });
    this.emit("error", error);
  }

  private emit<Name extends keyof ClientEvents>(name: Name, event: ClientEvents[Name]): void {
    const thrown = this.emitter.emit(name, event);
    if (thrown === undefined) return;
    const error = new MqttError("callback_failed", `a listener of ${name} failed`, { cause: thrown });
    this.connection.report({ type: "error", error });
    if (name !== "error") this.emitter.emit("error", error);
  }
}

/** A rejection that nobody looks at does not end the program: that the caller does not care is the caller's decision. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

/** Ends a promise: with the error, or with the value if that is null. */
type Settle<T> = (error: MqttError | null, value: T) => void;

function settling<T>(begin: (settle: Settle<T>) => void): Promise<T> {
  return handled(
    new Promise((resolve, reject) => {
      begin((error, value) => {
        if (error === null) resolve(value);
        else reject(error);
      });
    }),
  );
}

/** Calls back when the signal is aborted, at once if it is. Answers a function that stops to listen. */
function whenAborted(signal: AbortSignal | undefined, callback: (error: MqttError) => void): () => void {
  const onAbort = () => {
    callback(aborted(signal!));
  };
  if (signal?.aborted === true) onAbort();
  else signal?.addEventListener("abort", onAbort);
  return () => signal?.removeEventListener("abort", onAbort);
}

function isPayload(value: unknown): value is Uint8Array | string {
  return typeof value === "string" || value instanceof Uint8Array;
}

/** Of several filters that match, those that the server says this copy is for. */
function chosen(entries: readonly Entry[], packet: Publish): readonly Entry[] {
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

/** Wrong topics are refused when they are given, not when they can be sent at last. */
function checkTopic(topic: string): void {
  if (!/^[^+#\0\p{Surrogate}]+$/u.test(topic) || isTooLong(topic)) {
    throw new MqttError("invalid_argument", "a topic name is not empty and has neither + nor # nor U+0000");
  }
}

function isTooLong(text: string): boolean {
  // One UTF-16 unit takes at most three bytes.
  return text.length > TEXT_MAX / 3 && new TextEncoder().encode(text).length > TEXT_MAX;
}

function checkFilter(filter: string): void {
  try {
    encodeClientInto({ type: "unsubscribe", packetId: 1, filters: [filter] }, new Uint8Array(3 * filter.length + 16));
  } catch (error) {
    throw asMqttError(error, "invalid_argument", `not a topic filter: ${filter.slice(0, 80)}`);
  }
}
