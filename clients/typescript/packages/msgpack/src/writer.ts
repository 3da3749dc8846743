import { MsgpackError } from "./error.js";
import { type Extension, ExtensionValue, Timestamp } from "./extension.js";
import { utf8Write } from "./platform.js";
import { WriteShapes } from "./write-shapes.js";

/** Small results share blocks of this size. */
const BLOCK_BYTES = 8 * 1024;
/** A message starts in a block only while this much is left of it. */
const BLOCK_LEFT_BYTES = 1024;
/** The working memory for large messages is kept for the next one up to this size. */
const KEPT_BYTES = 1024 * 1024;
/** Up to this length a loop over the characters beats a call into the platform. */
const SHORT_TEXT = 32;

const NOTHING = new Uint8Array(0);

export interface WriterOptions {
  readonly float32: boolean;
  readonly maxDepth: number;
  readonly maxBytes: number;
  readonly extensions: readonly Extension[];
}

/** A set of own properties, in order of their names. */
export type Properties = Record<string, unknown>;

/**
 * Writes values. Every method takes the position to write at and gives the one after what it wrote; `depth` counts the
 * containers around the value. Positions are relative to `bytes`; only `grow` changes `bytes`, and moves the message.
 */
export class Writer {
  bytes: Uint8Array = NOTHING;
  view: DataView = new DataView(NOTHING.buffer);
  /** Where the memory that may be written ends. */
  end = 0;
  /** Where the message begins. */
  origin = 0;
  busy = false;

  private block = NOTHING;
  private blockMemory = NOTHING.buffer;
  private blockView = this.view;
  private blockAt = 0;
  private large = NOTHING;
  private largeView = this.view;
  private target: ArrayBufferLike | undefined;
  private targetBytes: Uint8Array = NOTHING;
  private targetView: DataView = this.view;

  private readonly float32: boolean;
  private readonly maxDepth: number;

  constructor(
    private readonly options: WriterOptions,
    private readonly shapes: WriteShapes,
  ) {
    this.float32 = options.float32;
    this.maxDepth = options.maxDepth;
  }

  /** Encodes into memory of this writer and gives a view of it, never written again. */
  encode(value: unknown): Uint8Array {
    if (this.blockAt + BLOCK_LEFT_BYTES > this.block.length) {
      this.blockMemory = new ArrayBuffer(BLOCK_BYTES);
      this.block = new Uint8Array(this.blockMemory);
      this.blockView = new DataView(this.blockMemory);
      this.blockAt = 0;
    }
    this.bytes = this.block;
    this.view = this.blockView;
    this.end = this.block.length;
    this.origin = this.blockAt;
    const p = this.write(value);
    if (this.bytes === this.block) {
      this.blockAt = p;
      return new Uint8Array(this.blockMemory, this.origin, p - this.origin);
    }
    if (this.bytes.length <= KEPT_BYTES) return this.bytes.slice(0, p);
    return this.bytes.subarray(0, p);
  }

  /** Encodes to `target` at `offset` and gives the count of bytes; throws if it does not fit. */
  encodeInto(value: unknown, target: Uint8Array, offset: number): number {
    const room = target.length - offset;
    if (!(room >= 0 && offset >= 0)) throw new RangeError("the offset is outside of the target");
    if (this.target !== target.buffer) {
      this.target = target.buffer;
      this.targetBytes = new Uint8Array(target.buffer);
      this.targetView = new DataView(target.buffer);
    }
    this.bytes = this.targetBytes;
    this.view = this.targetView;
    this.origin = target.byteOffset + offset;
    this.end = this.origin + room;
    const p = this.write(value);
    const written = p - this.origin;
    if (this.bytes !== this.targetBytes) {
      // Room is asked for generously: what left the target may still fit.
      if (written > room) throw new MsgpackError("no_room", room, `the target has ${room} bytes, the value needs ${written}`);
      target.set(this.bytes.subarray(0, written), offset);
    }
    if (target.buffer.byteLength > KEPT_BYTES) this.target = undefined;
    return written;
  }

  private write(value: unknown): number {
    this.busy = true;
    try {
      const p = this.value(value, this.origin, 0);
      this.checkTotal(p - this.origin);
      return p;
    } finally {
      this.busy = false;
      if (this.large.length > KEPT_BYTES) this.large = NOTHING;
    }
  }

  value(v: unknown, p: number, depth: number): number {
    switch (typeof v) {
      case "string":
        return this.string(v, p);
      case "number":
        return this.number(v, p);
      case "object":
        if (v !== null) return this.object(v, p, depth);
        break;
      case "boolean":
        p = this.ensure(p, 1);
        this.bytes[p] = v ? 0xc3 : 0xc2;
        return p + 1;
      case "bigint":
        return this.bigint(v, p);
    }
    p = this.ensure(p, 1);
    this.bytes[p] = 0xc0;
    return p + 1;
  }

  number(v: number, p: number): number {
    if (p + 9 > this.end) p = this.grow(p, 9);
    const u = this.bytes;
    if ((v | 0) === v) {
      if (v > 0 ? v < 128 : v >= -32 && (v !== 0 || 1 / v > 0)) {
        u[p] = v;
        return p + 1;
      }
      if (v > 0) {
        if (v < 0x100) return this.tagged8(0xcc, v, p);
        if (v < 0x10000) return this.tagged16(0xcd, v, p);
        return this.tagged32(0xce, v, p);
      }
      if (v !== 0) {
        if (v >= -0x80) return this.tagged8(0xd0, v, p);
        if (v >= -0x8000) return this.tagged16(0xd1, v, p);
        return this.tagged32(0xd2, v, p);
      }
      // −0 is not an integer of the format: a float keeps its sign.
    } else if (Math.floor(v) === v && v <= Number.MAX_SAFE_INTEGER && v >= Number.MIN_SAFE_INTEGER) {
      if (v > 0 && v <= 0xffffffff) return this.tagged32(0xce, v, p);
      u[p] = v > 0 ? 0xcf : 0xd3;
      this.view.setInt32(p + 1, Math.floor(v / 0x100000000));
      this.view.setUint32(p + 5, v >>> 0);
      return p + 9;
    }
    if (v !== v) return this.nan(p);
    if (this.float32 && Math.fround(v) === v) {
      u[p] = 0xca;
      this.view.setFloat32(p + 1, v);
      return p + 5;
    }
    u[p] = 0xcb;
    this.view.setFloat64(p + 1, v);
    return p + 9;
  }

  string(s: string, p: number): number {
    const n = s.length;
    if (n >= SHORT_TEXT) return this.longString(s, n, p);
    if (p + 96 > this.end) p = this.grow(p, 96);
    const u = this.bytes;
    let q = p + 1;
    for (let i = 0; i < n; i++) {
      const c = s.charCodeAt(i);
      if (c > 0x7f) return this.shortUnicode(s, i, p, q);
      u[q++] = c;
    }
    u[p] = 0xa0 | n;
    return q;
  }

  /** The rest of a string of fewer than 32 characters, of which `i` are written and end at `q`. At most 93 bytes. */
  private shortUnicode(s: string, i: number, p: number, q: number): number {
    const u = this.bytes;
    for (; i < s.length; i++) {
      let c = s.charCodeAt(i);
      if (c < 0x80) {
        u[q++] = c;
        continue;
      }
      if (c < 0x800) {
        u[q++] = 0xc0 | (c >> 6);
      } else {
        if ((c & 0xf800) === 0xd800) {
          const low = s.charCodeAt(i + 1);
          if (c < 0xdc00 && (low & 0xfc00) === 0xdc00) {
            i++;
            c = ((c & 0x3ff) << 10) + (low & 0x3ff) + 0x10000;
            u[q++] = 0xf0 | (c >> 18);
            u[q++] = 0x80 | ((c >> 12) & 0x3f);
          } else {
            c = 0xfffd;
            u[q++] = 0xef;
          }
        } else {
          u[q++] = 0xe0 | (c >> 12);
        }
        u[q++] = 0x80 | ((c >> 6) & 0x3f);
      }
      u[q++] = 0x80 | (c & 0x3f);
    }
    const written = q - p - 1;
    if (written < 32) {
      u[p] = 0xa0 | written;
      return q;
    }
    u.copyWithin(p + 2, p + 1, q);
    u[p] = 0xd9;
    u[p + 1] = written;
    return q + 1;
  }

  private longString(s: string, n: number, p: number): number {
    // All ASCII is the guess; what is longer moves up.
    const guess = lengthHeader(n);
    p = this.ensure(p, n * 3 + 5);
    const written = utf8Write(this.bytes, s, p + guess, n * 3);
    const header = lengthHeader(written);
    if (header !== guess) this.bytes.copyWithin(p + header, p + guess, p + guess + written);
    return this.length(0xd9, written, p) + written;
  }

  /** A header of the 8, 16 or 32-bit family of `tag`; room for five bytes is there. */
  private length(tag: number, n: number, p: number): number {
    if (n < 0x100) return this.tagged8(tag, n, p);
    if (n < 0x10000) return this.tagged16(tag + 1, n, p);
    return this.tagged32(tag + 2, n, p);
  }

  private tagged8(tag: number, v: number, p: number): number {
    this.bytes[p] = tag;
    this.bytes[p + 1] = v;
    return p + 2;
  }

  private tagged16(tag: number, v: number, p: number): number {
    const u = this.bytes;
    u[p] = tag;
    u[p + 1] = v >> 8;
    u[p + 2] = v;
    return p + 3;
  }

  private tagged32(tag: number, v: number, p: number): number {
    this.bytes[p] = tag;
    this.view.setUint32(p + 1, v);
    return p + 5;
  }

  /** Every NaN is written alike, whatever bits the engine carries in it. */
  private nan(p: number): number {
    if (this.float32) {
      this.bytes[p] = 0xca;
      this.view.setUint32(p + 1, 0x7fc00000);
      return p + 5;
    }
    this.bytes[p] = 0xcb;
    this.view.setUint32(p + 1, 0x7ff80000);
    this.view.setUint32(p + 5, 0);
    return p + 9;
  }

  private bigint(v: bigint, p: number): number {
    p = this.ensure(p, 9);
    if (v < 0n ? BigInt.asIntN(64, v) !== v : BigInt.asUintN(64, v) !== v) {
      throw new MsgpackError("out_of_range", p - this.origin, "a bigint outside of -2^63 to 2^64-1");
    }
    this.bytes[p] = v < 0n ? 0xd3 : 0xcf;
    this.view.setBigInt64(p + 1, v);
    return p + 9;
  }

  object(v: object, p: number, depth: number): number {
    if (depth >= this.maxDepth) {
      throw new MsgpackError("limit_depth", p - this.origin, `nested deeper than ${this.maxDepth}, or a cycle`);
    }
    if (Array.isArray(v)) return this.array(v, p, depth + 1);
    // Nearly always plain. Asking for the prototype is slow here, and fast where the shape is known: it is left to there.
    if (v.constructor === Object) return this.map(v as Properties, p, depth + 1);
    return this.special(v, p, depth + 1);
  }

  private array(a: readonly unknown[], p: number, depth: number): number {
    const n = a.length;
    p = this.arrayHeader(n, p);
    for (let i = 0; i < n; i++) {
      const v = a[i];
      if (typeof v !== "number") {
        p = this.value(v, p, depth);
        continue;
      }
      if (p + 9 > this.end) p = this.grow(p, 9);
      const u = this.bytes;
      const i32 = v | 0;
      // The common numbers in place: a call would allocate every fraction.
      if (i32 === v && i32 !== 0) {
        if (i32 < 128 && i32 >= -32) {
          u[p++] = i32;
        } else if (i32 > 0 && i32 < 0x10000) {
          u[p] = i32 < 0x100 ? 0xcc : 0xcd;
          if (i32 >= 0x100) u[++p] = i32 >> 8;
          u[p + 1] = i32;
          p += 2;
        } else if (i32 > 0 || i32 < -0x8000) {
          u[p] = i32 > 0 ? 0xce : 0xd2;
          this.view.setInt32(p + 1, i32);
          p += 5;
        } else {
          p = this.number(i32, p);
        }
      } else if (!this.float32 && v !== Math.floor(v) && v === v) {
        u[p] = 0xcb;
        this.view.setFloat64(p + 1, v);
        p += 9;
      } else {
        p = this.number(v, p);
      }
    }
    return p;
  }

  private map(o: Properties, p: number, depth: number): number {
    const write = this.shapes.find(o);
    if (write !== null) return write(this, o, p, depth);
    if (!isPlain(o) || !this.shapes.clean) return this.special(o, p, depth);
    let n = 0;
    let custom = false;
    for (const k in o) {
      n++;
      if (k === "toJSON") custom = true;
    }
    if (custom && typeof o["toJSON"] === "function") return this.special(o, p, depth);
    const start = p - this.origin;
    p = this.mapHeader(n, p);
    let written = 0;
    for (const k in o) {
      const v = o[k];
      if (isAbsent(v)) continue;
      p = this.value(v, this.string(k, p), depth);
      written++;
    }
    return written === n ? p : this.recount(start, n, written, p);
  }

  /** Whatever is neither an array nor a plain object. */
  special(v: object, p: number, depth: number): number {
    for (const extension of this.options.extensions) {
      if (v instanceof extension.class) return this.extension(extension.type, extension.encode(v), p);
    }
    if (ArrayBuffer.isView(v)) return this.binary(new Uint8Array(v.buffer, v.byteOffset, v.byteLength), p);
    if (v instanceof ArrayBuffer || (typeof SharedArrayBuffer !== "undefined" && v instanceof SharedArrayBuffer)) {
      return this.binary(new Uint8Array(v), p);
    }
    if (v instanceof Date) return this.date(v, p);
    if (v instanceof Timestamp) return this.timestamp(v.seconds, v.nanoseconds, p);
    if (v instanceof ExtensionValue) return this.extension(v.type, v.data, p);
    if (v instanceof Map) {
      const entries = [...v];
      p = this.mapHeader(entries.length, p);
      for (const [key, item] of entries) p = this.value(item, this.value(key, p, depth), depth);
      return p;
    }
    if (v instanceof Set) return this.array([...v], p, depth);
    const custom = v as { toJSON?: unknown };
    if (typeof custom.toJSON === "function") return this.value((custom as { toJSON(): unknown }).toJSON(), p, depth);
    if (v instanceof Number || v instanceof String || v instanceof Boolean) return this.value(v.valueOf(), p, depth);
    const o = v as Properties;
    const keys = Object.keys(o);
    const start = p - this.origin;
    p = this.mapHeader(keys.length, p);
    let written = 0;
    for (const k of keys) {
      const item = o[k];
      if (isAbsent(item)) continue;
      p = this.value(item, this.string(k, p), depth);
      written++;
    }
    return this.recount(start, keys.length, written, p);
  }

  private binary(data: Uint8Array, p: number): number {
    p = this.ensure(p, data.length + 5);
    p = this.length(0xc4, data.length, p);
    this.bytes.set(data, p);
    return p + data.length;
  }

  private extension(type: number, data: Uint8Array, p: number): number {
    const n = data.length;
    p = this.ensure(p, n + 6);
    const fixed = n === 1 || n === 2 || n === 4 || n === 8 || n === 16;
    if (fixed) this.bytes[p++] = 0xd4 + 31 - Math.clz32(n);
    else p = this.length(0xc7, n, p);
    this.bytes[p++] = type;
    this.bytes.set(data, p);
    return p + n;
  }

  private date(v: Date, p: number): number {
    const ms = v.getTime();
    if (ms !== ms) throw new MsgpackError("out_of_range", p - this.origin, "an invalid Date");
    const seconds = Math.floor(ms / 1000);
    return this.timestamp(BigInt(seconds), (ms - seconds * 1000) * 1e6, p);
  }

  private timestamp(seconds: bigint, nanoseconds: number, p: number): number {
    p = this.ensure(p, 15);
    if (seconds >> 34n !== 0n) {
      this.bytes[p] = 0xc7;
      this.bytes[p + 1] = 12;
      this.bytes[p + 2] = 0xff;
      this.view.setUint32(p + 3, nanoseconds);
      this.view.setBigInt64(p + 7, seconds);
      return p + 15;
    }
    const small = nanoseconds === 0 && seconds >> 32n === 0n;
    this.bytes[p] = small ? 0xd6 : 0xd7;
    this.bytes[p + 1] = 0xff;
    if (small) {
      this.view.setUint32(p + 2, Number(seconds));
      return p + 6;
    }
    this.view.setBigUint64(p + 2, (BigInt(nanoseconds) << 34n) | seconds);
    return p + 10;
  }

  arrayHeader(n: number, p: number): number {
    p = this.ensure(p, 5);
    if (n < 16) {
      this.bytes[p] = 0x90 | n;
      return p + 1;
    }
    return n < 0x10000 ? this.tagged16(0xdc, n, p) : this.tagged32(0xdd, n, p);
  }

  mapHeader(n: number, p: number): number {
    p = this.ensure(p, 5);
    if (n < 16) {
      this.bytes[p] = 0x80 | n;
      return p + 1;
    }
    return n < 0x10000 ? this.tagged16(0xde, n, p) : this.tagged32(0xdf, n, p);
  }

  /** Corrects a map header for `announced` entries, `start` bytes into the message, when `written` followed. */
  recount(start: number, announced: number, written: number, p: number): number {
    if (announced === written) return p;
    const header = this.origin + start;
    const from = header + mapHeaderBytes(announced);
    const to = header + mapHeaderBytes(written);
    if (from !== to) this.bytes.copyWithin(to, from, p);
    this.mapHeader(written, header);
    return p - from + to;
  }

  ensure(p: number, need: number): number {
    return p + need > this.end ? this.grow(p, need) : p;
  }

  /** Moves the message to where `need` more bytes have room. Gives the new position. */
  grow(p: number, need: number): number {
    const used = p - this.origin;
    this.checkTotal(used);
    const size = used + need;
    const old = this.bytes;
    if (old === this.large || this.large.length < size) {
      this.large = new Uint8Array(Math.max(size, used * 2, 2 * BLOCK_BYTES));
      this.largeView = new DataView(this.large.buffer);
    }
    this.large.set(old.subarray(this.origin, p));
    this.bytes = this.large;
    this.view = this.largeView;
    this.end = this.large.length;
    this.origin = 0;
    return used;
  }

  private checkTotal(used: number): void {
    if (used > this.options.maxBytes) {
      throw new MsgpackError("limit_total", used, `the message is above ${this.options.maxBytes} bytes`);
    }
  }
}

/** Whether all that `for…in` finds in `o` is its own, unless `Object.prototype` itself was made enumerable. */
export function isPlain(o: object): boolean {
  return Object.getPrototypeOf(o) === Object.prototype;
}

/** As in JSON: such a property is left out, and elsewhere such a value is nil. */
export function isAbsent(v: unknown): boolean {
  return v === undefined || typeof v === "function" || typeof v === "symbol";
}

function lengthHeader(n: number): number {
  return n < 0x100 ? 2 : n < 0x10000 ? 3 : 5;
}

function mapHeaderBytes(n: number): number {
  return n < 16 ? 1 : n < 0x10000 ? 3 : 5;
}
