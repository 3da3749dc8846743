import { Decoder, type DecoderOptions } from "./decoder.js";
import { Encoder, type EncoderOptions } from "./encoder.js";

// What these share are learned shapes, which change no result. Options are never shared.
const encoder = /* @__PURE__ */ new Encoder();
const decoder = /* @__PURE__ */ new Decoder();

/** `value` as MessagePack. With options often? Keep an {@link Encoder}, whose `encode` this is. */
export function encode(value: unknown, options?: EncoderOptions): Uint8Array {
  return (options ? new Encoder(options) : encoder).encode(value);
}

/** Writes `value` into `target` from `offset` and gives the count of bytes; see {@link Encoder.encodeInto}. */
export function encodeInto(value: unknown, target: Uint8Array, offset = 0, options?: EncoderOptions): number {
  return (options ? new Encoder(options) : encoder).encodeInto(value, target, offset);
}

/** The one value in `input`; see {@link Decoder.decode}. With options often? Keep a {@link Decoder}. */
export function decode(input: Uint8Array, options?: DecoderOptions): unknown {
  return (options ? new Decoder(options) : decoder).decode(input);
}

/** Every value of `input`, one after the other; see {@link Decoder.decodeMany}. */
export function decodeMany(input: Uint8Array, options?: DecoderOptions): Generator<unknown, void, undefined> {
  return (options ? new Decoder(options) : decoder).decodeMany(input);
}
