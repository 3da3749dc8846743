/** A payload, or a value to be sent, that is not what its contract says. */
export class PayloadError extends Error {
  /** The way to the field, such as `readings[2].unit`; empty for the payload itself. */
  path = "";
  /** The byte of the payload; -1 where that is not known. */
  readonly offset: number;
  private readonly what: string;

  constructor(what: string, offset = -1) {
    super(what);
    this.name = "PayloadError";
    this.what = what;
    this.offset = offset;
    this.explain();
  }

  /** The same, found inside a field or an item. */
  inside(step: string | number): this {
    const name = typeof step === "number" ? `[${step}]` : step;
    this.path = this.path === "" || this.path.startsWith("[") ? name + this.path : `${name}.${this.path}`;
    this.explain();
    return this;
  }

  private explain(): void {
    const place = this.path === "" ? "" : `${this.path}: `;
    this.message = `${place}${this.what}${this.offset < 0 ? "" : ` at byte ${this.offset}`}`;
  }
}

/** A moment: seconds since 1970-01-01T00:00:00Z, and 0 to 999,999,999 nanoseconds after them. */
export interface Timestamp {
  seconds: bigint;
  nanos: number;
}

/** A span of time; both numbers have the same sign. */
export interface Duration {
  seconds: bigint;
  nanos: number;
}

/** The moment of a date. */
export function timestampOf(date: Date): Timestamp {
  const milliseconds = date.getTime();
  const seconds = Math.floor(milliseconds / 1000);
  return { seconds: BigInt(seconds), nanos: (milliseconds - seconds * 1000) * 1_000_000 };
}

/** The date of a moment, without what is less than a millisecond. */
export function dateOf(timestamp: Timestamp): Date {
  return new Date(Number(timestamp.seconds) * 1000 + Math.floor(timestamp.nanos / 1_000_000));
}

/** Values that are nested deeper than this are refused. */
export const DEPTH_MAX = 100;
