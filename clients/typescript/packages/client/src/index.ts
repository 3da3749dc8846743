// The exports that the entries for Node.js and for browsers share.

export { ReasonCode } from "@tautwire/mqtt-codec";
export type {
  Connack,
  ConnackProperties,
  PublishProperties,
  QoS,
  UserProperty,
  WillInit,
  WillProperties,
} from "@tautwire/mqtt-codec";
export type { Authentication } from "./client/authentication.js";
export type { Client, CloseOptions, PublishOptions, TopicSubscribeOptions } from "./client/client.js";
export type { ClientEvents, ClientState, DiagnosticEvent } from "./client/events.js";
export type { Message } from "./client/message.js";
export type { ClientOptions, Clock, NameAndPassword, ReconnectOptions } from "./client/options.js";
export { once, type OnceOptions } from "./client/once.js";
export {
  request,
  respond,
  ResponseFailure,
  type RequestOptions,
  type RespondOptions,
  type Responder,
} from "./client/requests.js";
export type { ServerAddress } from "./client/servers.js";
export type { MessageHandler, SubscribeOptions, Subscription } from "./client/subscription.js";
export { bytes, json, text, type PayloadCodec } from "./codecs/codec.js";
export { MqttError, type MqttErrorCode } from "./errors.js";
export type { BackOffOptions } from "./session/back-off.js";
export type { Counters } from "./session/counters.js";
export type { FilterOptions } from "./session/filters.js";
export type { PublishResult, QueueOptions } from "./session/outgoing.js";
export type { PacketOutline } from "./session/trace.js";
export { topic, type Topic, type TopicArguments, type TopicParams } from "./topics/topic.js";
export type { TlsOptions, Transport, TransportEvents, TransportFactory, TransportOptions } from "./transport/transport.js";
