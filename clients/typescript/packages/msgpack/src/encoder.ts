import { invalidArgument } from "./error.js";
import type { Extension } from "./extension.js";
import { checkExtensions, checkOffset, isUint8Array, kindOf, limit, refuseUnknown } from "./input.js";
import { encode, encodeInto, Writer } from "./writer.js";

export interface EncoderOptions {
  /**
   * `"never"` (the default) writes every fraction as float64. `"exact"` writes float32 if it is lossless: the output is shorter,
   * and decoders return the same number.
   */
  readonly float32?: "never" | "exact" | undefined;
  /** The maximum depth of nested containers; beyond it, or in a cycle, `limit_depth` is thrown. Default 256. Each level uses some of the engine's stack. */
  readonly maxDepth?: number | undefined;
  /** The maximum size of one message in bytes; beyond it `limit_total` is thrown. Default 1 GiB. */
  readonly maxBytes?: number | undefined;
  /** Custom extension types. The first whose class matches is used, before everything except arrays and plain objects. */
  readonly extensions?: readonly Extension[] | undefined;
  /** Whether to remember the shapes of plain objects. The bytes are the same. Default true. */
  readonly learnShapes?: boolean | undefined;
  /**
   * Whether known shapes may become compiled functions (`new Function`). The bytes are the same. `"auto"`, the default,
   * compiles only on servers, because the Content Security Policy of a page reports even an attempt; `true` tries it everywhere.
   */
  readonly generate?: boolean | "auto" | undefined;
}

/**
 * Encodes values to MessagePack, in the shortest form. Reuse an instance: it learns the shapes of your objects.
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
* | objects with `toJSON` | the value that `toJSON` returns |
 * | other objects | map of their own enumerable properties with string keys |
 *
 * The output stays valid if `toJSON`, getters, proxies or extensions modify a value while it is encoded. As in JSON, an array has
 * the number of items that it had at the start (nil for removed ones), a map or a set the entries that it had,
 * and an object the properties that it had, except removed ones.
 */
export class Encoder {
  private readonly options: EncoderOptions;
  private readonly writer: Writer;

  /** @throws MsgpackError `invalid_options`: a limit is not a number from 0 (`Infinity` is allowed), or an extension type is invalid */
  constructor(options: EncoderOptions = {}) {
    this.options = options;
    const settings = {
      float32: options.float32 === "exact",
      maxDepth: limit("maxDepth", options.maxDepth, 256),
      maxBytes: limit("maxBytes", options.maxBytes, 2 ** 30),
      extensions: checkExtensions(options.extensions),
      learnShapes: options.learnShapes ?? true,
      generate: options.generate ?? "auto",
    };
    refuseUnknown(options, settings);
    this.writer = new Writer(settings);
  }

  /**
   * Encodes `value`. The bytes belong to the caller and are never overwritten, but small results are views into a shared block:
   * use `.slice()` before you transfer `.buffer` elsewhere, and for results that you keep for a long time.
   *
   * @throws MsgpackError `limit_depth`, `limit_total`, `out_of_range`, `invalid_extension`; and any exception of getters, `toJSON`,
   * proxies and extensions
   */
  encode(value: unknown): Uint8Array {
    return encode(this.idle(), value);
  }

  /**
   * Writes `value` into `target` at `offset` (default 0) and returns the number of written bytes. Nothing outside of
   * `target` is modified. After an error, the contents of `target` from `offset` on are undefined.
   *
   * @throws MsgpackError as `encode`, and `no_room`, `invalid_argument`
   */
  encodeInto(value: unknown, target: Uint8Array, offset = 0): number {
    if (!isUint8Array(target)) invalidArgument(`the target is ${kindOf(target)}, not a Uint8Array`);
    checkOffset(offset, target.length, "the target");
    return encodeInto(this.idle(), value, target, offset);
  }

  /** Returns a writer that is not in use, because `toJSON` and extensions may encode with this encoder. */
  private idle(): Writer {
    return this.writer.busy ? new Encoder({ ...this.options, learnShapes: false }).writer : this.writer;
  }
}
