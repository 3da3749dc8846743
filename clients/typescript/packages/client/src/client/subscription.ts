import type { Publish, QoS } from "@tautwire/mqtt-codec";
import type { PayloadCodec } from "../codecs/codec.js";
import { MqttError } from "../errors.js";
import type { Counters } from "../session/counters.js";
import { Deque } from "../session/deque.js";
import type { FilterOptions } from "../session/filters.js";
import type { Topic } from "../topics/topic.js";
import { Message, type Acknowledge, type MessageContext } from "./message.js";

/** Options of a subscription. */
export interface SubscribeOptions<T = unknown> extends FilterOptions {
  /** How many messages a handler may process at once. Default: 1, so that they are processed in their order. */
  concurrency?: number | undefined;
  /**
   * When QoS 1 and 2 messages are acknowledged. `auto` (default): when the loop requests the next message, when the
   * handler returns, or when the promise, or any other thenable, that it returns settles. `manual`: when you call {@link Message.acknowledge}.
   */
  ack?: "auto" | "manual" | undefined;
  /** How payloads are decoded. */
  codec?: PayloadCodec<T> | undefined;
  /** Ends the subscription. */
  signal?: AbortSignal | undefined;
  /** How many messages may wait for the loop or the handler before `overflow` applies. Default: 1,000. */
  maxQueueMessages?: number | undefined;
  /** How many bytes of payload may wait for them before `overflow` applies. Default: 16 MiB. */
  maxQueueBytes?: number | undefined;
  /**
   * What happens when the queue is full. `pause` (default): the client pauses reading until half of it is free, so that the server
   * has to wait; after `maxReadPauseMs` of the client, and while an operation waits for the server, it reads and drops QoS 0
   * messages that do not fit.
   * `drop-oldest` and `drop-newest`: QoS 0 messages are dropped. QoS 1 and 2 messages are never dropped: the receive maximum
   * limits them. Dropped messages are counted.
   */
  overflow?: "pause" | "drop-oldest" | "drop-newest" | undefined;
  /** Messages carry it in their `properties.subscriptionIdentifiers`. Default: the client chooses one. MQTT 5.0. */
  subscriptionIdentifier?: number | undefined;
}

/** Handles the messages of a subscription, one after another. It awaits a returned promise, or any other thenable. */
export type MessageHandler<T = unknown, Params = unknown> = (message: Message<T, Params>) => unknown;

/** The functions of the client that a subscription uses. */
export interface SubscriptionOwner {
  /** The queue of a subscription with a loop or a handler pauses reading, or no longer does. */
  onFull(isFull: boolean): void;
  /** Calls back when a queue has paused reading for as long as it may. Returns a function that cancels it. */
  afterReadPause(callback: () => void): () => void;
  /** A queue has paused reading for as long as it may. */
  onHeldUp(subscription: Subscription): void;
  onError(error: MqttError): void;
  remove(subscription: Subscription): Promise<void>;
  /** Whether the session outlives the client. */
  readonly outlives: boolean;
  readonly counters: Counters;
  readonly codecFor: MessageContext["codecFor"];
}

interface Queued {
  readonly message: Message;
  readonly qos: QoS;
  readonly bytes: number;
}

interface Waiting {
  readonly loop: Loop;
  resolve: (result: IteratorResult<Message>) => void;
  reject: (error: MqttError) => void;
}

const DEFAULT_QUEUE_MESSAGES = 1_000;
const DEFAULT_QUEUE_BYTES = 16 * 1024 * 1024;
const NOTHING_TO_CANCEL = (): void => undefined;
const END: IteratorResult<Message, undefined> = { value: undefined, done: true };

/**
 * A subscription to one or several topic filters. Iterate over its messages, or pass `subscribe` a handler. Leaving the loop ends the
 * subscription, unless the session outlives the client: then messages stay unacknowledged until another loop, the next subscription to
 * the same filters, or the next client receives them. Loops over the same subscription share its messages; if each loop needs all
 * messages, subscribe twice.
 */
export class Subscription<T = unknown, Params = unknown> implements AsyncIterable<Message<T, Params>> {
  /** @internal Whether the server has granted all filters. */
  isGranted = false;
  private isWatched = false;
  /** The messages that wait for a loop or the handler. */
  private readonly queue = new Deque<Queued>();
  private queueBytes = 0;
  private readonly waiting = new Deque<Waiting>();
  /** The number of loops. */
  private loops = 0;
  /** @internal Whether all loops have been left and messages wait for a new one. */
  isLeft = false;
  private isFull = false;
  /** Whether the full queue has paused reading for as long as it may. */
  private isStuck = false;
  private cancelPause = NOTHING_TO_CANCEL;
  private droppedMessages = 0;
  /** The messages that the handler is processing. */
  private running = 0;
  private readonly concurrency: number;
  /** @internal Whether the subscription has ended. */
  isOver = false;
  private failure: MqttError | null = null;
  private readonly maxMessages: number;
  private readonly maxBytes: number;
  private readonly context: MessageContext;

  constructor(
    readonly filters: readonly string[],
    /** @internal The object identifies the subscription if several share a filter. */
    readonly options: SubscribeOptions<T>,
    private readonly handler: MessageHandler<T, Params> | undefined,
    topic: Topic | undefined,
    private readonly owner: SubscriptionOwner,
    private readonly onEnd: () => void,
    private readonly granted: Promise<QoS>,
  ) {
    this.maxMessages = options.maxQueueMessages ?? DEFAULT_QUEUE_MESSAGES;
    this.maxBytes = options.maxQueueBytes ?? DEFAULT_QUEUE_BYTES;
    this.concurrency = options.concurrency ?? 1;
    this.context = { codec: (options.codec ?? topic?.codec), topic, codecFor: owner.codecFor };
  }

  /**
   * Resolves with the granted QoS, the lowest if there are several filters. Rejects if the server refused. If neither this property
   * nor a loop is in use by then, the client emits a refusal as an `error` event.
   */
  get ready(): Promise<QoS> {
    this.isWatched = true;
    return this.granted;
  }

  /** @internal Whether {@link ready} or a loop reports a refusal to the application. */
  get isObserved(): boolean {
    return !this.isGranted && (this.isWatched || this.loops > 0);
  }

  /** The number of messages that wait for a loop or the handler. */
  get queued(): number {
    return this.queue.length;
  }

  /** The number of QoS 0 messages that were dropped because the queue was full. */
  get dropped(): number {
    return this.droppedMessages;
  }

  /** Ends the subscription, and its loops once they have received the queued messages. Resolves when the server has confirmed it. */
  unsubscribe(): Promise<void> {
    if (this.isLeft) this.dropQueue();
    const result = this.owner.remove(this as unknown as Subscription);
    this.finish(null);
    return result;
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Message<T, Params>> {
    this.loops++;
    this.isLeft = false;
    this.updateFull();
    return new Loop(this as unknown as Subscription) as AsyncIterableIterator<Message<T, Params>>;
  }

  /** @internal Resolves with the next message for a loop. */
  take(loop: Loop): Promise<IteratorResult<Message>> {
    const next = this.shift();
    if (next !== undefined) {
      loop.last = next;
      return Promise.resolve({ value: next.message, done: false });
    }
    if (this.failure !== null) return Promise.reject(this.failure);
    if (this.isOver) return Promise.resolve(END);
    return new Promise((resolve, reject) => {
      this.waiting.push({ loop, resolve, reject });
    });
  }

  /** @internal A loop has been left while it processed `last`. */
  leave(last: Queued | null): void {
    this.loops--;
    if (last !== null && (this.isManual || !this.owner.outlives || this.isOver)) this.settle(last.message);
    else if (last !== null) this.putBack(last);
    if (this.owner.outlives) {
      // The queued messages wait for the next loop.
      this.isLeft = this.loops === 0 && !this.isOver;
      this.updateFull();
    } else {
      this.drop();
    }
  }

  private putBack(last: Queued): void {
    // The loop may have failed on it.
    if (last.qos === 0 || last.message.isAcknowledged) return;
    this.queue.prepend([last]);
    this.queueBytes += last.bytes;
  }

  /** @internal Acknowledges a processed message, unless the application does that itself. */
  settle(message: Message): void {
    if (!this.isManual) message.acknowledge();
  }

  private shift(): Queued | undefined {
    const next = this.queue.shift();
    if (next === undefined) return undefined;
    this.queueBytes -= next.bytes;
    if (this.isFull) this.updateFull();
    return next;
  }

  /** @internal Ends the subscription and drops its queued messages. */
  drop(): void {
    this.dropQueue();
    this.unsubscribe().catch(() => undefined);
  }

  private dropQueue(): void {
    // Dropped messages must not block the acknowledgements of later ones.
    for (const { message } of this.queue.drain()) message.acknowledge();
    this.queueBytes = 0;
    this.updateFull();
  }

  /** @internal Takes over the queue of a subscription without a loop, and ends that subscription without an UNSUBSCRIBE. */
  takeOver(left: Subscription): void {
    for (const { message, qos, bytes } of left.queue.drain()) {
      this.queue.push({ message: message.within<T, Params>(this.context), qos, bytes });
      this.queueBytes += bytes;
    }
    this.runHandler();
    this.updateFull();
    left.finish(null);
  }

  /** @internal Whether the application acknowledges messages itself. */
  get isManual(): boolean {
    return this.options.ack === "manual";
  }

  /** @internal Delivers a message. `done`: acknowledges it, for QoS 1 and 2. */
  deliver(packet: Publish, done: Acknowledge | null): void {
    const message = new Message<T, Params>(packet, this.context, done);
    if (this.handler !== undefined) {
      if (this.queue.length > 0 || this.running >= this.concurrency) {
        this.enqueue(message, packet);
      } else {
        this.handle(this.handler, message);
        this.runHandler();
      }
      return;
    }
    const waiting = this.waiting.shift();
    if (waiting === undefined) {
      this.enqueue(message, packet);
      return;
    }
    waiting.loop.last = { message, qos: packet.qos, bytes: packet.payload.length };
    waiting.resolve({ value: message, done: false });
  }

  /** Passes queued messages to the handler. */
  private runHandler(): void {
    const { handler } = this;
    while (handler !== undefined && this.running < this.concurrency) {
      const next = this.shift();
      if (next === undefined) return;
      this.handle(handler, next.message as Message<T, Params>);
    }
  }

  private handle(handler: MessageHandler<T, Params>, message: Message<T, Params>): void {
    this.running++;
    try {
      const result = handler(message);
      if (isThenable(result)) {
        void this.handleLater(result, message);
        return;
      }
      this.settle(message);
    } catch (error) {
      this.onHandlerError(error, message);
    }
    this.running--;
  }

  private async handleLater(result: PromiseLike<unknown>, message: Message<T, Params>): Promise<void> {
    try {
      await result;
      this.settle(message);
    } catch (error) {
      this.onHandlerError(error, message);
    }
    this.running--;
    this.runHandler();
  }

  private onHandlerError(error: unknown, message: Message<T, Params>): void {
    // Without an acknowledgement, all later messages would be blocked, so refuse this one.
    if (!this.isManual) message.acknowledge(0x83);
    this.owner.onError(new MqttError("callback_failed", `the handler of ${this.filters.join(", ")}`, { cause: error }));
  }

  private enqueue(message: Message, packet: Publish): void {
    const { qos, payload } = packet;
    if (qos === 0 && this.hasNoRoom(payload.length)) {
      this.owner.counters.receivedDropped++;
      this.droppedMessages++;
      if (this.options.overflow !== "drop-oldest" || !this.dropOldest()) return;
    }
    this.queue.push({ message, qos, bytes: payload.length });
    this.queueBytes += payload.length;
    if (!this.isFull) this.updateFull();
  }

  private hasNoRoom(more: number): boolean {
    return this.queue.length >= this.maxMessages || (this.queueBytes + more > this.maxBytes && this.queue.length > 0);
  }

  /** Drops the oldest message if it has QoS 0. */
  private dropOldest(): boolean {
    const oldest = this.queue.peek();
    if (oldest?.qos !== 0) return false;
    this.queue.shift();
    this.queueBytes -= oldest.bytes;
    return true;
  }

  private updateFull(): void {
    const mayPause = (this.loops > 0 || this.handler !== undefined) && (this.options.overflow ?? "pause") === "pause";
    // Resume reading only when half of the queue is free.
    const share = this.isFull ? 0.5 : 1;
    const isFull =
      mayPause && (this.queue.length >= this.maxMessages * share || this.queueBytes >= this.maxBytes * share);
    if (isFull === this.isFull) return;
    this.isFull = isFull;
    this.cancelPause();
    this.cancelPause = NOTHING_TO_CANCEL;
    if (isFull) {
      this.cancelPause = this.owner.afterReadPause(() => {
        this.isStuck = true;
        this.owner.onFull(false);
        this.owner.onHeldUp(this as unknown as Subscription);
      });
    }
    const wasStuck = this.isStuck;
    this.isStuck = false;
    if (!wasStuck) this.owner.onFull(isFull);
  }

  /** @internal Ends the subscription. If there is an error, loops throw it. */
  finish(error: MqttError | null): void {
    if (this.isOver) return;
    this.isOver = true;
    this.failure = error;
    this.onEnd();
    for (const { resolve, reject } of this.waiting.drain()) {
      if (error === null) resolve(END);
      else reject(error);
    }
  }
}

function isThenable(result: unknown): result is PromiseLike<unknown> {
  return typeof (result as PromiseLike<unknown> | null | undefined)?.then === "function";
}

/** One loop over a subscription. */
class Loop implements AsyncIterableIterator<Message> {
  /** The message that the loop is processing. */
  last: Queued | null = null;
  private isLeft = false;

  constructor(private readonly subscription: Subscription) {}

  next(): Promise<IteratorResult<Message>> {
    // A request for the next message means that the last one is processed.
    if (this.last !== null) this.subscription.settle(this.last.message);
    this.last = null;
    return this.subscription.take(this);
  }

  return(): Promise<IteratorResult<Message>> {
    const { last } = this;
    this.last = null;
    if (!this.isLeft) this.subscription.leave(last);
    this.isLeft = true;
    return Promise.resolve(END);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
