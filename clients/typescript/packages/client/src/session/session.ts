// The MQTT protocol of a client without I/O. Received bytes and the time are arguments, bytes to send are in the outbox, and
// callbacks notify the owner of events. A session spans any number of connections.

import type {
  Auth,
  Connack,
  ConnectProperties,
  Disconnect,
  DisconnectProperties,
  Packet,
  Publish,
  PublishProperties,
  WillInit,
} from "@tautwire/mqtt-codec";
import { ClientDecoder, MqttDecodeError } from "@tautwire/mqtt-codec/client";
import { asMqttError, MqttError } from "../errors.js";
import { TopicAliases } from "./aliases.js";
import type { Counters } from "./counters.js";
import { Filters } from "./filters.js";
import { IncomingMessages, type Receipt } from "./incoming.js";
import { KeepAlive } from "./keep-alive.js";
import { Link } from "./link.js";
import { OutgoingMessages, type QueueOptions } from "./outgoing.js";
import { PacketIds } from "./packet-ids.js";

/** The settings of a session. */
export interface SessionSettings {
  clientId: string;
  /** Whether the first connection starts a new session. */
  cleanStart: boolean;
  keepAliveS: number;
  sessionExpiryS: number;
  will: WillInit | null;
  receiveMaximum: number;
  /** The maximum size of received packets in bytes; 0 for the limit of the protocol. */
  maximumPacketSize: number;
  /** The highest topic alias that the server may use. */
  topicAliasMaximum: number;
  /** The maximum number of topic aliases that the client uses. */
  maxTopicAliases: number;
  maxInflight: number | undefined;
  pingTimeoutMs: number;
  queue: QueueOptions;
  republishes: boolean;
  /** Further properties of CONNECT. */
  properties: ConnectProperties;
}

/** The credentials of one connection. */
export interface Credentials {
  userName?: string | undefined;
  password?: Uint8Array | string | undefined;
  authenticationMethod?: string | undefined;
  authenticationData?: Uint8Array | undefined;
}

/** Receives the events of a session. The callbacks must not throw. */
export interface SessionOwner {
  /** There are bytes in the outbox, and there were none before. */
  onOutput(): void;
  onConnected(packet: Connack): void;
  /** The server continues or ends the authentication. After a CONNACK that proves the server, the owner calls {@link Session.admit}. */
  onAuth(packet: Auth | Connack): void;
  /** The connection must end once the outbox is sent. */
  onFailed(error: MqttError): void;
}

/** Receives messages and refusals for subscriptions. The callbacks must not throw. */
export interface Receiver {
  onMessage(packet: Publish, receipt: Receipt | null): void;
  onRefused(filter: string, error: MqttError): void;
}

/** With more unread bytes than this, the session reads although it is paused: 16 MiB. */
const UNREAD_MAX_BYTES = 16 * 1024 * 1024;

/** The first bytes of the alert with which a TLS port answers anything else. */
const TLS_ALERT = 0x15;
const TLS_VERSION = 0x03;

/** The size of a 3.1.1 CONNACK. */
const CONNACK_V3_BYTES = 4;

type State = "idle" | "connecting" | "connected" | "ended";

export class Session {
  readonly link: Link;
  /** @internal */
  readonly ids = new PacketIds();
  readonly outgoing: OutgoingMessages;
  readonly incoming: IncomingMessages;
  readonly filters: Filters;
  readonly keepAlive: KeepAlive;
  /** The client identifier, possibly assigned by the server. */
  clientId: string;
  /** Whether the application cannot take more messages for now. */
  isPaused = false;
  /** Whether the client is still checking the server's authentication data. Packets after the CONNACK wait. */
  private isHeld = false;
  /** The authentication method of this connection. */
  private method: string | undefined;
  private state: State = "idle";
  private hasConnected = false;
  private decoder = new ClientDecoder();
  /** The first bytes that were received on this connection. */
  private head: number[] = [];
  private readonly aliases: (string | undefined)[] = [];
  private cleanStart = true;

  constructor(
    /** @internal */
    readonly settings: SessionSettings,
    private readonly owner: SessionOwner,
    private readonly receiver: Receiver,
    private readonly counters: Counters,
  ) {
    this.clientId = settings.clientId;
    this.link = new Link(owner, counters);
    const { ids } = this;
    this.outgoing = new OutgoingMessages(
      this.link,
      ids,
      counters,
      settings.queue,
      settings.maxInflight,
      settings.republishes,
    );
    this.incoming = new IncomingMessages(this.link, settings.receiveMaximum);
    this.filters = new Filters(this.link, ids, receiver);
    this.keepAlive = new KeepAlive(settings.pingTimeoutMs);
  }

  /** Whether an operation waits for a packet of the server. Reading must continue then, or the operation would never end. */
  get awaitsResponse(): boolean {
    return this.outgoing.open > 0 || this.filters.open > 0 || this.state === "connecting";
  }

  /** Whether the session reads packets. */
  get isReading(): boolean {
    return !this.isHeld && (!this.isPaused || this.awaitsResponse || this.decoder.bufferedBytes > UNREAD_MAX_BYTES);
  }

  /** Starts a connection on an open transport: writes CONNECT. */
  open(version: 4 | 5, credentials: Credentials, now: number): void {
    const { settings, link } = this;
    link.now = now;
    link.epoch++;
    link.accept({});
    link.outbox.version = version;
    this.decoder = new ClientDecoder({
      protocolVersion: version,
      maxPacketSize: settings.maximumPacketSize || undefined,
    });
    this.head = [];
    this.aliases.length = 0;
    this.state = "connecting";
    this.isHeld = false;
    const isV5 = version === 5;
    this.cleanStart = this.hasConnected && isV5 ? settings.sessionExpiryS === 0 : settings.cleanStart;
    const { authenticationMethod, authenticationData } = credentials;
    this.method = authenticationMethod;
    link.send({
      type: "connect",
      protocolVersion: version,
      cleanStart: this.cleanStart,
      keepAliveS: settings.keepAliveS,
      clientId: this.clientId,
      userName: credentials.userName,
      password: credentials.password,
      will: isV5 || settings.will === null ? settings.will : { ...settings.will, properties: undefined },
      properties: isV5
        ? {
            sessionExpiryInterval: settings.sessionExpiryS || undefined,
            receiveMaximum: settings.receiveMaximum,
            maximumPacketSize: settings.maximumPacketSize || undefined,
            topicAliasMaximum: settings.topicAliasMaximum || undefined,
            authenticationMethod,
            authenticationData,
            ...settings.properties,
          }
        : undefined,
    });
  }

  /** Processes bytes from the server. */
  receive(chunk: Uint8Array, now: number): void {
    this.link.now = now;
    this.keepAlive.received(now);
    this.counters.bytesReceived += chunk.length;
    if (this.state === "connecting") this.head.push(...chunk.subarray(0, CONNACK_V3_BYTES - this.head.length));
    this.decoder.push(chunk);
    this.read();
  }

  /** Handles received packets until there are no more, or the owner pauses. */
  read(): void {
    const { decoder } = this;
    try {
      while (this.isReading) {
        const packet = decoder.read();
        if (packet === null) return;
        this.counters.packetsReceived++;
        this.handle(packet);
        if (this.state === "ended" || this.state === "idle") return;
      }
    } catch (error) {
      this.onReadError(error);
    }
  }

  private onReadError(error: unknown): void {
    const isDecodeError = error instanceof MqttDecodeError;
    // If the CONNACK cannot be decoded, the server uses another version of MQTT, or another protocol.
    const isNoConnack = isDecodeError && this.state === "connecting";
    const old = isNoConnack ? asV3Connack(this.head) : null;
    const code = isNoConnack ? "handshake_failed" : "protocol_error";
    if (old !== null) this.fail(refusal(old.reason, old.properties));
    else if (isNoConnack && this.head[0] === TLS_ALERT && this.head[1] === TLS_VERSION) this.fail(new MqttError("tls_needed", "", { cause: error }));
    else this.protocolError(asMqttError(error, code), isDecodeError ? error.reason : 0x82);
  }

  private handle(packet: Packet): void {
    this.link.trace?.("received", packet, 0);
    if (packet.type === "publish") {
      this.onPublish(packet);
      return;
    }
    if (this.state === "connecting" && packet.type !== "connack" && packet.type !== "auth") unexpected(packet);
    switch (packet.type) {
      case "puback":
        this.outgoing.onPuback(packet);
        break;
      case "pubrec":
        this.outgoing.onPubrec(packet);
        break;
      case "pubrel":
        this.incoming.onPubrel(packet);
        break;
      case "pubcomp":
        this.outgoing.onPubcomp(packet);
        break;
      case "suback":
        this.filters.onSuback(packet);
        break;
      case "unsuback":
        this.filters.onUnsuback(packet);
        break;
      case "pingresp":
        this.keepAlive.pong();
        break;
      case "connack":
        if (this.state !== "connecting") unexpected(packet);
        if (packet.reason !== 0) this.fail(refusal(packet.reason, packet.properties));
        else if (this.method === undefined) this.admit(packet);
        else this.onAuth(packet);
        break;
      case "disconnect":
        this.onDisconnect(packet);
        break;
      case "auth":
        this.onAuth(packet);
        break;
      default:
        unexpected(packet);
    }
  }

  private onPublish(packet: Publish): void {
    if (this.state !== "connected") unexpected(packet);
    const alias = packet.properties.topicAlias;
    if (alias !== undefined) this.resolveAlias(packet, alias);
    const receipt = packet.qos === 0 ? null : this.incoming.onPublish(packet);
    if (receipt !== null || packet.qos === 0) this.receiver.onMessage(packet, receipt);
  }

  private resolveAlias(packet: Publish, alias: number): void {
    if (packet.topic !== "") {
      // [MQTT-3.1.2-26]
      if (alias > this.settings.topicAliasMaximum) throw aliasError();
      this.aliases[alias] = packet.topic;
      return;
    }
    const topic = this.aliases[alias];
    if (topic === undefined) throw aliasError();
    packet.topic = topic;
  }

  private onAuth(packet: Auth | Connack): void {
    // [MQTT-4.12.0-5] [MQTT-4.12.0-6]
    if (this.method === undefined || packet.properties.authenticationMethod !== this.method) unexpected(packet);
    this.isHeld = packet.type === "connack";
    this.owner.onAuth(packet);
  }

  /** Completes the connection after a CONNACK that is accepted and authenticated. */
  admit(packet: Connack): void {
    const { properties } = packet;
    this.isHeld = false;
    // [MQTT-3.2.2-4]
    if (packet.sessionPresent && this.cleanStart) {
      throw new MqttError("protocol_error", "session present despite clean start [MQTT-3.2.2-4]");
    }
    const { link, settings } = this;
    link.accept(properties);
    const aliases = Math.min(properties.topicAliasMaximum ?? 0, settings.maxTopicAliases);
    link.aliases = aliases > 0 ? new TopicAliases(aliases) : null;
    link.isUp = true;
    link.isCongested = false;
    this.state = "connected";
    this.hasConnected = true;
    this.counters.connections++;
    this.clientId = properties.assignedClientIdentifier ?? this.clientId;
    // [MQTT-3.2.2-21]
    this.keepAlive.start(properties.serverKeepAlive ?? settings.keepAliveS, link.now);
    this.incoming.onConnected(packet.sessionPresent);
    link.recorder?.began(packet.sessionPresent);
    // Send what was pending before the owner is notified, so that new messages and subscriptions follow it.
    this.outgoing.onConnected(packet.sessionPresent);
    this.filters.onConnected(packet.sessionPresent);
    this.outgoing.pump();
    this.owner.onConnected(packet);
  }

  private onDisconnect(packet: Disconnect): void {
    const { reason } = packet;
    const code = reason === 0x8e ? "session_taken_over" : isRedirect(reason) ? "redirected" : "server_disconnected";
    this.fail(new MqttError(code, "", { reason, ...packet.properties }));
  }

  /** Sends a QoS 0 message without queuing. Returns whether it was accepted. */
  sendNow(topic: string, payload: Uint8Array | string, retain: boolean, properties?: PublishProperties): boolean {
    if (!this.outgoing.isClear) return false;
    if (retain && this.link.limits.retainAvailable === false) {
      throw new MqttError("retain_not_supported", topic);
    }
    this.outgoing.put(topic, payload, retain, 0, null, false, properties);
    return true;
  }

  /** Checks the keep alive: sends a PINGREQ, or ends the connection. */
  tick(now: number): void {
    this.link.now = now;
    if (this.state !== "connected") return;
    const due = this.keepAlive.check(now, this.isReading);
    if (due === "ping") this.link.send({ type: "pingreq" });
    else if (due === "dead") this.fail(new MqttError("keep_alive_timeout"));
  }

  /** Sends AUTH: continues an authentication, or starts a re-authentication (section 4.12). */
  authenticate(reason: number, authenticationData: Uint8Array | undefined): void {
    this.link.send({ type: "auth", reason, properties: { authenticationMethod: this.method, authenticationData } });
  }

  /** Writes DISCONNECT and ends the connection. */
  disconnect(reason: number, properties?: DisconnectProperties): void {
    if (this.state === "connected") {
      const isV5 = this.link.version === 5;
      this.link.send({ type: "disconnect", reason: isV5 ? reason : 0, properties: isV5 ? properties : undefined });
    }
    this.lost();
  }

  private protocolError(error: MqttError, reason: number): void {
    // 3.1.1 has no reason codes: the connection is only closed [MQTT-4.13.1-1].
    if (this.state === "connected" && this.link.version === 5) {
      this.link.send({ type: "disconnect", reason: error.reason ?? reason });
    }
    this.fail(error);
  }

  private fail(error: MqttError): void {
    this.lost();
    this.owner.onFailed(error);
  }

  /** The connection is lost. Incomplete exchanges wait for the next one. */
  lost(): void {
    this.state = "idle";
    this.link.isUp = false;
    this.link.aliases = null;
    this.keepAlive.stop();
  }

  /** Ends the session and rejects everything that is pending. */
  end(error: MqttError): void {
    this.lost();
    this.state = "ended";
    this.outgoing.failAll(error);
    this.filters.failAll(error);
  }
}

export function unexpected(packet: Packet): never {
  throw new MqttError("protocol_error", `unexpected ${packet.type}`);
}

function aliasError(): MqttError {
  return new MqttError("protocol_error", "undefined topic alias", { reason: 0x94 });
}

/** Decodes the 3.1.1 CONNACK with which a server without MQTT 5.0 refuses the client, or returns null. */
function asV3Connack(bytes: readonly number[]): Connack | null {
  try {
    const decoder = new ClientDecoder({ protocolVersion: 4 });
    decoder.push(Uint8Array.from(bytes));
    const packet = decoder.read();
    return packet?.type === "connack" && packet.reason !== 0 ? packet : null;
  } catch {
    return null;
  }
}

function isRedirect(reason: number): boolean {
  return reason === 0x9c || reason === 0x9d;
}

function refusal(reason: number, properties: Connack["properties"]): MqttError {
  const isVersion = reason === 0x84;
  const code = isVersion ? "unsupported_protocol_version" : isRedirect(reason) ? "redirected" : "connection_refused";
  return new MqttError(code, "", { reason, ...properties });
}
