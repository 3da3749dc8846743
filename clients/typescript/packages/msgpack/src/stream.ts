import { type Decoded, Decoder, type DecoderOptions } from "./decoder.js";
import { MsgpackError } from "./error.js";
import { type Bytes, bytesOf, limit } from "./input.js";

/**
 * Decodes values from chunks of any size: `push` a chunk, then iterate over the complete values.
 *
 * ```js
 * const stream = new StreamDecoder();
 * for await (const chunk of source) {
 *   stream.push(chunk);
 *   for (const value of stream) handle(value);
 * }
 * stream.end();
 * ```
 *
 * Values within one chunk are decoded in place, so their binary data are views of the chunk. A value that spans
 * several chunks is assembled first, in linear time even if it spans many chunks.
 */
export class StreamDecoder {
  private readonly decoder: Decoder;
  private readonly maxBytes: number;
  /** The undecoded bytes are `memory` from `at` to `filled`. */
  private memory: Uint8Array = new Uint8Array(0);
  private at = 0;
  private filled = 0;
  private owned = false;
  /** The number of bytes of the stream before `memory`. */
  private before = 0;
  /** The value at `at` was incomplete: `scanned` bytes of it have been scanned, and `missing` values are missing. */
  private partial = false;
  private scanned = 0;
  private missing = 0;
  private failure: MsgpackError | undefined;

  constructor(options: DecoderOptions = {}) {
    this.decoder = new Decoder(options);
    this.maxBytes = limit("maxBytes", options.maxBytes, 2 ** 30);
  }

  /** Adds a chunk, which must not be modified while its values are in use. */
  push(data: Bytes): void {
    if (this.failure) throw this.failure;
    const chunk = bytesOf(data);
    const left = this.filled - this.at;
    const size = left + chunk.length;
    if (left === 0) {
      this.before += this.at;
      this.memory = chunk;
      this.at = 0;
      this.owned = false;
    } else {
      if (!this.owned || this.filled + chunk.length > this.memory.length) {
        // Always a new array, never overwritten, because values may be views of the old one.
        const next = new Uint8Array(Math.max(size, left * 2));
        next.set(this.memory.subarray(this.at, this.filled));
        this.before += this.at;
        this.memory = next;
        this.at = 0;
        this.owned = true;
      }
      this.memory.set(chunk, this.at + left);
    }
    this.filled = this.at + size;
  }

  /**
   * Iterates over the complete values. After an error, the stream cannot continue, because the start of the next value is unknown.
   *
   * @throws MsgpackError as `Decoder.decode`; `offset` is relative to the start of the stream
   */
  *[Symbol.iterator](): Generator<unknown, void, undefined> {
    if (this.failure) throw this.failure;
    const { filled, memory } = this;
    const input = filled === memory.length ? memory : memory.subarray(0, filled);
    while (this.at < this.filled) {
      let decoded: Decoded;
      try {
        if (this.partial && !this.isComplete(input)) return;
        decoded = this.decoder.decodeFirst(input, this.at);
      } catch (error) {
        if (!(error instanceof MsgpackError)) throw error;
        if (error.code === "truncated" && !this.partial) {
          this.partial = true;
          this.scanned = 0;
          this.missing = 1;
          continue;
        }
        this.failure = new MsgpackError(error.code, this.before + error.offset, "the stream is broken");
        throw this.failure;
      }
      this.partial = false;
      this.at += decoded.bytesConsumed;
      yield decoded.value;
      if (this.memory !== memory || this.filled !== filled) return;
    }
  }

  /** Ends the input: throws `truncated` if a value is incomplete. */
  end(): void {
    if (this.failure) throw this.failure;
    if (this.at < this.filled) {
      throw new MsgpackError("truncated", this.before + this.filled, "the stream ends before the value does");
    }
  }

  /** Continues the search for the end of the value at `at`. It reads each byte once, regardless of the chunks. */
  private isComplete(input: Uint8Array): boolean {
    const end = this.filled;
    let p = this.at + this.scanned;
    while (this.missing > 0 && p < end) {
      const t = input[p]!;
      let lengthBytes = 0;
      let content = 0;
      let values = 0;
      if (t < 0x80 || t >= 0xe0 || t === 0xc0 || t === 0xc2 || t === 0xc3) content = 0;
      else if (t < 0x90) values = (t & 15) * 2;
      else if (t < 0xa0) values = t & 15;
      else if (t < 0xc0) content = t & 31;
      else if (t === 0xc1) return true;
      else if (t < 0xca) lengthBytes = 1 << ((t - 0xc4) % 3);
      else if (t < 0xcc) content = 4 << (t & 1);
      else if (t < 0xd4) content = 1 << (t & 3);
      else if (t < 0xd9) content = 1 + (1 << (t - 0xd4));
      else if (t < 0xdc) lengthBytes = 1 << (t - 0xd9);
      else lengthBytes = 2 << (t & 1);
      if (p + 1 + lengthBytes > end) break;
      let n = 0;
      for (let i = 1; i <= lengthBytes; i++) n = n * 256 + input[p + i]!;
      if (t >= 0xde && t < 0xe0) values = n * 2;
      else if (t >= 0xdc && t < 0xe0) values = n;
      else if (lengthBytes > 0) content = t >= 0xc7 && t < 0xca ? n + 1 : n;
      p += 1 + lengthBytes + content;
      this.missing += values - 1;
      // Each missing value takes at least a byte: refuse before buffering it.
      if (p - this.at + this.missing > this.maxBytes) {
        throw new MsgpackError("limit_total", p, `the message is above ${this.maxBytes} bytes`);
      }
    }
    this.scanned = p - this.at;
    return this.missing === 0 && p <= end;
  }
}

/** Iterates over the values of an asynchronous source of chunks, such as a socket, a file or a `ReadableStream`. */
export async function* decodeStream(
  source: AsyncIterable<Bytes> | Iterable<Bytes>,
  options?: DecoderOptions,
): AsyncGenerator<unknown, void, undefined> {
  const stream = new StreamDecoder(options);
  for await (const chunk of source) {
    stream.push(chunk);
    yield* stream;
  }
  stream.end();
}
