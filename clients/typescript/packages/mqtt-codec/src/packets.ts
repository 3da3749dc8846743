// The fifteen control packets (section 3), as decoders return them and encoders accept them.

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
 * Any control packet, distinguished by its `type`. The decoder sets every field. The encoder accepts the same objects, and
 * {@link PacketInit}, in which fields with a default may be left out.
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
  /** The protocol version of the connection. CONNECT is always encoded in this version. */
  protocolVersion: ProtocolVersion;
  /** Whether the server discards an existing session first. Clean Session before MQTT 5.0. */
  cleanStart: boolean;
  /** The longest time without a packet from the client, in seconds; 0 for no limit. */
  keepAliveS: number;
  /** The client identifier, which names the session. If it is empty, the server assigns one or refuses. */
  clientId: string;
  /** The message that the server publishes when the connection is lost. */
  will: Will | null;
  /** The user name. */
  userName: string | null;
  /** The password. Before MQTT 5.0 it needs a user name. */
  password: Uint8Array | null;
  /** Empty before MQTT 5.0. */
  properties: ConnectProperties;
}

/** The message that the server publishes when the connection is lost (section 3.1.2.5). */
export interface Will {
  topic: string;
  /** The payload, at most 65,535 bytes. */
  payload: Uint8Array;
  qos: QoS;
  /** Whether the will is published as a retained message. */
  retain: boolean;
  /** Empty before MQTT 5.0. */
  properties: WillProperties;
}

/** CONNACK: the response to CONNECT (section 3.2). */
export interface Connack {
  type: "connack";
  /** Whether the server resumes an existing session. Never set in a refusal. */
  sessionPresent: boolean;
  /** The result as an MQTT 5.0 reason code. The 3.1.1 return codes 1 to 5 are 0x84, 0x85, 0x88, 0x86, 0x87. */
  reason: number;
  /** The limits and features of the server. Empty before MQTT 5.0. */
  properties: ConnackProperties;
}

/** PUBLISH: a message (section 3.3). */
export type Publish = PublishOnce | PublishAcknowledged;

/** A QoS 0 message, which has neither a packet identifier nor DUP. */
export interface PublishOnce extends Message {
  qos: 0;
  dup: false;
  packetId: null;
}

/** A QoS 1 or 2 message. */
export interface PublishAcknowledged extends Message {
  qos: 1 | 2;
  /** Whether this is a retransmission. */
  dup: boolean;
  /** The identifier of the exchange until it is complete: 1 to 65,535. */
  packetId: number;
}

interface Message {
  type: "publish";
  /** To a server: store it as the retained message of the topic. To a client: see Retain As Published. */
  retain: boolean;
  /** The topic name; empty if a topic alias replaces it (MQTT 5.0 only). */
  topic: string;
  /** Empty before MQTT 5.0. */
  properties: PublishProperties;
  /** The payload. From a decoder: a view of the pushed bytes; `slice()` copies it. */
  payload: Uint8Array;
}

/** PUBACK: acknowledges a QoS 1 message (section 3.4). */
export type Puback = Acknowledgement<"puback">;
/** PUBREC: acknowledges the receipt of a QoS 2 message (section 3.5). */
export type Pubrec = Acknowledgement<"pubrec">;
/** PUBREL: the sender of a QoS 2 message releases its packet identifier (section 3.6). */
export type Pubrel = Acknowledgement<"pubrel">;
/** PUBCOMP: the exchange of a QoS 2 message is complete (section 3.7). */
export type Pubcomp = Acknowledgement<"pubcomp">;

/** PUBACK, PUBREC, PUBREL and PUBCOMP differ only in their type and their valid reason codes. */
export interface Acknowledgement<T extends "puback" | "pubrec" | "pubrel" | "pubcomp"> {
  type: T;
  /** The identifier of the PUBLISH: 1 to 65,535. */
  packetId: number;
  /** The result, 0 for success. Always 0 before MQTT 5.0. */
  reason: number;
  /** Empty before MQTT 5.0. */
  properties: AckProperties;
}

/** SUBSCRIBE: requests subscriptions (section 3.8). */
export interface Subscribe {
  type: "subscribe";
  /** The identifier of the exchange until its SUBACK: 1 to 65,535. */
  packetId: number;
  /** Empty before MQTT 5.0. */
  properties: SubscribeProperties;
  /** The requested subscriptions; at least one. */
  requests: SubscriptionRequest[];
}

/** One topic filter of a SUBSCRIBE with its options (section 3.8.3.1). Before MQTT 5.0 there is only the QoS. */
export interface SubscriptionRequest {
  /** The topic filter, or `$share/NAME/FILTER`. */
  filter: string;
  /** The maximum QoS of the messages. */
  qos: QoS;
  /** Whether the server does not send back messages that this client published. Not allowed on a shared subscription. */
  noLocal: boolean;
  /** Whether forwarded messages keep their retain flag. */
  retainAsPublished: boolean;
  /** When the server sends retained messages: 0 now, 1 if the subscription did not exist, 2 never. */
  retainHandling: 0 | 1 | 2;
}

/** SUBACK: the response to SUBSCRIBE (section 3.9). */
export interface Suback {
  type: "suback";
  packetId: number;
  /** Empty before MQTT 5.0. */
  properties: AckProperties;
  /** One reason code for each filter, in order: 0, 1, 2 for the granted QoS, 0x80 and above for a refusal. */
  reasons: number[];
}

/** UNSUBSCRIBE: ends subscriptions (section 3.10). */
export interface Unsubscribe {
  type: "unsubscribe";
  /** The identifier of the exchange until its UNSUBACK: 1 to 65,535. */
  packetId: number;
  /** Empty before MQTT 5.0. */
  properties: UnsubscribeProperties;
  /** The topic filters of the subscriptions; at least one. */
  filters: string[];
}

/** UNSUBACK: the response to UNSUBSCRIBE (section 3.11). */
export interface Unsuback {
  type: "unsuback";
  packetId: number;
  /** Empty before MQTT 5.0. */
  properties: AckProperties;
  /** One reason code for each filter, in order. Empty before MQTT 5.0. */
  reasons: number[];
}

/** PINGREQ: shows that the client is alive (section 3.12). */
export interface Pingreq {
  type: "pingreq";
}

/** PINGRESP: the response to PINGREQ (section 3.13). */
export interface Pingresp {
  type: "pingresp";
}

/** DISCONNECT: the last packet of a connection (section 3.14). */
export interface Disconnect {
  type: "disconnect";
  /** The reason code. Always 0 before MQTT 5.0. */
  reason: number;
  /** Empty before MQTT 5.0. */
  properties: DisconnectProperties;
}

/** AUTH: a step of an extended authentication (section 3.15). MQTT 5.0 only. */
export interface Auth {
  type: "auth";
  /** The step: 0 success, 0x18 continue, 0x19 re-authenticate. */
  reason: number;
  /** The authentication method is required, except in a success without properties. */
  properties: AuthProperties;
}

type Optional<T, K extends keyof T> = Omit<T, K> & { [P in K]?: T[P] | undefined };

/** A will to encode. Strings are encoded as UTF-8. */
export type WillInit = Optional<Omit<Will, "payload">, "qos" | "retain" | "properties"> & { payload: Uint8Array | string };

/** A CONNECT to encode. Defaults: version 5, a clean start, keep alive 0, no will, no credentials. */
export type ConnectInit = Optional<
  Omit<Connect, "will" | "password">,
  "protocolVersion" | "cleanStart" | "keepAliveS" | "userName" | "properties"
> & { will?: WillInit | null | undefined; password?: Uint8Array | string | null | undefined };

/** A PUBLISH to encode. Defaults: QoS 0, not retained, not a duplicate, an empty payload. Strings are encoded as UTF-8. */
export type PublishInit = Optional<Omit<Message, "payload">, "retain" | "properties"> & {
  payload?: Uint8Array | string | undefined;
} & (
    | { qos?: 0 | undefined; dup?: false | undefined; packetId?: null | undefined }
    | { qos: 1 | 2; dup?: boolean | undefined; packetId: number }
  );

/** A SUBSCRIBE to encode. Missing options are off or 0. */
export type SubscribeInit = Optional<Omit<Subscribe, "requests">, "properties"> & {
  requests: readonly Optional<SubscriptionRequest, "qos" | "noLocal" | "retainAsPublished" | "retainHandling">[];
};

/** The packets that an encoder accepts: any {@link Packet}, also without the fields that have a default. */
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
