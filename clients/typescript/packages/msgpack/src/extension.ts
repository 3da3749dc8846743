import { invalidArgument } from "./error.js";
import { isExtensionType, isUint8Array } from "./input.js";

/** An extension value without a registered {@link Extension}: its type (−128…127) and its bytes. */
export class ExtensionValue {
  readonly type: number;
  readonly data: Uint8Array;

  /** @throws MsgpackError `invalid_argument` */
  constructor(type: number, data: Uint8Array) {
    if (!isExtensionType(type)) invalidArgument("an extension type is an integer from -128 to 127");
    if (!isUint8Array(data)) invalidArgument("the data of an extension are a Uint8Array");
    this.type = type;
    this.data = data;
  }
}

/** A time with nanoseconds: the exact value of the timestamp extension (type −1). */
export class Timestamp {
  /** Whole seconds since 1970-01-01T00:00:00Z, a signed 64-bit integer. */
  readonly seconds: bigint;
  /** 0…999,999,999, added to `seconds`, also before 1970. */
  readonly nanoseconds: number;

  /** @throws MsgpackError `invalid_argument` */
  constructor(seconds: bigint, nanoseconds: number) {
    if (typeof seconds !== "bigint" || BigInt.asIntN(64, seconds) !== seconds) invalidArgument("the seconds are a bigint of 64 bits");
    if (!(nanoseconds >= 0 && nanoseconds < 1e9) || nanoseconds % 1 !== 0) invalidArgument("the nanoseconds are an integer from 0 to 999999999");
    this.seconds = seconds;
    this.nanoseconds = nanoseconds;
  }
}

/** Encodes and decodes a custom type. */
export interface Extension<T extends object = object> {
  /** −128…127; types below 0 are reserved by the format. −1 replaces the handling of timestamps. */
  readonly type: number;
  /** Instances of this class (and of its subclasses) are encoded with this extension. */
  readonly class: abstract new (...args: never[]) => T;
  /** Returns the bytes to store. It may use any encoder, also the one that is calling. */
  encode(value: T): Uint8Array;
  /** Returns the value. `data` is a view of the input: copy it if you keep it. */
  decode(data: Uint8Array): unknown;
}
