import { Decoder, type DecoderOptions } from "./decoder.js";
import { Encoder, type EncoderOptions } from "./encoder.js";
import type { Bytes } from "./input.js";

// What calls without options share. Calls with options have instances of their own: nothing tells when they come again.
let encoder: Encoder | undefined;
let decoder: Decoder | undefined;

/** `value` as MessagePack. With options and often? Keep an {@link Encoder}: with each call, it is made anew here. */
export function encode(value: unknown, options?: EncoderOptions): Uint8Array {
  return encoderFor(options).encode(value);
}

/** Writes `value` into `target` from `offset` and gives the count of bytes; see {@link Encoder.encodeInto}. */
export function encodeInto(value: unknown, target: Uint8Array, offset = 0, options?: EncoderOptions): number {
  return encoderFor(options).encodeInto(value, target, offset);
}

/** The one value in `input`; see {@link Decoder.decode}. With options and often? Keep a {@link Decoder}. */
export function decode(input: Bytes, options?: DecoderOptions): unknown {
  return decoderFor(options).decode(input);
}

/** Every value of `input`, one after the other; see {@link Decoder.decodeMany}. */
export function decodeMany(input: Bytes, options?: DecoderOptions): Generator<unknown, void, undefined> {
  return decoderFor(options).decodeMany(input);
}

function encoderFor(options: EncoderOptions | undefined): Encoder {
  // What is learned in one call is lost with it.
  return options === undefined ? (encoder ??= new Encoder()) : new Encoder({ learnShapes: false, ...options });
}

function decoderFor(options: DecoderOptions | undefined): Decoder {
  return options === undefined ? (decoder ??= new Decoder()) : new Decoder({ learnShapes: false, ...options });
}
