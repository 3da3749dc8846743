import { Decoder, Encoder, type DecoderOptions, type EncoderOptions } from "@tautwire/msgpack";
import { checkNames } from "../client/options.js";
import type { PayloadCodec } from "./codec.js";

/** Options of {@link msgpack}. */
export interface MsgpackOptions<T> {
  encoder?: EncoderOptions | undefined;
  decoder?: DecoderOptions | undefined;
  /** Validates a decoded value, such as the `parse` of a schema library. */
  parse?: ((value: unknown) => T) | undefined;
}

/** MessagePack. Without `parse` the type parameter is not checked at run time. */
export function msgpack<T = unknown>(options: MsgpackOptions<T> = {}): PayloadCodec<T> {
  checkNames(options, "encoder decoder parse");
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
