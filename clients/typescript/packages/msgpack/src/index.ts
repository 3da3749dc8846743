export { type Decoded, Decoder, type DecoderOptions } from "./decoder.js";
export { Encoder, type EncoderOptions } from "./encoder.js";
export { MsgpackError, type MsgpackErrorCode } from "./error.js";
export { type Extension, ExtensionValue, Timestamp } from "./extension.js";
export { decode, decodeMany, encode, encodeInto } from "./functions.js";
export type { Bytes } from "./input.js";
export { decodeStream, StreamDecoder } from "./stream.js";
