// The properties of MQTT 5.0 (section 2.2.2), as plain objects, with one type for each packet that can carry them.
//
// A decoded object has its keys in the order of the wire, and an encoder writes them in the order of the keys. A property
// that may be repeated is one array, in order, at the position of the first.

/** An application-defined name and value. Names may repeat, and the order is preserved. */
export type UserProperty = readonly [name: string, value: string];

/** The properties of every packet. */
export interface UserProperties {
  /** Application-defined names and values, in order (section 2.2.2.2). */
  userProperties?: readonly UserProperty[] | undefined;
}

/** Properties of PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK and UNSUBACK. */
export interface AckProperties extends UserProperties {
  /** A human-readable reason. */
  reasonString?: string | undefined;
}

/** Properties of UNSUBSCRIBE. */
export type UnsubscribeProperties = UserProperties;

/** Properties of SUBSCRIBE. */
export interface SubscribeProperties extends UserProperties {
  /** The server sends it with every message of these subscriptions: 1 to 268,435,455. */
  subscriptionIdentifier?: number | undefined;
}

/** The properties that a PUBLISH and a will share. */
export interface MessageProperties extends UserProperties {
  /** 1: the payload is UTF-8 text; 0: it is bytes. */
  payloadFormatIndicator?: 0 | 1 | undefined;
  /** The lifetime of the message in seconds. */
  messageExpiryInterval?: number | undefined;
  /** The type of the payload, such as a MIME type. */
  contentType?: string | undefined;
  /** The topic for the response. */
  responseTopic?: string | undefined;
  /** Identifies the request of a response. */
  correlationData?: Uint8Array | undefined;
}

/** Properties of PUBLISH (section 3.3.2.3). */
export interface PublishProperties extends MessageProperties {
  /** The alias of the topic: 1 to 65,535. */
  topicAlias?: number | undefined;
  /** The identifiers of the matching subscriptions, in order. Sent by servers. */
  subscriptionIdentifiers?: readonly number[] | undefined;
}

/** Properties of a will (section 3.1.3.2). */
export interface WillProperties extends MessageProperties {
  /** The time between the loss of the connection and the publication of the will, in seconds. */
  willDelayInterval?: number | undefined;
}

/** The properties of an extended authentication, in CONNECT, CONNACK and AUTH. */
export interface AuthenticationProperties extends UserProperties {
  /** The name of the authentication method. */
  authenticationMethod?: string | undefined;
  /** The data of the authentication method, which must be present, too. */
  authenticationData?: Uint8Array | undefined;
}

/** Properties of AUTH (section 3.15.2.2). */
export interface AuthProperties extends AuthenticationProperties, AckProperties {}

/** Properties of CONNECT (section 3.1.2.11). */
export interface ConnectProperties extends AuthenticationProperties {
  /** How long the session outlives its connection, in seconds; 4,294,967,295 for no expiry. */
  sessionExpiryInterval?: number | undefined;
  /** How many QoS 1 and 2 messages may be in flight to the sender: 1 to 65,535. */
  receiveMaximum?: number | undefined;
  /** The largest packet that the sender accepts, in bytes: at least 1. */
  maximumPacketSize?: number | undefined;
  /** The highest topic alias that the sender accepts. */
  topicAliasMaximum?: number | undefined;
  /** Whether the client requests response information. */
  requestResponseInformation?: boolean | undefined;
  /** Whether the server may send reason strings and user properties with failures. */
  requestProblemInformation?: boolean | undefined;
}

/** Properties of CONNACK (section 3.2.2.3). */
export interface ConnackProperties extends AuthenticationProperties, AckProperties {
  /** How long the session outlives its connection, in seconds. */
  sessionExpiryInterval?: number | undefined;
  /** How many QoS 1 and 2 messages may be in flight to the sender: 1 to 65,535. */
  receiveMaximum?: number | undefined;
  /** The highest QoS that the server supports, if not 2. */
  maximumQoS?: 0 | 1 | undefined;
  /** Whether the server supports retained messages. */
  retainAvailable?: boolean | undefined;
  /** The largest packet that the sender accepts, in bytes: at least 1. */
  maximumPacketSize?: number | undefined;
  /** The client identifier that the server assigned. */
  assignedClientIdentifier?: string | undefined;
  /** The highest topic alias that the sender accepts. */
  topicAliasMaximum?: number | undefined;
  /** Whether the server supports wildcard subscriptions. */
  wildcardSubscriptionAvailable?: boolean | undefined;
  /** Whether the server supports subscription identifiers. */
  subscriptionIdentifierAvailable?: boolean | undefined;
  /** Whether the server supports shared subscriptions. */
  sharedSubscriptionAvailable?: boolean | undefined;
  /** The keep alive that the server requires, in seconds. */
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

/** The properties of a packet without properties. Frozen, because packets share it. */
export const NO_PROPERTIES: UserProperties = /* @__PURE__ */ Object.freeze({});
