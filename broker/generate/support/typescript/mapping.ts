import { PayloadError, type Duration, type Timestamp } from "./payload.js";

// Readers take the values of JSON.parse or of the MessagePack decoder. All of them throw a
// PayloadError.

/** A timestamp in MessagePack. */
export class Moment {
  constructor(readonly time: Timestamp) {}
}

/** Reads one value. */
export type Read<T> = (value: unknown) => T;

function wrong(expected: string): PayloadError {
  return new PayloadError(`expected ${expected}`);
}

/** Fields and their values. */
export function object(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong("an object");
  return value as Readonly<Record<string, unknown>>;
}

function own(fields: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

/** The field, if present. */
export function field<T>(fields: Readonly<Record<string, unknown>>, name: string, read: Read<T>): T | undefined {
  const value = own(fields, name);
  if (value === undefined) return undefined;
  try {
    return read(value);
  } catch (error) {
    throw error instanceof PayloadError ? error.inside(name) : error;
  }
}

/** The field by either of its names, if present and not null. */
export function mapped<T>(
  fields: Readonly<Record<string, unknown>>,
  name: string,
  other: string,
  read: Read<T>,
): T | undefined {
  const found = Object.hasOwn(fields, name) ? name : other;
  return own(fields, found) === null ? undefined : field(fields, found, read);
}

/** The error for a missing field. */
export function missing(name: string): PayloadError {
  return wrong("a required value").inside(name);
}

export function orNull<T>(read: Read<T>): Read<T | null> {
  return (value) => (value === null ? null : read(value));
}

export function list<T>(read: Read<T>): Read<T[]> {
  return (value) => {
    if (!Array.isArray(value)) throw wrong("a list");
    return value.map((item: unknown, at) => {
      try {
        return read(item);
      } catch (error) {
        throw error instanceof PayloadError ? error.inside(at) : error;
      }
    });
  };
}

/** A map with keys of any type. `key` parses them. */
export function map<K, V>(key: (text: string) => K, read: Read<V>): Read<Map<K, V>> {
  return (value) => {
    const entries = new Map<K, V>();
    const fields = object(value);
    for (const name of Object.keys(fields)) entries.set(key(name), field(fields, name, read) as V);
    return entries;
  };
}

/** A map as a plain object. */
export function dictionary<T>(read: Read<T>): Read<Record<string, T>> {
  return (value) => {
    const fields = object(value);
    return Object.fromEntries(Object.keys(fields).map((name) => [name, field(fields, name, read) as T]));
  };
}

export function raw(value: unknown): unknown {
  return value;
}

export function string(value: unknown): string {
  if (typeof value !== "string") throw wrong("a string");
  return value;
}

export function bool(value: unknown): boolean {
  if (typeof value !== "boolean") throw wrong("a boolean");
  return value;
}

/** One of several strings. */
export function oneOf<T extends string>(texts: readonly T[]): Read<T> {
  return (value) => {
    const found = texts.find((text) => text === value);
    if (found === undefined) throw wrong(`one of ${texts.map((text) => JSON.stringify(text)).join(", ")}`);
    return found;
  };
}

/** A value of an enumeration, by name or by number. */
export function enumeration(values: Readonly<Record<string, number>>): Read<number> {
  return (value) => {
    if (typeof value !== "string") return int32(value);
    const number = Object.hasOwn(values, value) ? values[value] : undefined;
    if (number === undefined) throw wrong("a name of the enumeration");
    return number;
  };
}

/** An integer that JavaScript can represent exactly. */
export function integer(value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value)) throw wrong("an integer from -(2^53-1) to 2^53-1");
  return value;
}

export function int32(value: unknown): number {
  return Number(whole(value, -(2n ** 31n), 2n ** 31n - 1n));
}

export function uint32(value: unknown): number {
  return Number(whole(value, 0n, 2n ** 32n - 1n));
}

export function int64(value: unknown): bigint {
  return whole(value, -(2n ** 63n), 2n ** 63n - 1n);
}

export function uint64(value: unknown): bigint {
  return whole(value, 0n, 2n ** 64n - 1n);
}

function whole(value: unknown, least: bigint, most: bigint): bigint {
  let number: bigint | undefined;
  if (typeof value === "bigint") number = value;
  else if (typeof value === "number" && Number.isInteger(value)) number = BigInt(value);
  else if (typeof value === "string" && /^-?(0|[1-9]\d{0,19})$/.test(value)) number = BigInt(value);
  if (number === undefined || number < least || number > most) throw wrong(`an integer from ${least} to ${most}`);
  return number;
}

export function double(value: unknown): number {
  if (typeof value === "number") return value;
  if (typeof value === "bigint") return Number(value);
  if (value === "NaN" || value === "Infinity" || value === "-Infinity") return Number(value);
  if (typeof value === "string" && /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(value)) return Number(value);
  throw wrong("a number");
}

export function float(value: unknown): number {
  return Math.fround(double(value));
}

export function bytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value.slice();
  if (typeof value !== "string" || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(value)) throw wrong("bytes");
  try {
    const text = atob(value.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(text, (character) => character.charCodeAt(0));
  } catch {
    throw wrong("bytes in base64");
  }
}

export function timestamp(value: unknown): Timestamp {
  if (value instanceof Moment) return value.time;
  const parts =
    typeof value === "string"
      ? /^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/.exec(value)
      : null;
  const milliseconds = parts === null ? NaN : Date.parse(`${parts[1]}T${parts[2]}${(parts[4] ?? "").toUpperCase()}`);
  if (parts === null || Number.isNaN(milliseconds)) throw wrong("an RFC 3339 timestamp");
  return { seconds: BigInt(milliseconds / 1000), nanos: Number((parts[3] ?? "").padEnd(9, "0")) };
}

export function duration(value: unknown): Duration {
  const parts = typeof value === "string" ? /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/.exec(value) : null;
  if (parts === null) throw wrong("seconds with the suffix s, such as 1.5s");
  const sign = parts[1] === "-" ? -1 : 1;
  const nanos = Number((parts[3] ?? "").padEnd(9, "0"));
  return { seconds: BigInt(sign) * BigInt(parts[2] ?? "0"), nanos: nanos === 0 ? 0 : sign * nanos };
}

/** Keys of maps are strings. */
export function boolKey(text: string): boolean {
  if (text !== "true" && text !== "false") throw wrong('"true" or "false" as the key');
  return text === "true";
}

// Conversion to plain values. `isText`: for JSON, which has no bytes, timestamps and 64-bit
// numbers.

export function fromDouble(value: number, isText: boolean): unknown {
  return isText && !Number.isFinite(value) ? String(value) : value;
}

/** The shortest form of a 32-bit number. */
export function fromFloat(value: number, isText: boolean): unknown {
  const single = Math.fround(value);
  if (!isText) return single;
  if (!Number.isFinite(single)) return String(single);
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(single.toPrecision(digits));
    if (Math.fround(short) === single) return short;
  }
  return single;
}

export function fromWide(value: bigint, isText: boolean): unknown {
  if (isText) return String(value);
  return BigInt.asIntN(53, value) === value ? Number(value) : value;
}

export function fromBytes(value: Uint8Array, isText: boolean): unknown {
  if (!isText) return value;
  let text = "";
  for (const byte of value) text += String.fromCharCode(byte);
  return btoa(text);
}

export function fromEnumeration(value: number, names: ReadonlyMap<number, string>): unknown {
  return names.get(value) ?? value;
}

export function fromTimestamp(value: Timestamp, isText: boolean): unknown {
  if (!isText) return new Moment(value);
  const date = new Date(Number(value.seconds) * 1000).toISOString();
  return `${date.slice(0, 19)}${fraction(value.nanos)}Z`;
}

export function fromDuration(value: Duration): unknown {
  const isNegative = value.seconds < 0n || value.nanos < 0;
  const seconds = value.seconds < 0n ? -value.seconds : value.seconds;
  return `${isNegative ? "-" : ""}${seconds}${fraction(Math.abs(value.nanos))}s`;
}

export function fromList<T>(values: readonly T[], from: (value: T) => unknown): unknown {
  return values.map((value) => from(value));
}

export function fromMap<K, V>(values: ReadonlyMap<K, V>, from: (value: V) => unknown): unknown {
  return Object.fromEntries(Array.from(values, ([key, value]) => [String(key), from(value)]));
}

/** Three, six or nine digits, the fewest that are enough. */
function fraction(nanos: number): string {
  if (nanos === 0) return "";
  const digits = String(nanos).padStart(9, "0");
  return `.${digits.replace(/(000){1,2}$/, "")}`;
}
