type BufferFrom = (buffer: ArrayBufferLike, offset: number, length: number) => Uint8Array;

/** The same memory as a `Buffer` where the platform has that, as users of `mqtt-packet` expect. */
export function asBuffer(bytes: Uint8Array): Uint8Array {
  const platform = (globalThis as { Buffer?: { from: BufferFrom } }).Buffer;
  return platform === undefined ? bytes : platform.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
