import type { Extension } from "./extension.js";
import { type Bytes, bytesOf, checkExtensions, checkOffset, limit, refuseUnknown, viewOf } from "./input.js";
import { read, Reader } from "./reader.js";

export interface DecoderOptions {
  /**
   * The type of decoded int64 and uint64 values: `"safe"` (the default) a number up to ±(2^53−1) and a bigint beyond; `"bigint"` always
   * a bigint; `"number"` always a number, rounded if necessary. Shorter integers are numbers.
   */
  readonly int64?: "safe" | "bigint" | "number" | undefined;
  /**
   * The type of decoded maps: `"object"` (the default) plain objects, whose keys must be strings or numbers; `"map"` a `Map` with
   * keys of any type. In both, a duplicate key replaces the value. `__proto__` is a property like any other.
   */
  readonly maps?: "object" | "map" | undefined;
  /** `"view"` (the default) returns bin and ext data as views of the input, `"copy"` as copies. */
  readonly binary?: "view" | "copy" | undefined;
  /** Whether a string that is not UTF-8 is refused (`invalid_utf8`) instead of decoded with U+FFFD. Default false. */
  readonly strictUtf8?: boolean | undefined;
  /** `"date"` (the default) returns a `Date`, which has milliseconds; `"exact"` returns a `Timestamp`, which has nanoseconds. */
  readonly timestamps?: "date" | "exact" | undefined;
  /** The maximum depth of nested containers. Default 256. Each level uses some of the engine's stack. */
  readonly maxDepth?: number | undefined;
  /** The maximum size of one message in bytes. Default 1 GiB. */
  readonly maxBytes?: number | undefined;
  /** The maximum size of one string in bytes. Default: limited by `maxBytes`. */
  readonly maxStringBytes?: number | undefined;
  /** The maximum size of one bin or ext in bytes. Default: limited by `maxBytes`. */
  readonly maxBinaryBytes?: number | undefined;
  /** The maximum number of items of one array. Default: limited by `maxBytes`, as an item takes at least one byte. */
  readonly maxArrayItems?: number | undefined;
  /** The maximum number of entries of one map. Default: limited by `maxBytes`, as an entry takes at least two bytes. */
  readonly maxMapEntries?: number | undefined;
  /** Custom extension types. */
  readonly extensions?: readonly Extension[] | undefined;
  /** Whether to remember the shapes of maps. The values are the same. Default true. */
  readonly learnShapes?: boolean | undefined;
  /** Whether known shapes may become compiled functions; see the encoder's option of this name. Default `"auto"`. */
  readonly generate?: boolean | "auto" | undefined;
}

/** A value and its encoded size. */
export interface Decoded {
  readonly value: unknown;
  /** The number of bytes of the input that the value took. */
  readonly bytesConsumed: number;
}

/**
 * Decodes MessagePack. Reuse an instance: it learns the shapes of your maps. The decoder trusts no length in the input until that
 * many bytes have arrived, and allocates nothing before.
 */
export class Decoder {
  private readonly options: DecoderOptions;
  private readonly reader: Reader;

  /** @throws MsgpackError `invalid_options`: a limit is not a number from 0 (`Infinity` is allowed), or an extension type is invalid */
  constructor(options: DecoderOptions = {}) {
    this.options = options;
    const settings = {
      int64: options.int64 ?? "safe",
      maps: options.maps === "map",
      binary: options.binary === "copy",
      strictUtf8: options.strictUtf8 ?? false,
      timestamps: options.timestamps === "exact",
      maxDepth: limit("maxDepth", options.maxDepth, 256),
      maxBytes: limit("maxBytes", options.maxBytes, 2 ** 30),
      maxStringBytes: limit("maxStringBytes", options.maxStringBytes, Infinity),
      maxBinaryBytes: limit("maxBinaryBytes", options.maxBinaryBytes, Infinity),
      maxArrayItems: limit("maxArrayItems", options.maxArrayItems, Infinity),
      maxMapEntries: limit("maxMapEntries", options.maxMapEntries, Infinity),
      extensions: new Map(checkExtensions(options.extensions).map((extension) => [extension.type, extension])),
      learnShapes: options.learnShapes ?? true,
      generate: options.generate ?? "auto",
    };
    refuseUnknown(options, settings);
    this.reader = new Reader(settings);
  }

  /**
   * Decodes the one value in `input`: a view (exactly its bytes), an `ArrayBuffer` or a `SharedArrayBuffer`.
   *
   * @throws MsgpackError every code except those of encoding; `trailing_bytes` if more bytes follow; `invalid_argument`
   */
  decode(input: Bytes): unknown {
    return read(this.idle(), viewOf(input), 0, true);
  }

  /** Decodes the value at `offset` (default 0). Returns it with its size, and ignores the bytes that follow. */
  decodeFirst(input: Bytes, offset = 0): Decoded {
    const view = viewOf(input);
    checkOffset(offset, view.byteLength, "the input");
    const reader = this.idle();
    const value = read(reader, view, offset, false);
    return { value, bytesConsumed: reader.at - reader.start - offset };
  }

  /**
   * Iterates over the consecutive values of `input`. Throws `truncated` if the last one is incomplete. Do not modify `input` until
   * the iteration ends.
   */
  *decodeMany(input: Bytes): Generator<unknown, void, undefined> {
    const bytes = bytesOf(input);
    for (let at = 0; at < bytes.length; ) {
      const { value, bytesConsumed } = this.decodeFirst(bytes, at);
      at += bytesConsumed;
      yield value;
    }
  }

  /** Returns a reader that is not in use, because an extension may decode with this decoder. */
  private idle(): Reader {
    return this.reader.busy ? new Decoder({ ...this.options, learnShapes: false }).reader : this.reader;
  }
}
