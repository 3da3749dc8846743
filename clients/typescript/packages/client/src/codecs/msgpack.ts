import { Decoder, Encoder, type DecoderOptions, type EncoderOptions } from "@tautwire/msgpack";
import type { PayloadCodec } from "./codec.js";

/** How MessagePack is written and read, and what checks the type of values that come from others. */
export interface MsgpackOptions<T> {
  encoder?: EncoderOptions | undefined;
  decoder?: DecoderOptions | undefined;
  /** Checks a decoded value, such as the `parse` of a schema library. */
  parse?: ((value: unknown) => T) | undefined;
}

/** MessagePack. Without `parse` the type parameter is a claim about what others send. */
export function msgpack<T = unknown>(options: MsgpackOptions<T> = {}): PayloadCodec<T> {
  const encoder = new Encoder(options.encoder);
  const decoder = new Decoder(options.decoder);
  const { parse } = options;
  return {
    contentType: "application/msgpack",
    isText: false,
    encode: (value) => encoder.encode(value),
    decode(payload) {
      const value: unknown = decoder.decode(payload);
      return parse === undefined ? (value as T) : parse(value);
    },
  };
}
