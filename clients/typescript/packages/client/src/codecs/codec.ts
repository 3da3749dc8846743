/** Turns values into payloads and back. */
export interface PayloadCodec<T> {
  /** The MIME type of the payload. MQTT 5.0 messages carry it as Content Type, by which received messages are decoded. */
  readonly contentType: string;
  /** Whether payloads are UTF-8 text. MQTT 5.0 messages then have the payload format indicator 1. */
  readonly isText: boolean;
  encode(value: T): Uint8Array | string;
  /** @throws Any error if the payload is invalid. */
  decode(payload: Uint8Array): T;
}

const decoder = /* @__PURE__ */ new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The payload itself. */
export const bytes: PayloadCodec<Uint8Array> = {
  contentType: "application/octet-stream",
  isText: false,
  encode: (value) => value,
  decode: (payload) => payload,
};

/** UTF-8 text. Decoding throws if the payload is not UTF-8. */
export const text: PayloadCodec<string> = {
  contentType: "text/plain",
  isText: true,
  encode: (value) => value,
  decode: (payload) => decoder.decode(payload),
};

/**
 * JSON. The type parameter is not checked at run time; pass `parse`, such as that of a schema library, to validate values.
 */
export function json<T = unknown>(parse?: (value: unknown) => T): PayloadCodec<T> {
  return {
    contentType: "application/json",
    isText: true,
    encode(value) {
      const result = JSON.stringify(value) as string | undefined;
      if (result === undefined) throw new TypeError("JSON cannot express this value");
      return result;
    },
    decode(payload) {
      const value: unknown = JSON.parse(decoder.decode(payload));
      return parse === undefined ? (value as T) : parse(value);
    },
  };
}
