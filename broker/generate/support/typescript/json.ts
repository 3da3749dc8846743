import { json, type PayloadCodec } from "@tautwire/client";
import type { Read } from "./mapping.js";

/** Payloads in JSON. `to` makes what JSON has out of a value, `from` a value out of what JSON has. */
export function jsonCodec<T>(to: (value: T, isText: boolean) => unknown, from: Read<T>): PayloadCodec<T> {
  const codec = json(from);
  return { ...codec, encode: (value) => JSON.stringify(to(value, true)) };
}
