/** Turns values into payloads and back. */
export interface PayloadCodec<T> {
  /** What the payload is, as a MIME type: sent with MQTT 5.0 messages, and recognised in received ones. */
  readonly contentType: string;
  /** Whether payloads are UTF-8 text, which MQTT 5.0 messages then say. */
  readonly isText: boolean;
  encode(value: T): Uint8Array | string;
  /** @throws Whatever it likes if the payload is not what it should be. */
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

/** UTF-8 text. Decoding refuses what is not UTF-8. */
export const text: PayloadCodec<string> = {
  contentType: "text/plain",
  isText: true,
  encode: (value) => value,
  decode: (payload) => decoder.decode(payload),
};

/**
 * JSON. The type parameter is a claim about what others send; `parse` checks it, such as the `parse` of a schema library.
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
