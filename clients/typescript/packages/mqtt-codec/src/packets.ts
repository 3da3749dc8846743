// The fifteen control packets (section 3): what a decoder gives, and what an encoder takes.

import type {
  AckProperties,
  AuthProperties,
  ConnackProperties,
  ConnectProperties,
  DisconnectProperties,
  PublishProperties,
  SubscribeProperties,
  UnsubscribeProperties,
  WillProperties,
} from "./properties.js";

/** The protocol level on the wire: 3 for MQTT 3.1, 4 for 3.1.1, 5 for 5.0. */
export type ProtocolVersion = 3 | 4 | 5;

/** Quality of service: 0 at most once, 1 at least once, 2 exactly once. */
export type QoS = 0 | 1 | 2;

/**
 * Any control packet, told apart by `type`. The decoder gives every field; the encoder takes the same objects, and
 * {@link PacketInit}, where fields that have a default may be left out.
 */
export type Packet =
  | Connect
  | Connack
  | Publish
  | Puback
  | Pubrec
  | Pubrel
  | Pubcomp
  | Subscribe
  | Suback
  | Unsubscribe
  | Unsuback
  | Pingreq
  | Pingresp
  | Disconnect
  | Auth;

/** The `type` of a packet. */
export type PacketType = Packet["type"];

/** CONNECT: the first packet of a connection (section 3.1). */
export interface Connect {
  type: "connect";
  /** The version that the connection is to speak. CONNECT is always encoded in this one. */
  protocolVersion: ProtocolVersion;
  /** Whether a session that the server has is discarded first. Clean Session before MQTT 5.0. */
  cleanStart: boolean;
  /** The longest silence of the client in seconds; 0 for no limit. */
  keepAliveS: number;
  /** Names the session. May be empty; the server then chooses one or refuses. */
  clientId: string;
  /** The message to publish when the connection is lost. */
  will: Will | null;
  /** For authentication. */
  userName: string | null;
  /** For authentication. Before MQTT 5.0 it needs a user name. */
  password: Uint8Array | null;
  /** Empty before MQTT 5.0. */
  properties: ConnectProperties;
}

/** The message that the server publishes when the connection is lost (section 3.1.2.5). */
export interface Will {
  topic: string;
  /** The message itself, at most 65,535 bytes. */
  payload: Uint8Array;
  qos: QoS;
  /** Whether it is published as a retained message. */
  retain: boolean;
  /** Empty before MQTT 5.0. */
  properties: WillProperties;
}

/** CONNACK: the answer to CONNECT (section 3.2). */
export interface Connack {
  type: "connack";
  /** Whether the server goes on with a session that it had. Never with a refusal. */
  sessionPresent: boolean;
  /** The outcome as a reason code of MQTT 5.0. Return codes 1 to 5 of 3.1.1 are 0x84, 0x85, 0x88, 0x86, 0x87. */
  reason: number;
  /** What the server offers. Empty before MQTT 5.0. */
  properties: ConnackProperties;
}

/** PUBLISH: a message (section 3.3). */
export type Publish = PublishOnce | PublishAcknowledged;

/** A message with QoS 0: it has neither a packet identifier nor DUP. */
export interface PublishOnce extends Message {
  qos: 0;
  dup: false;
  packetId: null;
}

/** A message with QoS 1 or 2. */
export interface PublishAcknowledged extends Message {
  qos: 1 | 2;
  /** Whether this is a retransmission. */
  dup: boolean;
  /** Names the exchange until it is complete: 1 to 65,535. */
  packetId: number;
}

interface Message {
  type: "publish";
  /** To a server: keep as the retained message of the topic. To a client: see Retain As Published. */
  retain: boolean;
  /** The topic name; empty where a topic alias stands for it (MQTT 5.0 alone). */
  topic: string;
  /** Empty before MQTT 5.0. */
  properties: PublishProperties;
  /** The message itself. From a decoder: a view of the bytes that were pushed; `slice()` makes it your own. */
  payload: Uint8Array;
}

/** PUBACK: a QoS 1 message has been taken over (section 3.4). */
export type Puback = Acknowledgement<"puback">;
/** PUBREC: a QoS 2 message has been received (section 3.5). */
export type Pubrec = Acknowledgement<"pubrec">;
/** PUBREL: the sender of a QoS 2 message releases its identifier (section 3.6). */
export type Pubrel = Acknowledgement<"pubrel">;
/** PUBCOMP: the exchange of a QoS 2 message is complete (section 3.7). */
export type Pubcomp = Acknowledgement<"pubcomp">;

/** PUBACK, PUBREC, PUBREL and PUBCOMP differ in their type and their legal reason codes alone. */
export interface Acknowledgement<T extends "puback" | "pubrec" | "pubrel" | "pubcomp"> {
  type: T;
  /** The identifier of the PUBLISH: 1 to 65,535. */
  packetId: number;
  /** The outcome, 0 for success. Always 0 before MQTT 5.0. */
  reason: number;
  /** Empty before MQTT 5.0. */
  properties: AckProperties;
}

/** SUBSCRIBE: asks for messages (section 3.8). */
export interface Subscribe {
  type: "subscribe";
  /** Names the exchange until its SUBACK: 1 to 65,535. */
  packetId: number;
  /** Empty before MQTT 5.0. */
  properties: SubscribeProperties;
  /** What is asked for; at least one. */
  requests: SubscriptionRequest[];
}

/** One topic filter of a SUBSCRIBE with its options (section 3.8.3.1). Before MQTT 5.0 there is the QoS alone. */
export interface SubscriptionRequest {
  /** Which topics, as a topic filter or `$share/NAME/FILTER`. */
  filter: string;
  /** The highest QoS that messages may come with. */
  qos: QoS;
  /** Whether messages that this client published stay away. Not allowed on a shared subscription. */
  noLocal: boolean;
  /** Whether forwarded messages keep their retain flag. */
  retainAsPublished: boolean;
  /** When retained messages are sent: 0 now, 1 if the subscription did not exist, 2 never. */
  retainHandling: 0 | 1 | 2;
}

/** SUBACK: the answer to SUBSCRIBE (section 3.9). */
export interface Suback {
  type: "suback";
  packetId: number;
  /** Empty before MQTT 5.0. */
  properties: AckProperties;
  /** One reason code for each filter, in order: 0, 1, 2 for the QoS granted, 0x80 and above for a refusal. */
  reasons: number[];
}

/** UNSUBSCRIBE: ends subscriptions (section 3.10). */
export interface Unsubscribe {
  type: "unsubscribe";
  /** Names the exchange until its UNSUBACK: 1 to 65,535. */
  packetId: number;
  /** Empty before MQTT 5.0. */
  properties: UnsubscribeProperties;
  /** The topic filters as they were subscribed to; at least one. */
  filters: string[];
}

/** UNSUBACK: the answer to UNSUBSCRIBE (section 3.11). */
export interface Unsuback {
  type: "unsuback";
  packetId: number;
  /** Empty before MQTT 5.0. */
  properties: AckProperties;
  /** One reason code for each filter, in order. Empty before MQTT 5.0. */
  reasons: number[];
}

/** PINGREQ: the client is there (section 3.12). */
export interface Pingreq {
  type: "pingreq";
}

/** PINGRESP: so is the server (section 3.13). */
export interface Pingresp {
  type: "pingresp";
}

/** DISCONNECT: the last packet of a connection (section 3.14). */
export interface Disconnect {
  type: "disconnect";
  /** Why. Always 0 before MQTT 5.0. */
  reason: number;
  /** Empty before MQTT 5.0. */
  properties: DisconnectProperties;
}

/** AUTH: a step of an extended authentication (section 3.15). MQTT 5.0 alone. */
export interface Auth {
  type: "auth";
  /** Which step: 0 success, 0x18 continue, 0x19 authenticate again. */
  reason: number;
  /** The method must be there, except in a success without properties. */
  properties: AuthProperties;
}

type Optional<T, K extends keyof T> = Omit<T, K> & { [P in K]?: T[P] | undefined };

/** A will to encode. Text is taken as UTF-8. */
export type WillInit = Optional<Omit<Will, "payload">, "qos" | "retain" | "properties"> & { payload: Uint8Array | string };

/** A CONNECT to encode. Defaults: version 5, a clean start, keep alive 0, no will, no credentials. */
export type ConnectInit = Optional<
  Omit<Connect, "will" | "password">,
  "protocolVersion" | "cleanStart" | "keepAliveS" | "userName" | "properties"
> & { will?: WillInit | null | undefined; password?: Uint8Array | string | null | undefined };

/** A PUBLISH to encode. Defaults: QoS 0, not retained, not a duplicate, an empty payload. Text is taken as UTF-8. */
export type PublishInit = Optional<Omit<Message, "payload">, "retain" | "properties"> & {
  payload?: Uint8Array | string | undefined;
} & (
    | { qos?: 0 | undefined; dup?: false | undefined; packetId?: null | undefined }
    | { qos: 1 | 2; dup?: boolean | undefined; packetId: number }
  );

/** A SUBSCRIBE to encode. Options that are left out are off or 0. */
export type SubscribeInit = Optional<Omit<Subscribe, "requests">, "properties"> & {
  requests: readonly Optional<SubscriptionRequest, "qos" | "noLocal" | "retainAsPublished" | "retainHandling">[];
};

/** What an encoder takes: any {@link Packet}, and packets without the fields that have a default. */
export type PacketInit =
  | ConnectInit
  | Optional<Connack, "sessionPresent" | "properties">
  | PublishInit
  | Optional<Puback, "reason" | "properties">
  | Optional<Pubrec, "reason" | "properties">
  | Optional<Pubrel, "reason" | "properties">
  | Optional<Pubcomp, "reason" | "properties">
  | SubscribeInit
  | (Optional<Omit<Suback, "reasons">, "properties"> & { reasons: readonly number[] })
  | (Optional<Omit<Unsubscribe, "filters">, "properties"> & { filters: readonly string[] })
  | (Optional<Omit<Unsuback, "reasons">, "properties"> & { reasons?: readonly number[] | undefined })
  | Pingreq
  | Pingresp
  | Optional<Disconnect, "reason" | "properties">
  | Optional<Auth, "reason" | "properties">;
