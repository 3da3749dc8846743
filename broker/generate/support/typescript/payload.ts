/** A payload or value that does not match its contract. */
export class PayloadError extends Error {
  /** The path of the field, such as `readings[2].unit`; empty for the payload itself. */
  path = "";
  /** The offset in the payload in bytes; -1 if unknown. */
  readonly offset: number;
  private readonly what: string;

  constructor(what: string, offset = -1) {
    super(what);
    this.name = "PayloadError";
    this.what = what;
    this.offset = offset;
    this.explain();
  }

  /** Adds a field or an item in front of the path. */
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

/** A timestamp: seconds since 1970-01-01T00:00:00Z, and 0 to 999,999,999 nanoseconds. */
export interface Timestamp {
  seconds: bigint;
  nanos: number;
}

/** A duration; both numbers have the same sign. */
export interface Duration {
  seconds: bigint;
  nanos: number;
}

/** Converts a Date. */
export function timestampOf(date: Date): Timestamp {
  const milliseconds = date.getTime();
  const seconds = Math.floor(milliseconds / 1000);
  return { seconds: BigInt(seconds), nanos: (milliseconds - seconds * 1000) * 1_000_000 };
}

/** The Date of a timestamp, truncated to milliseconds. */
export function dateOf(timestamp: Timestamp): Date {
  return new Date(Number(timestamp.seconds) * 1000 + Math.floor(timestamp.nanos / 1_000_000));
}

/** Maximum nesting of values. */
export const DEPTH_MAX = 100;
