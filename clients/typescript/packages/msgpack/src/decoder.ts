import type { Extension } from "./extension.js";
import { type Bytes, bytesOf, checkExtensions, checkOffset, limit, viewOf } from "./input.js";
import { read, Reader } from "./reader.js";

export interface DecoderOptions {
  /**
   * What int64 and uint64 become: `"safe"` (the default) a number up to ±(2^53−1) and a bigint beyond; `"bigint"` always a
   * bigint; `"number"` always a number, rounded where need be. Shorter integers are numbers.
   */
  readonly int64?: "safe" | "bigint" | "number" | undefined;
  /**
   * What maps become: `"object"` (the default) plain objects, whose keys must be strings or numbers; `"map"` a `Map` with
   * keys of any type. In both, a key that comes again replaces the value. `__proto__` is a property like any other.
   */
  readonly maps?: "object" | "map" | undefined;
  /** `"view"` (the default) gives bin and ext data as views of the input, `"copy"` as memory of their own. */
  readonly binary?: "view" | "copy" | undefined;
  /** Whether a string that is not UTF-8 is refused (`invalid_utf8`) instead of read with U+FFFD. Default false. */
  readonly strictUtf8?: boolean | undefined;
  /** `"date"` (the default) gives a `Date`, which drops below the millisecond; `"exact"` gives a `Timestamp`. */
  readonly timestamps?: "date" | "exact" | undefined;
  /** Containers within containers. Default 256. Each takes some of the engine's stack. */
  readonly maxDepth?: number | undefined;
  /** Bytes of one message. Default 1 GiB. */
  readonly maxBytes?: number | undefined;
  /** Bytes of one string. Default: as `maxBytes` allows. */
  readonly maxStringBytes?: number | undefined;
  /** Bytes of one bin or ext. Default: as `maxBytes` allows. */
  readonly maxBinaryBytes?: number | undefined;
  /** Items of one array. Default: as `maxBytes` allows; an item takes a byte at least. */
  readonly maxArrayItems?: number | undefined;
  /** Entries of one map. Default: as `maxBytes` allows; an entry takes two bytes at least. */
  readonly maxMapEntries?: number | undefined;
  /** Types of yours. */
  readonly extensions?: readonly Extension[] | undefined;
  /** Whether to remember the shapes of maps. The values are the same. Default true. */
  readonly learnShapes?: boolean | undefined;
  /** Whether known shapes may become compiled functions; see the encoder's option of this name. Default `"auto"`. */
  readonly generate?: boolean | "auto" | undefined;
}

/** One value and how far it reached. */
export interface Decoded {
  readonly value: unknown;
  /** Bytes of the input that the value took. */
  readonly bytesConsumed: number;
}

/**
 * Turns MessagePack into values. Keep one instance: it learns the shapes of your maps. No length in the input is believed
 * before as many bytes are seen to be there, and nothing is allocated for what is not.
 */
export class Decoder {
  private readonly options: DecoderOptions;
  private readonly reader: Reader;

  /** @throws MsgpackError `invalid_options`: a limit that is no number from 0 (`Infinity` is one), or a wrong extension type */
  constructor(options: DecoderOptions = {}) {
    this.options = options;
    this.reader = new Reader({
      int64: options.int64 ?? "safe",
      asMap: options.maps === "map",
      copyBinary: options.binary === "copy",
      strictUtf8: options.strictUtf8 ?? false,
      exact: options.timestamps === "exact",
      maxDepth: limit("maxDepth", options.maxDepth, 256),
      maxBytes: limit("maxBytes", options.maxBytes, 2 ** 30),
      maxStringBytes: limit("maxStringBytes", options.maxStringBytes, Infinity),
      maxBinaryBytes: limit("maxBinaryBytes", options.maxBinaryBytes, Infinity),
      maxArrayItems: limit("maxArrayItems", options.maxArrayItems, Infinity),
      maxMapEntries: limit("maxMapEntries", options.maxMapEntries, Infinity),
      extensions: new Map(checkExtensions(options.extensions).map((extension) => [extension.type, extension])),
      learn: options.learnShapes ?? true,
      generate: options.generate ?? "auto",
    });
  }

  /**
   * The one value that `input` holds: a view of memory (as exactly the bytes it shows), an `ArrayBuffer` or a
   * `SharedArrayBuffer`.
   *
   * @throws MsgpackError every code but those of encoding; `trailing_bytes` when more follows; `invalid_argument`
   */
  decode(input: Bytes): unknown {
    return read(this.idle(), viewOf(input), 0, true);
  }

  /** The value at `offset` (default 0) and how many bytes it took, whatever follows. */
  decodeFirst(input: Bytes, offset = 0): Decoded {
    const view = viewOf(input);
    checkOffset(offset, view.byteLength, "the input");
    const reader = this.idle();
    const value = read(reader, view, offset, false);
    return { value, bytesConsumed: reader.at - reader.start - offset };
  }

  /**
   * Every value of `input`, one after the other; throws `truncated` where the last one ends early. Leave `input` unchanged
   * until you have them all.
   */
  *decodeMany(input: Bytes): Generator<unknown, void, undefined> {
    const bytes = bytesOf(input);
    for (let at = 0; at < bytes.length; ) {
      const { value, bytesConsumed } = this.decodeFirst(bytes, at);
      at += bytesConsumed;
      yield value;
    }
  }

  /** A reader that is not in the middle of a message: extensions may decode with this very decoder. */
  private idle(): Reader {
    return this.reader.busy ? new Decoder({ ...this.options, learnShapes: false }).reader : this.reader;
  }
}
