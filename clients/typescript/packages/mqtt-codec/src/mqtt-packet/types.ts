// The types of `mqtt-packet` under their names, so that code written for it compiles unchanged.

import type { PacketType, QoS } from "../packets.js";

export type { QoS } from "../packets.js";

/** A `Buffer` if the types of Node.js are loaded, otherwise a `Uint8Array`. */
export type Bytes = typeof globalThis extends { Buffer: { isBuffer(value: unknown): value is infer B } } ? B : Uint8Array;

/** The type of a packet. */
export type PacketCmd = PacketType;

/** Names with one value, or with several in order. The order across names is lost. */
export type UserProperties = Record<string, string | string[]>;

/** The fields of all packets. */
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

/** The limits of the sender. */
interface LimitProperties {
  sessionExpiryInterval?: number | undefined;
  receiveMaximum?: number | undefined;
  maximumPacketSize?: number | undefined;
  topicAliasMaximum?: number | undefined;
}

export interface IConnectPacket extends IPacket {
  cmd: "connect";
  clientId: string;
  /** Default: 4. */
  protocolVersion?: 3 | 4 | 5 | undefined;
  /** `MQIsdp` for version 3, `MQTT` for the others. Default: by the version. */
  protocolId?: "MQTT" | "MQIsdp" | undefined;
  /** Whether another broker connects as a bridge. Adds 128 to the version on the wire; not in MQTT 5.0. */
  bridgeMode?: boolean | undefined;
  /** Default: true. */
  clean?: boolean | undefined;
  /** In seconds. Default: 0. */
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
  /** MQTT 5.0. If a 3.1.1 server refuses a 5.0 client, this is its return code, 1 to 255. */
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
  /** MQTT 5.0. Default: 0. */
  reasonCode?: number | undefined;
  properties?: AckProperties | undefined;
}

export type IPubackPacket = Acknowledgement<"puback">;
export type IPubrecPacket = Acknowledgement<"pubrec">;
export type IPubrelPacket = Acknowledgement<"pubrel">;
export type IPubcompPacket = Acknowledgement<"pubcomp">;

/** A topic filter with its options, all of which except the QoS are MQTT 5.0. */
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
  /** MQTT 5.0 only. */
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
  /** MQTT 5.0. Default: 0. */
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

/** Any packet, distinguished by its `cmd`. */
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

/** The options of parsers and generators. */
export interface Options {
  /** 3, 4 or 5. Default: 4. */
  protocolVersion?: number | undefined;
  /** For a parser: the maximum packet size in bytes. `mqtt-packet` has no such limit. */
  maxPacketSize?: number | undefined;
  /** `maximumPacketSize`: reason strings and user properties are left out of packets that would exceed it. */
  properties?: { maximumPacketSize?: number | undefined } | undefined;
}

/** The destination of packets: a Node.js stream or anything like it. */
export interface WritableLike {
  write(bytes: Uint8Array): unknown;
  /** Called with an error in a packet. Without it, the error is thrown. */
  destroy?: ((error: Error) => unknown) | undefined;
  cork?: (() => unknown) | undefined;
  uncork?: (() => unknown) | undefined;
}
