import { MsgpackError, type MsgpackErrorCode } from "./error.js";
import { type Extension, ExtensionValue, Timestamp } from "./extension.js";
import { isUtf8, latin1Slice, utf8Slice } from "./platform.js";
import { KeyCache } from "./key-cache.js";
import { FIRST_KEY_MASKS, ReadShapes } from "./read-shapes.js";

/** Views of the last input's memory are kept while it is no larger than this. */
const KEPT_BYTES = 1024 * 1024;
/** Short strings are cut from longer ones, which they keep alive: the first of a message is small, none is large. */
const FIRST_WINDOW_BYTES = 256;
const LAST_WINDOW_BYTES = 2048;
/** Up to this length a string is made from its characters, or cut from the window. */
const SHORT_TEXT_BYTES = 8;
const WINDOW_TEXT_BYTES = 256;
/** The latest moment of a `Date`, in milliseconds. */
const MAX_DATE_MS = 8.64e15;

const NOTHING = new Uint8Array(0);

export interface ReaderOptions {
  readonly int64: "safe" | "bigint" | "number";
  readonly asMap: boolean;
  readonly copyBinary: boolean;
  readonly strictUtf8: boolean;
  readonly timestamps: "date" | "exact";
  readonly maxDepth: number;
  readonly maxBytes: number;
  readonly maxStringBytes: number;
  readonly maxBinaryBytes: number;
  readonly maxArrayItems: number;
  readonly maxMapEntries: number;
  readonly extensions: ReadonlyMap<number, Extension>;
}

/**
 * Reads values at `position`, which counts from the start of the memory that the input lies in, not of the input.
 * `depth` counts the containers around a value.
 */
export class Reader {
  bytes: Uint8Array = NOTHING;
  view: DataView = new DataView(NOTHING.buffer);
  position = 0;
  /** Where the input ends. The memory may go on. */
  end = 0;
  busy = false;

  private start = 0;
  private memory: ArrayBufferLike = NOTHING.buffer;
  /** Items that the arrays being read have announced and that are not read yet: each takes a byte at least. */
  private owed = 0;
  private window = "";
  private windowStart = 0;
  private windowEnd = 0;
  private windowBytes = FIRST_WINDOW_BYTES;
  private readonly keys = new KeyCache();

  constructor(
    private readonly options: ReaderOptions,
    private readonly shapes: ReadShapes,
  ) {}

  /** Points at `input`, from `offset` on. */
  begin(input: Uint8Array, offset: number): void {
    const memory = input.buffer;
    if (memory !== this.memory) {
      this.memory = memory;
      this.bytes = new Uint8Array(memory);
      this.view = new DataView(memory);
    }
    this.start = input.byteOffset;
    this.end = this.start + input.length;
    this.position = this.start + offset;
    this.windowBytes = FIRST_WINDOW_BYTES;
  }

  /** Lets go of the input if it is large. */
  release(): void {
    this.windowEnd = 0;
    this.window = "";
    if (this.bytes.length > KEPT_BYTES) {
      this.memory = NOTHING.buffer;
      this.bytes = NOTHING;
    }
  }

  /** Bytes from the start of the input to `position`. */
  get offset(): number {
    return this.position - this.start;
  }

  /** Reads one value, whole. */
  message(): unknown {
    this.owed = 0;
    const { maxBytes } = this.options;
    const begin = this.position;
    const { end } = this;
    if (end - begin <= maxBytes) return this.value(0);
    // The message may be shorter than what is there: it must not look beyond its limit.
    this.end = begin + maxBytes;
    try {
      return this.value(0);
    } catch (error) {
      if (error instanceof MsgpackError && error.code === "truncated") {
        this.fail("limit_total", this.end, `the message is above ${maxBytes} bytes`);
      }
      throw error;
    } finally {
      this.end = end;
    }
  }

  value(depth: number): unknown {
    const p = this.position;
    if (p >= this.end) this.truncated(p);
    const t = this.bytes[p]!;
    this.position = p + 1;
    if (t < 0x80) return t;
    if (t >= 0xe0) return t - 0x100;
    if (t < 0x90) return this.map(t & 15, depth + 1);
    if (t < 0xa0) return this.array(t & 15, depth + 1);
    if (t < 0xc0) return this.text(p + 1, t & 31);
    return this.tagged(t, p + 1, depth);
  }

  private tagged(t: number, p: number, depth: number): unknown {
    switch (t) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.binary(this.length(t - 0xc4));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return this.extension(this.length(t - 0xc7));
      case 0xca:
        this.need(4);
        return this.view.getFloat32(p);
      case 0xcb:
        this.need(8);
        return this.view.getFloat64(p);
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.length(t - 0xcc);
      case 0xcf:
      case 0xd3:
        this.need(8);
        return this.int64(t === 0xd3, p);
      case 0xd0:
        this.need(1);
        return this.view.getInt8(p);
      case 0xd1:
        this.need(2);
        return this.view.getInt16(p);
      case 0xd2:
        this.need(4);
        return this.view.getInt32(p);
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.extension(1 << (t - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb: {
        const n = this.length(t - 0xd9);
        return this.text(this.position, n);
      }
      case 0xdc:
      case 0xdd:
        return this.array(this.length(t - 0xdb), depth + 1);
      case 0xde:
      case 0xdf:
        return this.map(this.length(t - 0xdd), depth + 1);
      default:
        return this.fail("invalid_format", p - 1, "the byte 0xc1 is never used");
    }
  }

  /** An unsigned integer of 1, 2 or 4 bytes, for `size` 0, 1 or 2. */
  private length(size: number): number {
    const p = this.position;
    this.need(1 << size);
    return size === 0 ? this.bytes[p]! : size === 1 ? this.view.getUint16(p) : this.view.getUint32(p);
  }

  private int64(signed: boolean, p: number): number | bigint {
    const { int64 } = this.options;
    if (int64 !== "bigint") {
      const n = (signed ? this.view.getInt32(p) : this.view.getUint32(p)) * 0x100000000 + this.view.getUint32(p + 4);
      if (int64 === "number" || Number.isSafeInteger(n)) return n;
    }
    return signed ? this.view.getBigInt64(p) : this.view.getBigUint64(p);
  }

  /** The string of `n` bytes at `a`, which becomes what was read last. */
  text(a: number, n: number): string {
    const b = a + n;
    if (n > this.options.maxStringBytes) this.tooLong("string", n);
    if (b > this.end) this.truncated(a);
    this.position = b;
    const u = this.bytes;
    const from = String.fromCharCode;
    if (n <= SHORT_TEXT_BYTES) {
      if (n < 4) {
        if (n === 0) return "";
        const c0 = u[a]!;
        if (n === 1) {
          if (c0 < 0x80) return from(c0);
        } else if (n === 2) {
          const c1 = u[a + 1]!;
          if ((c0 | c1) < 0x80) return from(c0, c1);
        } else {
          const c1 = u[a + 1]!;
          const c2 = u[a + 2]!;
          if ((c0 | c1 | c2) < 0x80) return from(c0, c1, c2);
        }
        return this.unicode(a, b);
      }
      const d = this.view;
      const w = d.getInt32(a);
      const x = d.getInt32(b - 4);
      if (((w | x) & 0x80808080) !== 0) return this.unicode(a, b);
      if (n === 4) return from(w >> 24, (w >> 16) & 255, (w >> 8) & 255, w & 255);
      if (b <= this.windowEnd && a >= this.windowStart) return this.window.substring(a - this.windowStart, b - this.windowStart);
      const c3 = w & 255;
      if (n === 5) return from(w >> 24, (w >> 16) & 255, (w >> 8) & 255, c3, x & 255);
      if (n === 6) return from(w >> 24, (w >> 16) & 255, (w >> 8) & 255, c3, (x >> 8) & 255, x & 255);
      if (n === 7) return from(w >> 24, (w >> 16) & 255, (w >> 8) & 255, c3, (x >> 16) & 255, (x >> 8) & 255, x & 255);
      return from(w >> 24, (w >> 16) & 255, (w >> 8) & 255, c3, x >> 24, (x >> 16) & 255, (x >> 8) & 255, x & 255);
    }
    if (n > WINDOW_TEXT_BYTES || latin1Slice === undefined) return this.unicode(a, b);
    const d = this.view;
    let p = a;
    for (; p <= b - 4; p += 4) if ((d.getInt32(p) & 0x80808080) !== 0) return this.unicode(a, b);
    if ((d.getInt32(b - 4) & 0x80808080) !== 0) return this.unicode(a, b);
    if (b > this.windowEnd || a < this.windowStart) {
      this.windowStart = a;
      this.windowEnd = Math.min(a + this.windowBytes, this.end);
      if (this.windowBytes < LAST_WINDOW_BYTES) this.windowBytes *= 2;
      this.window = latin1Slice(u, a, this.windowEnd);
    }
    return this.window.substring(a - this.windowStart, b - this.windowStart);
  }

  private unicode(a: number, b: number): string {
    const s = utf8Slice(this.bytes, a, b);
    // Only a string with U+FFFD in it can have been ill-formed.
    if (this.options.strictUtf8 && s.includes("\ufffd") && !isUtf8(this.bytes, a, b)) {
      this.fail("invalid_utf8", a, "the string is not UTF-8");
    }
    return s;
  }

  private array(n: number, depth: number): unknown[] {
    const { end, bytes: u, view: d } = this;
    let p = this.position;
    if (depth > this.options.maxDepth) this.tooDeep();
    if (n > this.options.maxArrayItems) this.tooLong("array", n);
    if (n + this.owed > end - p) this.truncated(p);
    if (n === 0) return [];
    const { owed } = this;
    // Two places that make arrays: engines learn that one of them holds floats.
    const a = u[p] === 0xcb ? new Array<unknown>(n) : new Array<unknown>(n);
    for (let i = 0; i < n; i++) {
      // Past the end, `value` says what is wrong.
      const t = p < end ? u[p]! : 0xc1;
      if (t < 0x80) {
        a[i] = t;
        p++;
      } else if (t === 0xcb && p + 9 <= end) {
        a[i] = d.getFloat64(p + 1);
        p += 9;
      } else if (t === 0xcd && p + 3 <= end) {
        a[i] = d.getUint16(p + 1);
        p += 3;
      } else {
        this.position = p;
        this.owed = owed + n - i - 1;
        a[i] = this.value(depth);
        p = this.position;
      }
    }
    this.owed = owed;
    this.position = p;
    return a;
  }

  private map(n: number, depth: number): unknown {
    if (depth > this.options.maxDepth) this.tooDeep();
    if (n > this.options.maxMapEntries) this.tooLong("map", n);
    const p = this.position;
    if (n * 2 > this.end - p) this.truncated(p);
    if (this.options.asMap) return this.realMap(n, depth);
    if (n === 0) return {};
    const tag = this.bytes[p]!;
    if (p + 4 > this.end || (tag & 0xe0) !== 0xa0) return this.entries({}, n, depth);
    const first = this.view.getInt32(p, true) & FIRST_KEY_MASKS[tag & 31]!;
    const shape = this.shapes.find(first, n);
    if (shape !== null) return shape.read(this, p, depth);
    const o = this.entries({}, n, depth);
    this.shapes.learn(first, n, o);
    return o;
  }

  /** Reads `n` more entries into `o`. */
  entries(o: Record<string, unknown>, n: number, depth: number): Record<string, unknown> {
    for (let i = 0; i < n; i++) {
      const k = this.key();
      const v = this.value(depth);
      if (k === "__proto__") define(o, k, v);
      else o[k] = v;
    }
    return o;
  }

  /** Goes on without a shape: the first `values.length` of its names have been seen, and what follows differs. */
  resume(keys: readonly string[], values: readonly unknown[], p: number, depth: number): Record<string, unknown> {
    const o: Record<string, unknown> = {};
    for (let i = 0; i < values.length; i++) o[keys[i]!] = values[i];
    this.position = p;
    this.shapes.missed();
    return this.entries(o, keys.length - values.length, depth);
  }

  private realMap(n: number, depth: number): Map<unknown, unknown> {
    const map = new Map<unknown, unknown>();
    for (let i = 0; i < n; i++) {
      const k = this.value(depth);
      map.set(k, this.value(depth));
    }
    return map;
  }

  private key(): string {
    const p = this.position;
    if (p >= this.end) this.truncated(p);
    const t = this.bytes[p]!;
    if (t >= 0xa0 && t < 0xc0) {
      const n = t & 31;
      const b = p + 1 + n;
      if (b <= this.end && n <= this.options.maxStringBytes) {
        const known = this.keys.find(this.bytes, p + 1, n);
        if (known !== undefined) {
          this.position = b;
          return known;
        }
      }
      const k = this.text(p + 1, n);
      this.keys.add(k);
      return k;
    }
    // Strings and numbers can name a property; true, nil and what has a structure cannot.
    if (t < 0x80 || t >= 0xe0 || (t >= 0xca && t <= 0xd3) || (t >= 0xd9 && t <= 0xdb)) return String(this.value(0));
    if (t === 0xc1) this.value(0);
    return this.fail("invalid_key", p, 'a map key that is neither a string nor a number (see maps: "map")');
  }

  private binary(n: number): Uint8Array {
    const p = this.position;
    if (n > this.options.maxBinaryBytes) this.tooLong("binary", n);
    this.need(n);
    const data = new Uint8Array(this.memory, p, n);
    return this.options.copyBinary ? data.slice() : data;
  }

  private extension(n: number): unknown {
    const p = this.position;
    this.need(1);
    const type = this.view.getInt8(p);
    const extension = this.options.extensions.get(type);
    if (n > this.options.maxBinaryBytes) this.tooLong("extension", n);
    this.need(n);
    if (type === -1 && extension === undefined) return this.timestamp(p + 1, n);
    const view = new Uint8Array(this.memory, p + 1, n);
    const data = this.options.copyBinary ? view.slice() : view;
    return extension === undefined ? new ExtensionValue(type, data) : extension.decode(data);
  }

  private timestamp(p: number, n: number): Date | Timestamp {
    const d = this.view;
    let seconds = 0n;
    let nanoseconds = 0;
    if (n === 4) {
      seconds = BigInt(d.getUint32(p));
    } else if (n === 8) {
      nanoseconds = d.getUint32(p) >>> 2;
      seconds = d.getBigUint64(p) & 0x3_ffff_ffffn;
    } else if (n === 12) {
      nanoseconds = d.getUint32(p);
      seconds = d.getBigInt64(p + 4);
    } else {
      this.fail("invalid_timestamp", p, "a timestamp has 4, 8 or 12 bytes");
    }
    if (nanoseconds >= 1e9) this.fail("invalid_timestamp", p, "a timestamp with a second or more of nanoseconds");
    if (this.options.timestamps === "exact") return new Timestamp(seconds, nanoseconds);
    const ms = Number(seconds) * 1000 + Math.floor(nanoseconds / 1e6);
    if (Math.abs(ms) > MAX_DATE_MS) this.fail("invalid_timestamp", p, 'a timestamp past what a Date holds (see timestamps: "exact")');
    return new Date(ms);
  }

  /** Takes `n` bytes. */
  private need(n: number): void {
    const p = this.position;
    if (p + n > this.end) this.truncated(p);
    this.position = p + n;
  }

  private truncated(p: number): never {
    return this.fail("truncated", p, "the input ends before the value does");
  }

  private tooDeep(): never {
    return this.fail("limit_depth", this.position, `nested deeper than ${this.options.maxDepth}`);
  }

  private tooLong(what: string, n: number): never {
    return this.fail("limit_length", this.position, `a length of ${n} is above the limit for this ${what}`);
  }

  fail(code: MsgpackErrorCode, p: number, message: string): never {
    throw new MsgpackError(code, p - this.start, message);
  }
}

/** Sets an own property, whatever the name would mean to an assignment. */
function define(o: object, key: string, value: unknown): void {
  Object.defineProperty(o, key, { value, configurable: true, enumerable: true, writable: true });
}
