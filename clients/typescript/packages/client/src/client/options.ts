import type { UserProperty, WillInit } from "@tautwire/mqtt-codec";
import type { PayloadCodec } from "../codecs/codec.js";
import { MqttError, unknownName } from "../errors.js";
import type { BackOffOptions } from "../session/back-off.js";
import type { QueueOptions } from "../session/outgoing.js";
import type { SessionSettings } from "../session/session.js";
import type { Store } from "../store/store.js";
import type { TlsOptions, TransportFactory } from "../transport/transport.js";
import type { Authentication } from "./authentication.js";
import type { DiagnosticEvent } from "./events.js";

/** The options of a client. Each has a safe default. */
export interface ClientOptions {
  /**
   * 5 (default), 4 for MQTT 3.1.1, or `auto`: 5.0, and 3.1.1 if the server does not support it. With 3.1.1, properties are left
   * out; options that would then change their meaning are refused.
   */
  protocolVersion?: 5 | 4 | "auto" | undefined;
  /** The client identifier, which names the session. Default: the server assigns it with MQTT 5.0; a random one with 3.1.1. */
  clientId?: string | undefined;
  userName?: string | undefined;
  password?: Uint8Array | string | undefined;
  /** Returns user name and password for each attempt, for tokens that expire. If it throws, the attempt fails (`callback_failed`). */
  credentials?: (() => NameAndPassword | Promise<NameAndPassword>) | undefined;
  /**
   * Whether the first connection starts a new session. Default: true. With false, the client resumes the session of an earlier
   * run; subscribe before the client connects (`createClient`), because the server sends queued messages at once. Before MQTT 5.0,
   * the session survives a lost connection only with false.
   */
  cleanStart?: boolean | undefined;
  /**
   * How long the server keeps the session while the client is offline, in seconds. Default: 300, and `close()` ends it at once.
   * If it is set here, the session outlives `close()`, too. MQTT 5.0.
   */
  sessionExpiryS?: number | undefined;
  /** The keep alive: the longest time without a packet to the server, in seconds; 0 for none. Default: 60. The server may override it. */
  keepAliveS?: number | undefined;
  /** How long the server may take to answer a PINGREQ, in milliseconds. Default: 10,000. */
  pingTimeoutMs?: number | undefined;
  /** How long a connection attempt may take until CONNACK, in milliseconds. Default: 20,000. */
  connectTimeoutMs?: number | undefined;
  /** The message that the server publishes when the connection is lost. */
  will?: WillInit | undefined;
  /** How to reconnect. False: the client closes when it loses its connection. */
  reconnect?: ReconnectOptions | false | undefined;
  /** Limits for messages that wait to be sent. */
  queue?: QueueOptions | undefined;
  /** Whether QoS 0 messages wait for a connection, as QoS 1 and 2 do. Default: true. */
  queueQoS0?: boolean | undefined;
  /**
   * How many QoS 1 and 2 messages may be in flight to the server: at most 32,768. Default: 1,024, and 20 with 3.1.1, which has
   * no Receive Maximum. The server may allow fewer.
   */
  maxInflight?: number | undefined;
  /**
   * What happens to QoS 1 messages in flight when the server has lost the session: `republish` (default) sends them
   * again, so that they may arrive twice; `reject` rejects them with `session_lost`, as always for QoS 2.
   */
  onSessionLost?: "republish" | "reject" | undefined;
  /**
   * Persists QoS 1 and 2 messages until they are acknowledged: a `FileStore` or an `IndexedDbStore`. The client resumes the session
   * of the store, which outlives `close()`, and closes the store when the client ends.
   */
  store?: Store | undefined;
  /** How many QoS 1 and 2 messages may be in flight from the server. Default: 1,024. MQTT 5.0. */
  receiveMaximum?: number | undefined;
  /** The largest packet that is accepted, in bytes. Default: the limit of the protocol, 256 MiB. */
  maximumPacketSize?: number | undefined;
  /** How many topic aliases the server may use. Default: 0. MQTT 5.0. */
  topicAliasMaximum?: number | undefined;
  /** How many topic aliases the client uses, if the server allows them. Default: 32; 0 for none. MQTT 5.0. */
  maxTopicAliases?: number | undefined;
  /** How long the full queue of one subscription may pause reading for all of them, in milliseconds. Default: 1,000. */
  maxReadPauseMs?: number | undefined;
  /** How many bytes a transport may buffer before messages wait in the queue. Default: 1 MiB. */
  writeBufferBytes?: number | undefined;
  /** Whether subscriptions get identifiers, which distinguish overlapping subscriptions. Default: true. MQTT 5.0. */
  subscriptionIdentifiers?: boolean | undefined;
  /** The user properties of CONNECT. MQTT 5.0. */
  userProperties?: readonly UserProperty[] | undefined;
  /** Whether to request Response Information, the base of the response topics of `request`. Default: false. MQTT 5.0. */
  requestResponseInformation?: boolean | undefined;
  /** Extended authentication. MQTT 5.0. */
  authentication?: Authentication | undefined;
  /** Codecs that are selected by the content type of a message. */
  codecs?: readonly PayloadCodec<never>[] | undefined;
  /** Codecs by topic filter, for messages and subscriptions without a codec. */
  topicCodecs?: Readonly<Record<string, PayloadCodec<never>>> | undefined;
  /** TLS options of `mqtts://` and `wss://`. Not in browsers. */
  tls?: TlsOptions | undefined;
  /** HTTP headers of the WebSocket handshake, or a function that returns them for each attempt. Not in browsers. */
  headers?: Headers | (() => Headers | Promise<Headers>) | undefined;
  /** Replaces the platform's transports. */
  transport?: TransportFactory | undefined;
  /** Receives a summary of every packet, and every state change. Exceptions that it throws are ignored. */
  diagnostics?: ((event: DiagnosticEvent) => void) | undefined;
  /** Ends the client at once, connected or not. */
  signal?: AbortSignal | undefined;
  /** The clock and its timers, for tests. */
  clock?: Clock | undefined;
}

type Headers = Readonly<Record<string, string>>;

/** The names of all {@link ClientOptions}. */
const CLIENT_NAMES =
  "protocolVersion clientId userName password credentials cleanStart sessionExpiryS keepAliveS pingTimeoutMs connectTimeoutMs will reconnect queue queueQoS0 maxInflight onSessionLost store receiveMaximum maximumPacketSize topicAliasMaximum maxTopicAliases maxReadPauseMs writeBufferBytes subscriptionIdentifiers userProperties requestResponseInformation authentication codecs topicCodecs tls headers transport diagnostics signal clock";
const RECONNECT_NAMES = "minDelayMs maxDelayMs maxAttempts shouldRetry";
const QUEUE_NAMES = "maxMessages maxBytes policy";
const WILL_NAMES = "topic payload qos retain properties";

type Words<Text extends string, Found extends string = never> = Text extends `${infer Word} ${infer Rest}`
  ? Words<Rest, Found | Word>
  : Found | Text;

/**
 * Refuses unknown options, which would otherwise be ignored silently. The compiler compares the names with the type.
 *
 * @throws {MqttError} `invalid_options`
 */
export function checkNames<T extends object, Names extends string>(
  given: T | undefined,
  names: Names & (Words<Names> extends keyof T ? (keyof T extends Words<Names> ? Names : never) : never),
): void {
  let known = knownNames.get(names);
  if (known === undefined) knownNames.set(names, (known = new Set(names.split(" "))));
  for (const name in given) {
    if (!known.has(name) && given[name] !== undefined) throw new MqttError("invalid_options", unknownName(name, [...known]));
  }
}

/** Caches the set of names by the string that lists them, because every publish with options checks its names. */
const knownNames = /* @__PURE__ */ new Map<string, Set<string>>();

export interface NameAndPassword {
  userName?: string | undefined;
  password?: Uint8Array | string | undefined;
}

/** When and whether to reconnect. */
export interface ReconnectOptions extends BackOffOptions {
  /** Decides instead of the client whether to try again. `isPermanent`: whether the client considers the error permanent. */
  shouldRetry?: ((error: MqttError, isPermanent: boolean) => boolean) | undefined;
}

/** A clock in milliseconds. It may jump. */
export interface Clock {
  now(): number;
  setTimeout(callback: () => void, delayMs: number): unknown;
  clearTimeout(timer: unknown): void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimeout: (timer) => {
    clearTimeout(timer as undefined);
  },
};

const DEFAULT_SESSION_EXPIRY_S = 300;
const MAX_INFLIGHT = 32_768;

/** @throws {MqttError} `invalid_options`: an option is unknown, or a number is out of range. */
export function sessionSettings(options: ClientOptions): SessionSettings {
  checkNames(options, CLIENT_NAMES);
  // `false` has no properties, so it passes.
  checkNames(options.reconnect as ReconnectOptions | undefined, RECONNECT_NAMES);
  checkNames(options.queue, QUEUE_NAMES);
  checkNames(options.will, WILL_NAMES);
  const range = (name: keyof ClientOptions, fallback: number, least: number, most: number): number => {
    const value = (options[name] ?? fallback) as number;
    if (!Number.isInteger(value) || value < least || value > most) {
      throw new MqttError("invalid_options", `${name}: must be an integer from ${least} to ${most}`);
    }
    return value;
  };
  const isOld = options.protocolVersion === 4;
  return {
    clientId: options.clientId ?? (isOld ? `tautwire-${randomName()}` : ""),
    cleanStart: options.cleanStart ?? true,
    keepAliveS: range("keepAliveS", 60, 0, 65_535),
    sessionExpiryS: range("sessionExpiryS", DEFAULT_SESSION_EXPIRY_S, 0, 0xffff_ffff),
    will: options.will ?? null,
    receiveMaximum: range("receiveMaximum", 1_024, 1, 65_535),
    maximumPacketSize: range("maximumPacketSize", 0, 0, 0xffff_ffff),
    topicAliasMaximum: range("topicAliasMaximum", 0, 0, 65_535),
    maxTopicAliases: range("maxTopicAliases", 32, 0, 1_024),
    maxInflight: options.maxInflight === undefined ? undefined : range("maxInflight", 0, 1, MAX_INFLIGHT),
    pingTimeoutMs: range("pingTimeoutMs", 10_000, 1, 2 ** 31 - 1),
    queue: options.queue ?? {},
    republishes: options.onSessionLost !== "reject",
    properties: {
      userProperties: options.userProperties,
      requestResponseInformation: options.requestResponseInformation,
    },
  };
}

/** Returns 16 random characters, which identify the client. They are not secret. */
export function randomName(): string {
  let name = "";
  while (name.length < 16) name += Math.random().toString(36).slice(2);
  return name.slice(0, 16);
}
