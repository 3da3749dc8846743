import { invalidArgument } from "./error.js";
import type { Extension } from "./extension.js";
import { checkExtensions, checkOffset, isUint8Array, kindOf, limit } from "./input.js";
import { encode, encodeInto, Writer } from "./writer.js";

export interface EncoderOptions {
  /**
   * `"never"` (the default) writes every fraction as float64. `"exact"` writes float32 where it loses nothing: shorter,
   * and decoders give the same number.
   */
  readonly float32?: "never" | "exact" | undefined;
  /** Containers within containers, beyond which (or in a cycle) `limit_depth` is thrown. Default 256. Each takes some of the engine's stack. */
  readonly maxDepth?: number | undefined;
  /** Bytes of one message, beyond which `limit_total` is thrown. Default 1 GiB. */
  readonly maxBytes?: number | undefined;
  /** Types of yours; the first whose class matches is taken, before everything but arrays and plain objects. */
  readonly extensions?: readonly Extension[] | undefined;
  /** Whether to remember the shapes of plain objects. The bytes are the same. Default true. */
  readonly learnShapes?: boolean | undefined;
  /**
   * Whether known shapes may become compiled functions (`new Function`). The bytes are the same. `"auto"`, the default,
   * does so on servers only, as a page's Content Security Policy reports even an attempt; `true` attempts it everywhere.
   */
  readonly generate?: boolean | "auto" | undefined;
}

/**
 * Turns values into MessagePack, always in its shortest form. Keep one instance: it learns the shapes of your objects.
 *
 * | JavaScript | MessagePack |
 * |---|---|
 * | `null`, and `undefined`, functions and symbols outside of objects | nil |
 * | `undefined`, functions and symbols as property values | left out, as in JSON |
 * | integers up to ±(2^53−1) | the shortest integer |
 * | other numbers, −0, NaN, infinities | float64 (see `float32`) |
 * | bigint | the shortest integer, up to int64 and uint64 |
 * | string | str; lone surrogates become U+FFFD |
 * | `Uint8Array`, every other view, `ArrayBuffer` | bin with exactly its bytes |
 * | array, `Set` | array |
 * | `Map` | map with keys of any type |
 * | `Date`, {@link Timestamp} | timestamp extension (type −1) |
 * | {@link ExtensionValue}, classes with an {@link Extension} | ext |
 * | objects with `toJSON` | what that returns |
 * | other objects | map of their own enumerable properties with string keys |
 *
 * What `toJSON`, getters, proxies and extensions do meanwhile to what is being written never harms the bytes. It counts as in
 * JSON: an array has as many items as it had at its start (nil for what has gone since), a map or a set the entries that it had,
 * an object the properties that it had, but for those that have gone.
 */
export class Encoder {
  private readonly options: EncoderOptions;
  private readonly writer: Writer;

  /** @throws MsgpackError `invalid_options`: a limit that is no number from 0 (`Infinity` is one), or a wrong extension type */
  constructor(options: EncoderOptions = {}) {
    this.options = options;
    this.writer = new Writer({
      float32: options.float32 === "exact",
      maxDepth: limit("maxDepth", options.maxDepth, 256),
      maxBytes: limit("maxBytes", options.maxBytes, 2 ** 30),
      extensions: checkExtensions(options.extensions),
      learn: options.learnShapes ?? true,
      generate: options.generate ?? "auto",
    });
  }

  /**
   * The bytes of `value`. They stay yours and are never written again, but small results are views into a memory block
   * that they share: use `.slice()` before you transfer `.buffer` elsewhere, and for what you keep for long.
   *
   * @throws MsgpackError `limit_depth`, `limit_total`, `out_of_range`, `invalid_extension`; and what getters, `toJSON`, proxies
   * and extensions throw
   */
  encode(value: unknown): Uint8Array {
    return encode(this.idle(), value);
  }

  /**
   * Writes `value` into `target` from `offset` (default 0) and gives the count of bytes written. Nothing outside of
   * `target` is touched. After an error, the contents of `target` from `offset` on are undefined.
   *
   * @throws MsgpackError as `encode`, and `no_room`, `invalid_argument`
   */
  encodeInto(value: unknown, target: Uint8Array, offset = 0): number {
    if (!isUint8Array(target)) invalidArgument(`the target is ${kindOf(target)}, not a Uint8Array`);
    checkOffset(offset, target.length, "the target");
    return encodeInto(this.idle(), value, target, offset);
  }

  /** A writer that is not in the middle of a message: `toJSON` and extensions may encode with this very encoder. */
  private idle(): Writer {
    return this.writer.busy ? new Encoder({ ...this.options, learnShapes: false }).writer : this.writer;
  }
}
