// Keeps a session connected: opens transports, passes bytes and the time to the session, and reconnects. All of it uses one timer.

import type { Auth, Connack } from "@tautwire/mqtt-codec";
import { asMqttError, closedBy, messageOf, MqttError } from "../errors.js";
import { BackOff } from "../session/back-off.js";
import { newCounters } from "../session/counters.js";
import { FLUSH_BYTES } from "../session/link.js";
import { SUCCESS, type PublishResult } from "../session/outgoing.js";
import { Session, unexpected, type Credentials, type Receiver, type SessionOwner } from "../session/session.js";
import { outline } from "../session/trace.js";
import type { Transport } from "../transport/transport.js";
import type { ClientState, DiagnosticEvent } from "./events.js";
import { isPermanent } from "./permanent-errors.js";
import { sessionSettings, systemClock, type ClientOptions, type Clock, type ReconnectOptions } from "./options.js";
import type { Platform } from "./platform.js";
import { Servers, type ServerAddress } from "./servers.js";

const DEFAULT_WRITE_BUFFER_BYTES = 1024 * 1024;
const DEFAULT_CONNECT_TIMEOUT_MS = 20_000;
/** How long the transport may take to close after DISCONNECT. */
const LINGER_MS = 1_000;
/** The longest delay of a timer. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export interface ConnectionOwner extends Receiver {
  onConnected(packet: Connack): void;
  onDisconnected(error: MqttError): void;
  onRetry(attempt: number, delayMs: number, error: MqttError): void;
  /** The client has ended. `error`: the reason, or null after `close()`. */
  onClosed(error: MqttError | null): void;
}

/** One resolved promise for all messages that are already written. */
const WRITTEN: Promise<PublishResult> = /* @__PURE__ */ Promise.resolve(SUCCESS);

/** The options of one attempt, which functions may supply. */
interface AttemptOptions {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly credentials: Credentials;
}

/** A timer or socket that keeps Node.js running, unless `unref` was called. */
interface RefTarget {
  ref?(): unknown;
  unref?(): unknown;
}

interface Attempt {
  transport: Transport | null;
  /** Whether the transport is open. */
  isOpen: boolean;
  /** The timer that destroys a transport that takes too long to close. */
  linger: unknown;
  /** Called when the transport has closed. */
  ended: (() => void) | null;
}

interface Closing {
  /** When pending messages are rejected. */
  readonly deadline: number;
  readonly isDraining: boolean;
  readonly resolve: () => void;
  readonly reason: number;
}

export class Connection implements SessionOwner {
  readonly counters = newCounters();
  readonly session: Session;
  state: ClientState = "waiting";
  /** The protocol version of the current or the next connection. */
  version: 4 | 5;
  connack: Connack | null = null;
  private readonly servers: Servers;
  /** The address of the current attempt, for error messages. */
  private host = "";
  private readonly clock: Clock;
  private readonly backOff: BackOff;
  private readonly writeBufferBytes: number;
  private readonly connectTimeoutMs: number;
  /** The current attempt or connection. Callbacks of earlier ones are ignored. */
  attempt: Attempt | null = null;
  private isReading = true;
  private since = 0;
  private timer: unknown;
  private timerAt = Infinity;
  /** When the attempt times out, or the next one is due. */
  private deadline = Infinity;
  private isScheduled = false;
  private isReceiving = false;
  private turnIsFull = false;
  private turnEnd: { promise: Promise<PublishResult>; resolve: (answer: PublishResult) => void } | null = null;
  private closing: Closing | null = null;
  private authenticating: { resolve: () => void; reject: (error: MqttError) => void } | null = null;
  private readonly stopWaking: () => void;
  private isEnded = false;
  private isRef = true;

  constructor(
    address: ServerAddress | readonly ServerAddress[],
    private readonly options: ClientOptions,
    private readonly platform: Platform,
    /** Whether the client ends if the first attempt at each server fails. */
    private readonly failsFast: boolean,
    private readonly owner: ConnectionOwner,
  ) {
    const settings = sessionSettings(options);
    this.servers = new Servers(address, options, platform);
    this.clock = options.clock ?? systemClock;
    this.version = options.protocolVersion === 4 ? 4 : 5;
    this.backOff = new BackOff((options.reconnect ?? {}) as ReconnectOptions);
    this.writeBufferBytes = options.writeBufferBytes ?? DEFAULT_WRITE_BUFFER_BYTES;
    this.connectTimeoutMs = options.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS;
    this.session = new Session(settings, this, owner, this.counters);
    if (options.diagnostics !== undefined) {
      this.session.link.trace = (direction, packet, bytes) => {
        this.report({ type: "packet", direction, packet: outline(packet), bytes });
      };
    }
    this.stopWaking = platform.onWake(() => {
      this.wake();
    });
  }

  report(event: DiagnosticEvent): void {
    try {
      this.options.diagnostics?.(event);
    } catch {
      // An exception in diagnostics must not break the client.
    }
  }

  private enter(state: ClientState): void {
    const from = this.state;
    this.state = state;
    if (from !== state) this.report({ type: "state", from, to: state });
  }

  // Opening.

  start(): void {
    const attempt: Attempt = { transport: null, isOpen: false, linger: undefined, ended: null };
    this.attempt = attempt;
    this.host = "";
    this.enter("connecting");
    this.deadline = this.clock.now() + this.connectTimeoutMs;
    this.arm();
    this.prepare().then(
      (options) => {
        if (attempt === this.attempt) this.openTransport(attempt, options);
      },
      (error: unknown) => {
        if (attempt === this.attempt) this.onLost(asMqttError(error, "callback_failed"));
      },
    );
  }

  private async prepare(): Promise<AttemptOptions> {
    const { options, version } = this;
    const { headers, authentication } = options;
    const given = options.credentials === undefined ? options : await options.credentials();
    const credentials: Credentials = { userName: given.userName, password: given.password };
    const url = await this.servers.url();
    if (authentication !== undefined && version === 5) {
      credentials.authenticationMethod = authentication.method;
      try {
        credentials.authenticationData = await authentication.start?.();
      } catch (error) {
        throw authenticationError(error);
      }
    }
    return { url, headers: typeof headers === "function" ? await headers() : headers, credentials };
  }

  private openTransport(attempt: Attempt, { url, headers, credentials }: AttemptOptions): void {
    this.host = url.host;
    this.report({ type: "attempt", url: url.host, protocolVersion: this.version });
    const isCurrent = () => attempt === this.attempt;
    const factory = this.options.transport ?? this.platform.transports[url.protocol]!;
    const events = {
      onOpen: () => {
        if (isCurrent()) this.onOpen(attempt, credentials);
      },
      onData: (chunk: Uint8Array) => {
        if (isCurrent()) this.onData(chunk);
      },
      onDrain: () => {
        if (isCurrent()) this.onDrain();
      },
      onClose: (error?: unknown) => {
        this.clock.clearTimeout(attempt.linger);
        attempt.ended?.();
        if (isCurrent()) this.onTransportClosed(error);
      },
    };
    try {
      attempt.transport = factory(url, events, { tls: this.options.tls, headers });
      if (!isCurrent()) attempt.transport.destroy();
      else this.applyRef(attempt.transport);
    } catch (error) {
      if (isCurrent()) this.onTransportClosed(error);
    }
  }

  private onOpen(attempt: Attempt, credentials: Credentials): void {
    attempt.isOpen = true;
    this.isReading = true;
    this.session.link.outbox.handOver(true);
    try {
      this.session.open(this.version, credentials, this.clock.now());
    } catch (error) {
      // Only invalid options can make CONNECT impossible to encode.
      this.onLost(new MqttError("invalid_options", messageOf(error), { cause: error }));
    }
  }

  onConnected(packet: Connack): void {
    this.connack = packet;
    this.servers.accepted();
    this.since = this.clock.now();
    this.deadline = Infinity;
    if (this.state === "closing") return;
    this.enter("connected");
    this.arm();
    this.owner.onConnected(packet);
  }

  onFailed(error: MqttError): void {
    this.flush();
    this.onLost(error, true);
  }

  // Extended authentication.

  onAuth(packet: Auth | Connack): void {
    const { reason } = packet;
    if (packet.type === "connack") {
      void this.stepAuth(0, packet);
    } else {
      const isConnecting = this.state === "connecting" && reason === 0x18;
      if (!isConnecting && (this.authenticating === null || reason === 0x19)) unexpected(packet);
      void this.stepAuth(reason, packet);
    }
  }

  /** Performs the step for a reason code of AUTH. `packet`: the packet of the server, unless the client starts the exchange. */
  private async stepAuth(reason: number, packet?: Auth | Connack): Promise<void> {
    const { attempt, session } = this;
    const authentication = this.options.authentication!;
    const data = packet?.properties.authenticationData;
    try {
      const answer = await (reason === 0x18
        ? authentication.step(data)
        : reason === 0
          ? authentication.finish?.(data)
          : authentication.start?.());
      if (attempt !== this.attempt) return;
      if (packet?.type === "connack") {
        session.admit(packet);
        this.resume();
      } else if (reason === 0) {
        this.authenticating?.resolve();
        this.authenticating = null;
      } else {
        session.authenticate(reason, answer as Uint8Array | undefined);
      }
    } catch (error) {
      if (attempt === this.attempt) this.failAuth(authenticationError(error));
    }
  }

  /** Re-authenticates on the current connection. */
  async authenticate(): Promise<void> {
    if (this.options.authentication === undefined || this.version !== 5 || this.authenticating !== null) {
      throw new MqttError("not_supported", "authentication is not configured, or in progress");
    }
    if (this.state !== "connected") throw new MqttError("not_connected");
    return new Promise((resolve, reject) => {
      this.authenticating = { resolve, reject };
      // [MQTT-4.12.1-1]
      void this.stepAuth(0x19);
    });
  }

  // Bytes.

  private onData(chunk: Uint8Array): void {
    const now = this.clock.now();
    this.isReceiving = true;
    this.session.receive(chunk, now);
    this.afterReading(now);
  }

  private afterReading(now: number): void {
    this.isReceiving = false;
    // Check the keep alive here, because browsers delay the timers of hidden pages.
    if (now >= this.session.keepAlive.deadline()) this.session.tick(now);
    this.flush();
    this.updateReading();
    this.settleClosing();
    // The received packets may have moved the deadline forward: a PINGRESP ends a longer wait.
    if (!this.isEnded) this.arm();
  }

  /** Pauses reading while the application cannot take more messages. */
  pause(isPaused: boolean): void {
    this.session.isPaused = isPaused;
    if (isPaused) this.counters.pauses++;
    this.report({ type: isPaused ? "paused" : "resumed" });
    // While it processes a chunk, the session checks this itself.
    if (!this.isReceiving) this.resume();
  }

  /** Resumes reading, starting with buffered packets, if the session allows it. */
  resume(): void {
    const { session } = this;
    if (this.isReading || !session.isReading || this.isReceiving || this.attempt === null) {
      if (!this.isReceiving) this.updateReading();
      return;
    }
    this.isReceiving = true;
    session.read();
    this.afterReading(this.clock.now());
  }

  private updateReading(): void {
    const { isReading } = this.session;
    if (isReading === this.isReading) return;
    this.isReading = isReading;
    this.attempt?.transport?.[isReading ? "resume" : "pause"]?.();
  }

  onOutput(): void {
    if (this.session.link.outbox.length >= FLUSH_BYTES) {
      this.flush();
      this.turnIsFull = true;
      this.schedule();
    } else if (!this.isReceiving) {
      this.schedule();
    }
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    this.platform.defer(this.onTurn);
  }

  private readonly onTurn = (): void => {
    this.isScheduled = false;
    this.turnIsFull = false;
    this.flush();
    const { turnEnd } = this;
    this.turnEnd = null;
    turnEnd?.resolve(SUCCESS);
    this.settleClosing();
  };

  /**
   * The promise of a written QoS 0 message. It is resolved already, unless this turn has written much: then it resolves at the end of the
   * turn, so that a loop that awaits each message does not keep the program from reading.
   */
  written(): Promise<PublishResult> {
    if (!this.turnIsFull) return WRITTEN;
    if (this.turnEnd === null) {
      let resolve: (answer: PublishResult) => void = () => undefined;
      const promise = new Promise<PublishResult>((settle) => {
        resolve = settle;
      });
      this.turnEnd = { promise, resolve };
    }
    return this.turnEnd.promise;
  }

  flush(): void {
    const { outbox, recorder } = this.session.link;
    if (outbox.length === 0 || !this.attempt?.isOpen || recorder?.holds()) return;
    outbox.handOver(this.write(outbox.peek()));
  }

  /** Writes to the transport. Returns whether the memory of the bytes can be reused. There must be a connection. */
  write(bytes: Uint8Array): boolean {
    const { session } = this;
    const transport = this.attempt!.transport!;
    this.counters.bytesSent += bytes.length;
    const now = this.clock.now();
    session.link.now = now;
    session.keepAlive.sent(now);
    const isFree = transport.send(bytes);
    if (transport.bufferedBytes > this.writeBufferBytes) session.link.isCongested = true;
    return isFree;
  }

  /** The transport or the store can take more. */
  onDrain(): void {
    this.session.link.isCongested = false;
    this.session.link.now = this.clock.now();
    this.session.outgoing.pump();
    this.flush();
    this.settleClosing();
  }

  // Time.

  private arm(): void {
    const at = Math.min(this.deadline, this.session.keepAlive.deadline(), this.closing?.deadline ?? Infinity);
    // A timer that fires too early is harmless: it arms itself again.
    if (at >= this.timerAt) return;
    this.clock.clearTimeout(this.timer);
    this.timerAt = at;
    const delay = Math.min(Math.max(0, at - this.clock.now()), TIMER_MAX_MS);
    this.timer = this.clock.setTimeout(this.onTimer, delay);
    this.applyRef(this.timer);
  }

  /** Sets whether the connection keeps Node.js running. */
  setRef(isRef: boolean): void {
    this.isRef = isRef;
    this.applyRef(this.timer);
    this.applyRef(this.attempt?.transport);
  }

  private applyRef(target: unknown): void {
    (target as RefTarget | null | undefined)?.[this.isRef ? "ref" : "unref"]?.();
  }

  private readonly onTimer = (): void => {
    this.timer = undefined;
    this.timerAt = Infinity;
    this.tick(this.clock.now());
  };

  private tick(now: number): void {
    if (this.isEnded) return;
    if (this.closing !== null && now >= this.closing.deadline) {
      this.finishClosing();
    } else if (now >= this.deadline) {
      if (this.state === "waiting") {
        this.start();
        return;
      }
      this.onLost(new MqttError("connect_timeout", `${this.host} ${this.connectTimeoutMs} ms`.trim()));
    } else {
      this.session.tick(now);
      this.flush();
    }
    this.arm();
  }

  /** The page is visible or the network is available again: check the deadlines, and retry now. */
  private wake(): void {
    this.report({ type: "wake" });
    if (this.state === "waiting") this.deadline = 0;
    this.tick(this.clock.now());
  }

  // The end of a connection.

  private onTransportClosed(error: unknown): void {
    const isUp = this.state === "connected" || this.state === "closing";
    const wasReached = this.attempt?.isOpen === true || error === undefined;
    const code = isUp ? "connection_lost" : wasReached ? "handshake_failed" : "unreachable";
    const detail = error === undefined ? this.host : `${this.host}, ${messageOf(error)}`;
    this.onLost(asMqttError(error, code, detail));
  }

  /** `hasSentLast`: whether a last packet to the server is still being sent. */
  private onLost(error: MqttError, hasSentLast = false): void {
    if (this.isEnded) return;
    const now = this.clock.now();
    const wasConnected = this.state === "connected";
    const wasOpen = this.attempt?.isOpen === true;
    this.session.lost();
    this.release(hasSentLast);
    this.authenticating?.reject(error);
    this.authenticating = null;
    this.report({ type: "disconnected", error });
    if (this.closing !== null) {
      this.end(null);
      return;
    }
    if (wasConnected) {
      this.backOff.ended(now - this.since);
      this.owner.onDisconnected(error);
      // A listener may have closed the client.
      if (this.isOver()) return;
    } else {
      this.counters.failedAttempts++;
      if (this.fallsBack(error, wasOpen)) {
        this.start();
        return;
      }
    }
    this.retry(error, now, !wasConnected && this.servers.next());
  }

  /** Whether the next attempt is made at once with the other version. */
  private fallsBack(error: MqttError, wasOpen: boolean): boolean {
    if (this.options.protocolVersion !== "auto" || this.counters.connections > 0) return false;
    const isRefused = error.code === "unsupported_protocol_version";
    // Some servers close the connection without a CONNACK if they do not support the version.
    const isSilent = wasOpen && error.code === "handshake_failed";
    if (!isRefused && !isSilent) return false;
    this.version = this.version === 5 ? 4 : 5;
    return this.version === 4;
  }

  /** `hasOther`: whether the round has another server, which is tried at once. */
  private retry(error: MqttError, now: number, hasOther: boolean): void {
    const { reconnect } = this.options;
    const permanent = isPermanent(error);
    const isFirst = this.counters.connections === 0;
    const mayContinue = (hasOther && isFirst) || (reconnect !== false && !(this.failsFast && isFirst));
    const mayRetry = mayContinue && ((reconnect as ReconnectOptions | undefined)?.shouldRetry?.(error, permanent) ?? !permanent);
    if (!mayRetry || (!hasOther && this.backOff.attempts >= this.backOff.maxAttempts)) {
      this.end(error);
      return;
    }
    const delayMs = hasOther ? 0 : Math.round(this.backOff.next());
    this.enter("waiting");
    this.deadline = now + delayMs;
    const attempt = this.backOff.attempts;
    this.report({ type: "retry", attempt, delayMs, error });
    this.arm();
    this.owner.onRetry(attempt, delayMs, error);
  }

  private failAuth(error: MqttError): void {
    this.session.disconnect(0x87);
    this.flush();
    this.onLost(error, true);
  }

  /** Drops the current attempt. `flush`: pending bytes are sent first. Calls back when the transport has closed. */
  private release(flush: boolean, ended?: () => void): void {
    const { attempt } = this;
    this.attempt = null;
    this.session.link.outbox.handOver(true);
    const transport = attempt?.transport;
    if (!flush || !attempt?.isOpen || !transport) {
      transport?.destroy();
      ended?.();
      return;
    }
    const destroy = () => {
      transport.destroy();
      ended?.();
    };
    attempt.ended = ended ?? null;
    attempt.linger = this.clock.setTimeout(destroy, LINGER_MS);
    // A server that is blocked on writing would not see the end.
    transport.resume?.();
    transport.end();
  }

  // The end of the client.

  close(drainMs: number, reason: number): Promise<void> {
    return new Promise((resolve) => {
      const previous = this.closing;
      const finish = () => {
        previous?.resolve();
        resolve();
      };
      if (this.state === "closed") {
        finish();
        return;
      }
      const isConnected = this.state === "connected" || this.state === "closing";
      const deadline = this.clock.now() + drainMs;
      this.session.outgoing.isClosing = true;
      this.closing = { deadline, isDraining: drainMs > 0, resolve: finish, reason };
      if (!isConnected) {
        this.end(null);
        return;
      }
      this.enter("closing");
      this.flush();
      this.settleClosing();
      if (!this.isEnded) this.arm();
    });
  }

  /** Ends the client if it is closing and nothing is pending. */
  private settleClosing(): void {
    if (this.closing === null || this.isEnded) return;
    const { outgoing, link } = this.session;
    if (this.closing.isDraining && (outgoing.open + outgoing.queued > 0 || link.recorder?.isBusy)) return;
    this.finishClosing();
  }

  private finishClosing(): void {
    const { session, options } = this;
    const keepsSession = (options.sessionExpiryS ?? options.store) !== undefined;
    try {
      session.link.recorder?.release();
      session.disconnect(this.closing?.reason ?? 0, keepsSession ? undefined : { sessionExpiryInterval: 0 });
      this.flush();
    } finally {
      this.end(null);
    }
  }

  /** Ends the client and settles everything that is pending. The transport has {@link LINGER_MS} to flush. */
  end(error: MqttError | null): void {
    if (this.isEnded) return;
    this.isEnded = true;
    this.stopWaking();
    this.clock.clearTimeout(this.timer);
    this.deadline = Infinity;
    this.turnIsFull = false;
    this.turnEnd?.resolve(SUCCESS);
    const failure = closedBy(error);
    this.authenticating?.reject(failure);
    // The store keeps its messages.
    void this.options.store?.end(this);
    this.session.end(failure);
    this.enter("closed");
    this.release(error === null, this.closing?.resolve);
    this.owner.onClosed(error);
  }

  /** Whether the client is closing or closed. */
  isOver(): boolean {
    return this.isEnded || this.closing !== null;
  }

  /** Drops the connection without a DISCONNECT, like a network failure. For tests. */
  cut(): void {
    if (this.attempt?.isOpen === true) this.onLost(new MqttError("connection_lost", "cut"));
  }
}

function authenticationError(error: unknown): MqttError {
  return asMqttError(error, "authentication_failed");
}
