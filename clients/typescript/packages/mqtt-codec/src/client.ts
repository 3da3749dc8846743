/**
 * The part of this package that a client needs, without the code for servers, for small bundles.
 *
 * @packageDocumentation
 */

export { MqttDecodeError, type DecodeFault } from "./decode-error.js";
export { ClientDecoder } from "./decode/client-decoder.js";
export { encodeClientInto } from "./encode/encode-client.js";
export { MqttEncodeError } from "./encode-error.js";
export type { DecodeErrorCode, DecodeErrorReasons, EncodeErrorCode } from "./error-codes.js";
