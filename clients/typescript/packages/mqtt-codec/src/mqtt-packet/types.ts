// The types of `mqtt-packet` by their names there, so that what is written against them compiles unchanged.

import type { PacketType, QoS } from "../packets.js";

export type { QoS } from "../packets.js";

/** Bytes: a `Buffer` where the types of Node.js are loaded, else a `Uint8Array`. */
export type Bytes = typeof globalThis extends { Buffer: { isBuffer(value: unknown): value is infer B } } ? B : Uint8Array;

/** The type of a packet. */
export type PacketCmd = PacketType;

/** Names with one value, or with several in order. The order over several names is not kept. */
export type UserProperties = Record<string, string | string[]>;

/** What all packets have. */
export interface IPacket {
  cmd: PacketCmd;
  /** The packet identifier: 1 to 65,535. */
  messageId?: number | undefined;
  /** Decoded packets: the remaining length in bytes. */
  length?: number | undefined;
}

interface WithUserProperties {
  userProperties?: UserProperties | undefined;
}

interface AckProperties extends WithUserProperties {
  reasonString?: string | undefined;
}

interface AuthenticationProperties {
  authenticationMethod?: string | undefined;
  authenticationData?: Bytes | undefined;
}

interface MessageProperties extends WithUserProperties {
  payloadFormatIndicator?: boolean | undefined;
  messageExpiryInterval?: number | undefined;
  contentType?: string | undefined;
  responseTopic?: string | undefined;
  correlationData?: Bytes | undefined;
}

/** Limits of the side that sends them. */
interface LimitProperties {
  sessionExpiryInterval?: number | undefined;
  receiveMaximum?: number | undefined;
  maximumPacketSize?: number | undefined;
  topicAliasMaximum?: number | undefined;
}

export interface IConnectPacket extends IPacket {
  cmd: "connect";
  clientId: string;
  /** 4 if it is left out. */
  protocolVersion?: 3 | 4 | 5 | undefined;
  /** `MQIsdp` with version 3, `MQTT` with the others: what belongs to the version if it is left out. */
  protocolId?: "MQTT" | "MQIsdp" | undefined;
  /** Whether another broker connects as a bridge. It adds 128 to the version on the wire; not in MQTT 5.0. */
  bridgeMode?: boolean | undefined;
  /** True if it is left out. */
  clean?: boolean | undefined;
  /** In seconds; 0 if it is left out. */
  keepalive?: number | undefined;
  username?: string | undefined;
  password?: Bytes | undefined;
  will?:
    | {
        topic: string;
        payload: Bytes | string;
        qos?: QoS | undefined;
        retain?: boolean | undefined;
        properties?: (MessageProperties & { willDelayInterval?: number | undefined }) | undefined;
      }
    | undefined;
  properties?:
    | (LimitProperties &
        WithUserProperties &
        AuthenticationProperties & {
          requestResponseInformation?: boolean | undefined;
          requestProblemInformation?: boolean | undefined;
        })
    | undefined;
}

export interface IConnackPacket extends IPacket {
  cmd: "connack";
  /** Before MQTT 5.0: 0 to 255. */
  returnCode?: number | undefined;
  /** MQTT 5.0. A server that speaks 3.1.1 alone answers with its return code: then it is that one, 1 to 255. */
  reasonCode?: number | undefined;
  sessionPresent: boolean;
  properties?:
    | (LimitProperties &
        AckProperties &
        AuthenticationProperties & {
          maximumQoS?: number | undefined;
          retainAvailable?: boolean | undefined;
          assignedClientIdentifier?: string | undefined;
          wildcardSubscriptionAvailable?: boolean | undefined;
          subscriptionIdentifiersAvailable?: boolean | undefined;
          sharedSubscriptionAvailable?: boolean | undefined;
          serverKeepAlive?: number | undefined;
          responseInformation?: string | undefined;
          serverReference?: string | undefined;
        })
    | undefined;
}

export interface IPublishPacket extends IPacket {
  cmd: "publish";
  qos: QoS;
  dup: boolean;
  retain: boolean;
  topic: string;
  payload: string | Bytes;
  properties?:
    | (MessageProperties & {
        topicAlias?: number | undefined;
        subscriptionIdentifier?: number | number[] | undefined;
      })
    | undefined;
}

interface Acknowledgement<T extends PacketCmd> extends IPacket {
  cmd: T;
  /** MQTT 5.0; 0 if it is left out. */
  reasonCode?: number | undefined;
  properties?: AckProperties | undefined;
}

export type IPubackPacket = Acknowledgement<"puback">;
export type IPubrecPacket = Acknowledgement<"pubrec">;
export type IPubrelPacket = Acknowledgement<"pubrel">;
export type IPubcompPacket = Acknowledgement<"pubcomp">;

/** A topic filter with its options. All but the QoS are of MQTT 5.0. */
export interface ISubscription {
  topic: string;
  qos: QoS;
  /** No Local. */
  nl?: boolean | undefined;
  /** Retain As Published. */
  rap?: boolean | undefined;
  /** Retain Handling: 0, 1 or 2. */
  rh?: number | undefined;
}

export interface ISubscribePacket extends IPacket {
  cmd: "subscribe";
  subscriptions: ISubscription[];
  properties?: (AckProperties & { subscriptionIdentifier?: number | undefined }) | undefined;
}

export interface ISubackPacket extends Acknowledgement<"suback"> {
  granted: number[] | object[];
}

export interface IUnsubscribePacket extends IPacket {
  cmd: "unsubscribe";
  unsubscriptions: string[];
  properties?: AckProperties | undefined;
}

export interface IUnsubackPacket extends Acknowledgement<"unsuback"> {
  /** MQTT 5.0 alone. */
  granted: number[];
}

export interface IPingreqPacket extends IPacket {
  cmd: "pingreq";
}

export interface IPingrespPacket extends IPacket {
  cmd: "pingresp";
}

export interface IDisconnectPacket extends IPacket {
  cmd: "disconnect";
  /** MQTT 5.0; 0 if it is left out. */
  reasonCode?: number | undefined;
  properties?:
    | (AckProperties & { sessionExpiryInterval?: number | undefined; serverReference?: string | undefined })
    | undefined;
}

export interface IAuthPacket extends IPacket {
  cmd: "auth";
  reasonCode: number;
  properties?: (AckProperties & AuthenticationProperties) | undefined;
}

/** Any packet, told apart by `cmd`. */
export type Packet =
  | IConnectPacket
  | IConnackPacket
  | IPublishPacket
  | IPubackPacket
  | IPubrecPacket
  | IPubrelPacket
  | IPubcompPacket
  | ISubscribePacket
  | ISubackPacket
  | IUnsubscribePacket
  | IUnsubackPacket
  | IPingreqPacket
  | IPingrespPacket
  | IDisconnectPacket
  | IAuthPacket;

/** What parsers and generators are told about the connection. */
export interface Options {
  /** 3, 4 or 5; 4 if it is left out. */
  protocolVersion?: number | undefined;
  /** For a parser: the largest whole packet in bytes that it accepts. `mqtt-packet` has no such limit. */
  maxPacketSize?: number | undefined;
  /** `maximumPacketSize`: reason strings and user properties are left out of packets that would be larger. */
  properties?: { maximumPacketSize?: number | undefined } | undefined;
}

/** What packets are written to: a Node.js stream or anything like it. */
export interface WritableLike {
  write(bytes: Uint8Array): unknown;
  /** Called with what is wrong with a packet. Where it is not there, the error is thrown. */
  destroy?: ((error: Error) => unknown) | undefined;
  cork?: (() => unknown) | undefined;
  uncork?: (() => unknown) | undefined;
}
