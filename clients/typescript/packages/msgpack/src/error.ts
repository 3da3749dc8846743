/**
* The codes of errors, stable across versions.
 *
 * | code | meaning |
 * |---|---|
 * | `truncated` | the input ends before the value does |
* | `trailing_bytes` | bytes follow the value; `offset` is their start |
 * | `invalid_format` | the byte 0xc1, which the format never uses |
 * | `invalid_utf8` | a string is not UTF-8 (with `strictUtf8`) |
 * | `invalid_key` | a map key that cannot name a property (with `maps: "object"`) |
* | `invalid_timestamp` | a timestamp of wrong length, with 10^9 nanoseconds or more, or outside the range of a `Date` |
 * | `limit_depth` | containers nested deeper than `maxDepth`, or a cycle |
 * | `limit_length` | a string, binary, extension, array or map above its limit |
 * | `limit_total` | the whole message is above `maxBytes` |
* | `out_of_range` | a value that the format cannot represent, such as a bigint over 64 bits or an invalid `Date` |
 * | `no_room` | the target of `encodeInto` is too small |
 * | `invalid_extension` | the `encode` of an extension returned something that is not a `Uint8Array` |
* | `invalid_argument` | an invalid argument, such as a string as the input of `decode` |
* | `invalid_options` | an invalid option, such as `maxDepth: NaN` |
 */
export type MsgpackErrorCode =
  | "truncated"
  | "trailing_bytes"
  | "invalid_format"
  | "invalid_utf8"
  | "invalid_key"
  | "invalid_timestamp"
  | "limit_depth"
  | "limit_length"
  | "limit_total"
  | "out_of_range"
  | "no_room"
  | "invalid_extension"
  | "invalid_argument"
  | "invalid_options";

/** The error class of this package. The message never contains data from the input. */
export class MsgpackError extends Error {
  override readonly name = "MsgpackError";
  readonly code: MsgpackErrorCode;
  /** Bytes from the start of the input (decoding) or of the output (encoding); 0 for arguments and options. */
  readonly offset: number;

  constructor(code: MsgpackErrorCode, offset: number, text: string, detail = `at byte ${offset}`) {
    super(`${text} (${detail}) [${code}]`);
    this.code = code;
    this.offset = offset;
  }
}

export function invalidArgument(detail: string): never {
  throw new MsgpackError("invalid_argument", 0, "an argument is wrong: correct the call", detail);
}

export function invalidOption(detail: string): never {
  throw new MsgpackError("invalid_options", 0, "an option is wrong: correct it", detail);
}
