// The properties of MQTT 5.0 (section 2.2.2), as plain objects with one type for each packet that may carry them.
//
// A decoded object has its keys in the order of the wire, and an encoder writes them in the order of the keys. A property
// that may be repeated is one list, in order; it stands where the first of them stood.

/** A name and a value of the application's own. Names may repeat, and the order is kept. */
export type UserProperty = readonly [name: string, value: string];

/** What every packet with properties may carry. */
export interface UserProperties {
  /** Names and values of the application's own, in order (section 2.2.2.2). */
  userProperties?: readonly UserProperty[] | undefined;
}

/** Properties of PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK and UNSUBACK. */
export interface AckProperties extends UserProperties {
  /** A reason for people to read. */
  reasonString?: string | undefined;
}

/** Properties of UNSUBSCRIBE. */
export type UnsubscribeProperties = UserProperties;

/** Properties of SUBSCRIBE. */
export interface SubscribeProperties extends UserProperties {
  /** Comes back with every message of these subscriptions: 1 to 268,435,455. */
  subscriptionIdentifier?: number | undefined;
}

/** What a message itself may say, in PUBLISH or in a will. */
export interface MessageProperties extends UserProperties {
  /** 1: the payload is UTF-8 text; 0: it is bytes. */
  payloadFormatIndicator?: 0 | 1 | undefined;
  /** Lifetime of the message in seconds. */
  messageExpiryInterval?: number | undefined;
  /** What the payload is, such as a MIME type. */
  contentType?: string | undefined;
  /** The topic for a response. */
  responseTopic?: string | undefined;
  /** Which request a response belongs to. */
  correlationData?: Uint8Array | undefined;
}

/** Properties of PUBLISH (section 3.3.2.3). */
export interface PublishProperties extends MessageProperties {
  /** A number that stands for the topic: 1 to 65,535. */
  topicAlias?: number | undefined;
  /** The identifiers of the subscriptions that match, in order. Servers send them. */
  subscriptionIdentifiers?: readonly number[] | undefined;
}

/** Properties of a will (section 3.1.3.2). */
export interface WillProperties extends MessageProperties {
  /** How long the will waits after the connection is lost, in seconds. */
  willDelayInterval?: number | undefined;
}

/** The properties of an extended authentication, in CONNECT, CONNACK and AUTH. */
export interface AuthenticationProperties extends UserProperties {
  /** The name of the authentication method. */
  authenticationMethod?: string | undefined;
  /** Data of the authentication method, which must be named too. */
  authenticationData?: Uint8Array | undefined;
}

/** Properties of AUTH (section 3.15.2.2). */
export interface AuthProperties extends AuthenticationProperties, AckProperties {}

/** Properties of CONNECT (section 3.1.2.11). */
export interface ConnectProperties extends AuthenticationProperties {
  /** How long the session outlives its connection, in seconds; 4,294,967,295 for ever. */
  sessionExpiryInterval?: number | undefined;
  /** How many QoS 1 and 2 messages the sender of this takes at once: 1 to 65,535. */
  receiveMaximum?: number | undefined;
  /** The largest packet that the sender of this takes, in bytes: at least 1. */
  maximumPacketSize?: number | undefined;
  /** The highest topic alias that the sender of this takes. */
  topicAliasMaximum?: number | undefined;
  /** Whether the client asks for response information. */
  requestResponseInformation?: boolean | undefined;
  /** Whether reason strings and user properties may come with failures. */
  requestProblemInformation?: boolean | undefined;
}

/** Properties of CONNACK (section 3.2.2.3). */
export interface ConnackProperties extends AuthenticationProperties, AckProperties {
  /** How long the session outlives its connection, in seconds. */
  sessionExpiryInterval?: number | undefined;
  /** How many QoS 1 and 2 messages the sender of this takes at once: 1 to 65,535. */
  receiveMaximum?: number | undefined;
  /** The highest QoS that the server supports, if not 2. */
  maximumQoS?: 0 | 1 | undefined;
  /** Whether the server supports retained messages. */
  retainAvailable?: boolean | undefined;
  /** The largest packet that the sender of this takes, in bytes: at least 1. */
  maximumPacketSize?: number | undefined;
  /** The client identifier that the server chose. */
  assignedClientIdentifier?: string | undefined;
  /** The highest topic alias that the sender of this takes. */
  topicAliasMaximum?: number | undefined;
  /** Whether the server supports wildcard subscriptions. */
  wildcardSubscriptionAvailable?: boolean | undefined;
  /** Whether the server supports subscription identifiers. */
  subscriptionIdentifierAvailable?: boolean | undefined;
  /** Whether the server supports shared subscriptions. */
  sharedSubscriptionAvailable?: boolean | undefined;
  /** The keep alive that the server wants, in seconds. */
  serverKeepAlive?: number | undefined;
  /** The basis for response topics. */
  responseInformation?: string | undefined;
  /** Another server to use. */
  serverReference?: string | undefined;
}

/** Properties of DISCONNECT (section 3.14.2.2). */
export interface DisconnectProperties extends AckProperties {
  /** How long the session outlives its connection, in seconds. */
  sessionExpiryInterval?: number | undefined;
  /** Another server to use. */
  serverReference?: string | undefined;
}

/** No properties: what a packet without any carries. Frozen, so that packets can share it. */
export const NO_PROPERTIES: UserProperties = /* @__PURE__ */ Object.freeze({});
