/** An extension value that no registered {@link Extension} claims: its type (−128…127) and its bytes. */
export class ExtensionValue {
  readonly type: number;
  readonly data: Uint8Array;

  constructor(type: number, data: Uint8Array) {
    if (type !== type << 24 >> 24) throw new RangeError("an extension type is an integer from -128 to 127");
    this.type = type;
    this.data = data;
  }
}

/** A moment with nanoseconds: what the timestamp extension (type −1) holds, exactly. */
export class Timestamp {
  /** Whole seconds since 1970-01-01T00:00:00Z, a signed 64-bit integer. */
  readonly seconds: bigint;
  /** 0…999,999,999, counted forwards from `seconds` also before 1970. */
  readonly nanoseconds: number;

  constructor(seconds: bigint, nanoseconds: number) {
    if (BigInt.asIntN(64, seconds) !== seconds || !(nanoseconds >= 0 && nanoseconds < 1e9) || nanoseconds % 1 !== 0) {
      throw new RangeError("a timestamp has 64-bit seconds and 0 to 999999999 nanoseconds");
    }
    this.seconds = seconds;
    this.nanoseconds = nanoseconds;
  }
}

/** Teaches an encoder and a decoder a type of yours. */
export interface Extension<T extends object = object> {
  /** −128…127; types below 0 are reserved by the format. Claiming −1 replaces the handling of timestamps. */
  readonly type: number;
  /** Instances of this class (and of its subclasses) are encoded with this extension. */
  readonly class: abstract new (...args: never[]) => T;
  /** The bytes to store. May use any encoder, also the one that is calling. */
  encode(value: T): Uint8Array;
  /** The value again. `data` is a view of the input: copy what must outlive it. */
  decode(data: Uint8Array): unknown;
}
