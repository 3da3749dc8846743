import type { Bytes } from "./types.js";

type BufferFrom = (buffer: ArrayBufferLike, offset: number, length: number) => Bytes;

/** Returns the same memory as a `Buffer` if the platform has one, as users of `mqtt-packet` expect. */
export function asBuffer(bytes: Uint8Array): Bytes {
  const platform = (globalThis as { Buffer?: { from: BufferFrom } }).Buffer;
  return platform === undefined ? bytes : platform.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
