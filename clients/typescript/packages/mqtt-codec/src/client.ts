/**
 * What a client needs of this package, and nothing that is for servers alone, so that bundles stay small.
 *
 * @packageDocumentation
 */

export { MqttDecodeError, type DecodeFault } from "./decode-error.js";
export { ClientDecoder } from "./decode/client-decoder.js";
export { encodeClientInto } from "./encode/encode-client.js";
export { MqttEncodeError } from "./encode-error.js";
export type { DecodeErrorCode, DecodeErrorReasons, EncodeErrorCode } from "./error-codes.js";
