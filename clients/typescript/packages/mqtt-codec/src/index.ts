/**
 * A codec for MQTT 3.1, 3.1.1 and 5.0. {@link MqttDecoder} decodes the bytes of a connection to packets, {@link encode}
 * encodes packets to bytes.
 *
 * @packageDocumentation
 */

export { MqttDecodeError, type DecodeFault } from "./decode-error.js";
export { MqttDecoder } from "./decode/decoder.js";
export { MAX_PACKET_SIZE } from "./decode/fixed-header.js";
export type { Frame } from "./decode/frame.js";
export type { DecoderOptions, StreamDecoder } from "./decode/stream-decoder.js";
export { encode, encodedLength, encodeInto, encodePublishHeader } from "./encode/encode.js";
export { MqttEncodeError } from "./encode-error.js";
export type { DecodeErrorCode, DecodeErrorReasons, EncodeErrorCode } from "./error-codes.js";
export type * from "./packets.js";
export type {
  AckProperties,
  AuthenticationProperties,
  AuthProperties,
  ConnackProperties,
  ConnectProperties,
  DisconnectProperties,
  MessageProperties,
  PublishProperties,
  SubscribeProperties,
  UnsubscribeProperties,
  UserProperties,
  UserProperty,
  WillProperties,
} from "./properties.js";
export { ReasonCode } from "./reason-codes.js";
