import { Decoder, type DecoderOptions } from "./decoder.js";
import { Encoder, type EncoderOptions } from "./encoder.js";
import type { Bytes } from "./input.js";

// Calls without options share these. Calls with options create an instance, because they may never repeat.
let encoder: Encoder | undefined;
let decoder: Decoder | undefined;

/** Encodes `value`. With options, reuse an {@link Encoder} instead: each call creates a new one. */
export function encode(value: unknown, options?: EncoderOptions): Uint8Array {
  return encoderFor(options).encode(value);
}

/** Writes `value` into `target` at `offset` and returns the number of bytes; see {@link Encoder.encodeInto}. */
export function encodeInto(value: unknown, target: Uint8Array, offset = 0, options?: EncoderOptions): number {
  return encoderFor(options).encodeInto(value, target, offset);
}

/** Decodes the one value in `input`; see {@link Decoder.decode}. With options, reuse a {@link Decoder} instead. */
export function decode(input: Bytes, options?: DecoderOptions): unknown {
  return decoderFor(options).decode(input);
}

/** Iterates over the consecutive values of `input`; see {@link Decoder.decodeMany}. */
export function decodeMany(input: Bytes, options?: DecoderOptions): Generator<unknown, void, undefined> {
  return decoderFor(options).decodeMany(input);
}

function encoderFor(options: EncoderOptions | undefined): Encoder {
  // An instance that is used once does not need to learn.
  return options === undefined ? (encoder ??= new Encoder()) : new Encoder({ learnShapes: false, ...options });
}

function decoderFor(options: DecoderOptions | undefined): Decoder {
  return options === undefined ? (decoder ??= new Decoder()) : new Decoder({ learnShapes: false, ...options });
}
