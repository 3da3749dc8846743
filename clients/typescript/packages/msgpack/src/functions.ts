import { Decoder, type DecoderOptions } from "./decoder.js";
import { Encoder, type EncoderOptions } from "./encoder.js";

// Each call has an instance of its own, so that nothing is shared. To learn would not pay in its short life.
const ONCE = { learnShapes: false } as const;

/** `value` as MessagePack. Often? Keep an {@link Encoder}, which learns the shapes of your objects. */
export function encode(value: unknown, options?: EncoderOptions): Uint8Array {
  return new Encoder(options ?? ONCE).encode(value);
}

/** Writes `value` into `target` from `offset` and gives the count of bytes; see {@link Encoder.encodeInto}. */
export function encodeInto(value: unknown, target: Uint8Array, offset = 0, options?: EncoderOptions): number {
  return new Encoder(options ?? ONCE).encodeInto(value, target, offset);
}

/** The one value in `input`; see {@link Decoder.decode}. Often? Keep a {@link Decoder}. */
export function decode(input: Uint8Array, options?: DecoderOptions): unknown {
  return new Decoder(options ?? ONCE).decode(input);
}

/** Every value of `input`, one after the other; see {@link Decoder.decodeMany}. */
export function decodeMany(input: Uint8Array, options?: DecoderOptions): Generator<unknown, void, undefined> {
  return new Decoder(options ?? ONCE).decodeMany(input);
}
