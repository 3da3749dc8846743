import { json, type PayloadCodec } from "@tautwire/client";
import type { Read } from "./mapping.js";

/** Payloads in JSON. `to` converts a value to plain JSON values, `from` converts it back. */
export function jsonCodec<T>(to: (value: T, isText: boolean) => unknown, from: Read<T>): PayloadCodec<T> {
  const codec = json(from);
  return { ...codec, encode: (value) => JSON.stringify(to(value, true)) };
}
