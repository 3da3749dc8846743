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

/** All settings of a client. Each has a default that is safe to begin with. */
export interface ClientOptions {
  /**
   * 5 (default), 4 for MQTT 3.1.1, or `auto`: 5.0, and 3.1.1 if the server does not speak it. What 3.1.1 cannot say is left
   * out; what it would change the meaning of is refused.
   */
  protocolVersion?: 5 | 4 | "auto" | undefined;
  /** Names the session. Default: the server chooses with MQTT 5.0; a random one with 3.1.1. */
  clientId?: string | undefined;
  userName?: string | undefined;
  password?: Uint8Array | string | undefined;
  /** Gives user name and password anew for each attempt, for tokens that expire. If it fails, so does the attempt (`callback_failed`). */
  credentials?: (() => NameAndPassword | Promise<NameAndPassword>) | undefined;
  /**
   * Whether the first connection begins a new session. Default: true. With false, a session that an earlier run left at the
   * server goes on; subscribe before the connection is there (`createClient`), as its messages come at once. Before MQTT 5.0
   * only a client with false has a session that outlives a connection.
   */
  cleanStart?: boolean | undefined;
  /**
   * How long the server keeps the session without a connection, in seconds. Default: 300, and `close()` ends it at once.
   * If it is set here, the session outlives `close()` too. MQTT 5.0.
   */
  sessionExpiryS?: number | undefined;
  /** The longest silence towards the server in seconds; 0 for no limit. Default: 60. The server may ask for another one. */
  keepAliveS?: number | undefined;
  /** How long the server may take to answer a PINGREQ, in milliseconds. Default: 10,000. */
  pingTimeoutMs?: number | undefined;
  /** How long a connection attempt may take until CONNACK, in milliseconds. Default: 20,000. */
  connectTimeoutMs?: number | undefined;
  /** The message that the server publishes when the connection is lost. */
  will?: WillInit | undefined;
  /** How to connect again. False: the client closes when it loses its connection. */
  reconnect?: ReconnectOptions | false | undefined;
  /** Limits of messages that wait to be sent. */
  queue?: QueueOptions | undefined;
  /** Whether QoS 0 messages wait for a connection, as QoS 1 and 2 do. Default: true. */
  queueQoS0?: boolean | undefined;
  /**
   * How many QoS 1 and 2 messages may be on their way to the server: at most 32,768. Default: 1,024, and 20 with 3.1.1, whose
   * servers cannot say what they take. The server may allow fewer.
   */
  maxInflight?: number | undefined;
  /**
   * What happens to QoS 1 messages on their way when the server has lost the session: `republish` (default) sends them
   * again, so that they may arrive twice; `reject` rejects them with `session_lost`, as is always done with QoS 2.
   */
  onSessionLost?: "republish" | "reject" | undefined;
  /**
   * Keeps QoS 1 and 2 messages until they are acknowledged, so that they outlive the process: a `FileStore` or an `IndexedDbStore`. The
   * client resumes the session of the store, which outlives `close()`, and closes the store when it ends itself.
   */
  store?: Store | undefined;
  /** How many QoS 1 and 2 messages may be on their way from the server. Default: 1,024. MQTT 5.0. */
  receiveMaximum?: number | undefined;
  /** The largest packet that is accepted, in bytes. Default: no limit but that of the format, 256 MiB. */
  maximumPacketSize?: number | undefined;
  /** How many topic aliases the server may use. Default: 0. MQTT 5.0. */
  topicAliasMaximum?: number | undefined;
  /** How many topic aliases the client uses, if the server allows them. Default: 32; 0 for none. MQTT 5.0. */
  maxTopicAliases?: number | undefined;
  /** Bytes that a transport may hold before messages wait in the queue instead. Default: 1 MiB. */
  writeBufferBytes?: number | undefined;
  /** Whether subscriptions get identifiers, which tell overlapping ones apart. Default: true. MQTT 5.0. */
  subscriptionIdentifiers?: boolean | undefined;
  /** Sent with CONNECT. MQTT 5.0. */
  userProperties?: readonly UserProperty[] | undefined;
  /** Whether the server is asked for the topic under which `request` expects its responses. Default: false. MQTT 5.0. */
  requestResponseInformation?: boolean | undefined;
  /** Extended authentication. MQTT 5.0. */
  authentication?: Authentication | undefined;
  /** Codecs that are recognised by the content type of a message. */
  codecs?: readonly PayloadCodec<never>[] | undefined;
  /** Codecs by topic filter, for messages and subscriptions that have none of their own. */
  topicCodecs?: Readonly<Record<string, PayloadCodec<never>>> | undefined;
  /** TLS of `mqtts://` and `wss://`. Not in browsers. */
  tls?: TlsOptions | undefined;
  /** Headers of the request that opens a WebSocket, or a function that gives them anew for each attempt. Not in browsers. */
  headers?: Headers | (() => Headers | Promise<Headers>) | undefined;
  /** Makes the connections in place of the platform's own transports. */
  transport?: TransportFactory | undefined;
  /** Sees every packet in outline, and every change of state. Must not throw; if it does, that is ignored. */
  diagnostics?: ((event: DiagnosticEvent) => void) | undefined;
  /** Ends the client at once, connected or not. */
  signal?: AbortSignal | undefined;
  /** The clock and its timers. For tests. */
  clock?: Clock | undefined;
}

type Headers = Readonly<Record<string, string>>;

/** The names of all {@link ClientOptions}. */
const CLIENT_NAMES =
  "protocolVersion clientId userName password credentials cleanStart sessionExpiryS keepAliveS pingTimeoutMs connectTimeoutMs will reconnect queue queueQoS0 maxInflight onSessionLost store receiveMaximum maximumPacketSize topicAliasMaximum maxTopicAliases writeBufferBytes subscriptionIdentifiers userProperties requestResponseInformation authentication codecs topicCodecs tls headers transport diagnostics signal clock";
const RECONNECT_NAMES = "minDelayMs maxDelayMs maxAttempts shouldRetry";
const QUEUE_NAMES = "maxMessages maxBytes policy";
const WILL_NAMES = "topic payload qos retain properties";

type Words<Text extends string, Found extends string = never> = Text extends `${infer Word} ${infer Rest}`
  ? Words<Rest, Found | Word>
  : Found | Text;

/**
 * Refuses options that do not exist: they would be ignored, and the program would believe that they hold. The compiler compares the names
 * with the type.
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

/** By the text that lists them: messages that are published with options have theirs checked, too. */
const knownNames = /* @__PURE__ */ new Map<string, Set<string>>();

export interface NameAndPassword {
  userName?: string | undefined;
  password?: Uint8Array | string | undefined;
}

/** When and whether to connect again. */
export interface ReconnectOptions extends BackOffOptions {
  /** Decides in place of the client whether an error is worth another attempt. `isPermanent`: what the client thinks. */
  shouldRetry?: ((error: MqttError, isPermanent: boolean) => boolean) | undefined;
}

/** Time in milliseconds. A clock may jump. */
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

/** @throws {MqttError} `invalid_options`: there is no such option, or a number is not in its range. */
export function sessionSettings(options: ClientOptions): SessionSettings {
  checkNames(options, CLIENT_NAMES);
  // False has no properties either.
  checkNames(options.reconnect as ReconnectOptions | undefined, RECONNECT_NAMES);
  checkNames(options.queue, QUEUE_NAMES);
  checkNames(options.will, WILL_NAMES);
  const range = (name: keyof ClientOptions, fallback: number, least: number, most: number): number => {
    const value = (options[name] ?? fallback) as number;
    if (!Number.isInteger(value) || value < least || value > most) {
      throw new MqttError("invalid_options", `${name}: not an integer from ${least} to ${most}`);
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

/** Sixteen characters that nobody else has. Not a secret. */
export function randomName(): string {
  let name = "";
  while (name.length < 16) name += Math.random().toString(36).slice(2);
  return name.slice(0, 16);
}
