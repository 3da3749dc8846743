import { MsgpackError, type MsgpackErrorCode } from "./error.js";
import { type Extension, ExtensionValue, Timestamp } from "./extension.js";
import { isMemory, isUint8Array, kindOf } from "./input.js";
import { compile, utf8Write } from "./platform.js";
import { MAX_FIELDS, MAX_INLINE, none, type Shape, Shapes } from "./shapes.js";
import { writeUtf8 } from "./utf8.js";

/** The maximum size of a block, which small results share. The first is small, and each is twice as large as the one before. */
const FIRST_BLOCK_BYTES = 512;
const LAST_BLOCK_BYTES = 64 * 1024;
/** A message starts in a block only if at least this fraction of it is free. */
const BLOCK_PARTS = 8;
/** The minimum size of the buffer for messages that do not fit into a block. */
const LARGE_BYTES = 16 * 1024;
/** The buffer for large messages is reused up to this size. */
const KEPT_BYTES = 1024 * 1024;
/** Arrays with more numbers than this use a separate loop. */
const NUMBERS = 4;
/** That loop reserves space for this many numbers at once. */
const STRETCH = 64;
/** Up to this length, a loop over the characters is faster than a call into the platform. */
const SHORT_TEXT = 32;

const NOTHING = /* @__PURE__ */ new Uint8Array(0);
const NO_VIEW = /* @__PURE__ */ new DataView(NOTHING.buffer);
const EMPTY = {};
const plainPrototype = Object.prototype;
const { getPrototypeOf } = Object;

export interface WriterOptions {
  readonly float32: boolean;
  readonly maxDepth: number;
  readonly maxBytes: number;
  readonly extensions: readonly Extension[];
  readonly learnShapes: boolean;
  readonly generate: boolean | "auto";
}

/**
 * The state of a writer. All functions below take the position to write at and return the position after what they wrote. `depth`
 * is the number of containers around the value. Positions are relative to `bytes`; only `grow` replaces `bytes`, and moves the
 * message.
 */
export class Writer {
  bytes: Uint8Array = NOTHING;
  view: DataView = NO_VIEW;
  /** The end of the writable memory, and the start of the message. */
  end = 0;
  origin = 0;
  busy = false;
  /** Whether `Object.prototype` has no enumerable properties. Otherwise own properties must be checked, which is slow. */
  clean = true;

  memory = NOTHING.buffer;
  block = this.bytes;
  blockView = this.view;
  blockAt = 0;
  blockBytes = FIRST_BLOCK_BYTES / 2;
  large = this.bytes;
  largeView = this.view;
  readonly float32: boolean;
  readonly shapes: Shapes<WriteShape>;

  constructor(readonly options: WriterOptions) {
    this.float32 = options.float32;
    this.shapes = new Shapes<WriteShape>(options.learnShapes);
  }
}

/** Encodes into memory of this writer and returns a view of it, which is never overwritten. */
export function encode(w: Writer, v: unknown): Uint8Array {
  // A block that was transferred elsewhere has no length.
  if (w.blockAt + w.blockBytes / BLOCK_PARTS > w.block.length) {
    w.blockBytes = Math.min(w.blockBytes * 2, LAST_BLOCK_BYTES);
    w.memory = new ArrayBuffer(w.blockBytes);
    w.block = new Uint8Array(w.memory);
    w.blockView = new DataView(w.memory);
    w.blockAt = 0;
  }
  const { block } = w;
  w.bytes = block;
  w.view = w.blockView;
  w.end = block.length;
  w.origin = w.blockAt;
  const p = message(w, v);
  const { bytes, origin } = w;
  if (bytes === block) {
    w.blockAt = p;
    return new Uint8Array(w.memory, origin, p - origin);
  }
  release(w);
  return bytes.length > KEPT_BYTES ? bytes.subarray(0, p) : bytes.slice(0, p);
}

/** Encodes into `target` at `offset` and returns the number of bytes. Throws if it does not fit. */
export function encodeInto(w: Writer, v: unknown, target: Uint8Array, offset: number): number {
  const room = target.length - offset;
  w.bytes = target;
  w.view = new DataView(target.buffer, target.byteOffset, target.length);
  w.origin = offset;
  w.end = target.length;
  const p = message(w, v);
  const n = p - w.origin;
  if (w.bytes !== target) {
    // Space is reserved generously, so the message may still fit when the reserved space did not.
    if (n > room) refuse(w, "no_room", room, `the target has ${room} bytes, the value needs ${n}`);
    target.set(w.bytes.subarray(0, n), offset);
  } else {
    checkThere(w, target, p);
  }
  release(w);
  return n;
}

/** Drops references to memory that belongs to the caller. */
function release(w: Writer): void {
  w.bytes = NOTHING;
  w.view = NO_VIEW;
}

function message(w: Writer, v: unknown): number {
  w.busy = true;
  w.clean = true;
  for (const k in EMPTY) w.clean = k === "";
  try {
    const p = value(w, v, w.origin, 0);
    checkTotal(w, p);
    return p;
  } finally {
    w.busy = false;
    if (w.large.length > KEPT_BYTES) {
      w.large = NOTHING;
      w.largeView = NO_VIEW;
    }
  }
}

function refuse(w: Writer, code: MsgpackErrorCode, p: number, message: string): never {
  throw new MsgpackError(code, p - w.origin, message);
}

function checkTotal(w: Writer, p: number): void {
  if (p - w.origin > w.options.maxBytes) refuse(w, "limit_total", p, `the message is above ${w.options.maxBytes} bytes`);
}

/** Checks that the memory was not transferred elsewhere, for example by `toJSON`. */
function checkThere(w: Writer, bytes: Uint8Array, p: number): void {
  if (bytes.length < p) refuse(w, "no_room", p, "the memory has become smaller while it was written");
}

/** Moves the message to memory with `need` more bytes. Returns the new position. */
function grow(w: Writer, p: number, need: number): number {
  checkTotal(w, p);
  const used = p - w.origin;
  const size = used + need;
  const old = w.bytes;
  checkThere(w, old, p);
  if (old === w.large || w.large.length < size) {
    w.large = new Uint8Array(Math.max(size, used * 2, LARGE_BYTES));
    w.largeView = new DataView(w.large.buffer);
  }
  w.large.set(old.subarray(w.origin, p));
  w.bytes = w.large;
  w.view = w.largeView;
  w.end = w.large.length;
  w.origin = 0;
  return used;
}

/** Writes a header of the 8 (if there is one), 16 or 32-bit family of `tag`; five bytes must be reserved. */
function header(w: Writer, tag: number, n: number, p: number): number {
  const u = w.bytes;
  if (n < 0x100 && tag < 0xda) {
    u[p] = tag;
    u[p + 1] = n;
    return p + 2;
  }
  if (n < 0x10000) {
    u[p] = tag + 1;
    u[p + 1] = n >> 8;
    u[p + 2] = n;
    return p + 3;
  }
  u[p] = tag + 2;
  w.view.setUint32(p + 1, n);
  return p + 5;
}

/** Small enough to be inlined: a call would allocate every fraction. */
function number(w: Writer, v: number, p: number): number {
  if (p + 9 > w.end) p = grow(w, p, 9);
  const u = w.bytes;
  const i = v | 0;
  // −0 is not an integer of the format, so a float keeps its sign.
  if (i === v && (i !== 0 || 1 / v > 0)) {
    if (i < 128 && i >= -32) {
      u[p] = i;
      return p + 1;
    }
    if (i > 0) return header(w, 0xcc, i, p);
    return negative(w, i, p);
  }
  if (w.float32 || v === Math.floor(v) || v !== v) return otherNumber(w, v, p);
  u[p] = 0xcb;
  w.view.setFloat64(p + 1, v);
  return p + 9;
}

function negative(w: Writer, i: number, p: number): number {
  const u = w.bytes;
  if (i >= -0x80) {
    u[p] = 0xd0;
    u[p + 1] = i;
    return p + 2;
  }
  if (i >= -0x8000) {
    u[p] = 0xd1;
    u[p + 1] = i >> 8;
    u[p + 2] = i;
    return p + 3;
  }
  u[p] = 0xd2;
  w.view.setInt32(p + 1, i);
  return p + 5;
}

function otherNumber(w: Writer, v: number, p: number): number {
  const u = w.bytes;
  const d = w.view;
  if (v !== 0 && Number.isSafeInteger(v)) {
    if (v > 0 && v <= 0xffffffff) return header(w, 0xcc, v, p);
    u[p] = v > 0 ? 0xcf : 0xd3;
    d.setInt32(p + 1, Math.floor(v / 0x100000000));
    d.setUint32(p + 5, v >>> 0);
    return p + 9;
  }
  // Every NaN is written alike, regardless of its bits in the engine.
  if (v !== v) v = NaN;
  if (w.float32 && (Math.fround(v) === v || v !== v)) {
    u[p] = 0xca;
    d.setFloat32(p + 1, v);
    return p + 5;
  }
  u[p] = 0xcb;
  d.setFloat64(p + 1, v);
  return p + 9;
}

function string(w: Writer, s: string, p: number): number {
  const n = s.length;
  if (n >= SHORT_TEXT) return longString(w, s, p);
  // The first character usually tells the script.
  if (s.charCodeAt(0) > 0x7f) return unicode(w, s, p);
  if (p + SHORT_TEXT > w.end) p = grow(w, p, SHORT_TEXT);
  const u = w.bytes;
  let q = p + 1;
  let all = 0;
  let i = 1;
  for (; i < n; i += 2) {
    const b = s.charCodeAt(i - 1);
    const c = s.charCodeAt(i);
    all |= b | c;
    u[q++] = b;
    u[q++] = c;
  }
  if (i === n) {
    const c = s.charCodeAt(n - 1);
    all |= c;
    u[q++] = c;
  }
  if (all > 0x7f) return unicode(w, s, p);
  u[p] = 0xa0 | n;
  return q;
}

/** Writes a short string with characters outside of ASCII. */
function unicode(w: Writer, s: string, p: number): number {
  const n = s.length;
  if (p + n * 3 + 2 > w.end) p = grow(w, p, n * 3 + 2);
  const guess = guessHeaderBytes(s);
  return textHeader(w, p, guess, writeUtf8(w.bytes, s, p + guess) - p - guess);
}

/** Writes the header before `n` bytes of text at `guess` bytes after `p`. Returns the position after the text. */
function textHeader(w: Writer, p: number, guess: number, n: number): number {
  const size = textHeaderBytes(n);
  if (size !== guess) w.bytes.copyWithin(p + size, p + guess, p + guess + n);
  if (size > 1) return header(w, 0xd9, n, p) + n;
  w.bytes[p] = 0xa0 | n;
  return p + 1 + n;
}

function longString(w: Writer, s: string, p: number): number {
  const n = s.length;
  if (p + n * 3 + 5 > w.end) p = grow(w, p, n * 3 + 5);
  const guess = guessHeaderBytes(s);
  return textHeader(w, p, guess, utf8Write(w.bytes, s, p + guess, n * 3));
}

function value(w: Writer, v: unknown, p: number, depth: number): number {
  // Not a `switch`: for that, engines create a string for each type.
  if (typeof v === "string") return string(w, v, p);
  if (typeof v === "number") return number(w, v, p);
  if (typeof v === "object" && v !== null) return object(w, v, p, depth);
  if (typeof v === "bigint") return bigint(w, v, p);
  if (p >= w.end) p = grow(w, p, 1);
  w.bytes[p] = v === true ? 0xc3 : v === false ? 0xc2 : 0xc0;
  return p + 1;
}

function bigint(w: Writer, v: bigint, p: number): number {
  if (v >= -0x8000_0000n && v <= 0xffff_ffffn) return number(w, Number(v), p);
  if (p + 9 > w.end) p = grow(w, p, 9);
  if (v < 0n ? BigInt.asIntN(64, v) !== v : BigInt.asUintN(64, v) !== v) {
    refuse(w, "out_of_range", p, "a bigint outside of -2^63 to 2^64-1");
  }
  w.bytes[p] = v < 0n ? 0xd3 : 0xcf;
  w.view.setBigInt64(p + 1, v);
  return p + 9;
}

function object(w: Writer, v: object, p: number, depth: number): number {
  if (depth >= w.options.maxDepth) refuse(w, "limit_depth", p, `nested deeper than ${w.options.maxDepth}, or a cycle`);
  if (Array.isArray(v)) return array(w, v, p, depth + 1);
  if (ArrayBuffer.isView(v)) return special(w, v, p, depth + 1);
  return map(w, v as Record<string, unknown>, p, depth + 1);
}

function containerHeader(w: Writer, fixed: number, n: number, p: number): number {
  if (p + 5 > w.end) p = grow(w, p, 5);
  if (n > 15) return header(w, fixed === 0x80 ? 0xdd : 0xdb, n, p);
  w.bytes[p] = fixed | n;
  return p + 1;
}

/** Writes the current items, as in JSON: items added in the meantime are skipped, removed ones are nil. */
function array(w: Writer, a: readonly unknown[], p: number, depth: number): number {
  const n = a.length;
  // Only a proxy can return this.
  if (n !== n >>> 0) refuse(w, "out_of_range", p, "the length of an array is not an integer of 32 bits");
  p = containerHeader(w, 0x90, n, p);
  if (n > NUMBERS && typeof a[0] === "number" && typeof a[n - 1] === "number") return numbers(w, a, n, p, depth);
  for (let i = 0; i < n; i++) {
    const v = a[i];
    p = typeof v === "number" ? number(w, v, p) : value(w, v, p, depth);
  }
  return p;
}

/** Writes an array of numbers. Separate, so that engines see almost only numbers here and need not allocate them. */
function numbers(w: Writer, a: readonly unknown[], n: number, p: number, depth: number): number {
  for (let i = 0; i < n; ) {
    const stretch = Math.min(n, i + STRETCH);
    if (p + (stretch - i) * 9 > w.end) p = grow(w, p, (stretch - i) * 9);
    const u = w.bytes;
    const d = w.view;
    for (; i < stretch; i++) {
      const v = a[i];
      if (typeof v !== "number") {
        p = value(w, v, p, depth);
        i++;
        break;
      }
      const k = v | 0;
      if (k !== v || (k === 0 && 1 / v < 0)) {
        if (w.float32 || v === Math.floor(v) || v !== v) {
          p = otherNumber(w, v, p);
        } else {
          u[p] = 0xcb;
          d.setFloat64(p + 1, v);
          p += 9;
        }
      } else if (k < 128 && k >= -32) {
        u[p++] = k;
      } else if (k >= 0x10000) {
        u[p] = 0xce;
        d.setInt32(p + 1, k);
        p += 5;
      } else if (k >= 0x100) {
        u[p] = 0xcd;
        d.setInt16(p + 1, k);
        p += 3;
      } else {
        p = k > 0 ? header(w, 0xcc, k, p) : negative(w, k, p);
      }
    }
  }
  return p;
}

function map(w: Writer, o: Record<string, unknown>, p: number, depth: number): number {
  const { shapes } = w;
  let node = w.clean ? shapes.begin() : none;
  let n = 0;
  for (const k in o) {
    if (node !== none) {
      const { last } = node;
      node = last.key === k ? last : shapes.next(node, k);
    }
    n++;
  }
  if (node.code !== undefined) return node.code(w, o, p, depth);
  if (getPrototypeOf(o) !== plainPrototype || !w.clean) return special(w, o, p, depth);
  // Engines store these as dictionaries, which would slow down the loop below for all other objects.
  if (n > MAX_FIELDS) return properties(w, o, p, depth);
  if (node !== none) {
    if (n <= MAX_INLINE && shapes.isDue(node)) node.code = compileWriter(node, w.options);
    node = shapes.root;
  }
  const start = p - w.origin;
  p = containerHeader(w, 0x80, n, p);
  let written = 0;
  for (const k in o) {
    const v = o[k];
    if (node !== none) {
      const { last } = node;
      node = last.key === k ? last : shapes.next(node, k);
    }
    if (v === undefined || typeof v === "function" || typeof v === "symbol") {
      if (k === "toJSON" && v !== undefined) return special(w, o, w.origin + start, depth);
      continue;
    }
    written++;
    if (node.size === 0) {
      p = string(w, k, p);
    } else {
      const { size, name } = node;
      if (p + size > w.end) p = grow(w, p, size);
      const d = w.view;
      let i = 0;
      for (; i < size >> 2; i++, p += 4) d.setInt32(p, name[i]!);
      for (; i < name.length; i++) w.bytes[p++] = name[i]!;
    }
    p = typeof v === "string" ? string(w, v, p) : typeof v === "number" ? number(w, v, p) : value(w, v, p, depth);
  }
  return written === n ? p : recount(w, start, n, written, p);
}

/** Corrects the map header for `announced` entries, `start` bytes into the message, if `written` entries followed. */
function recount(w: Writer, start: number, announced: number, written: number, p: number): number {
  if (p + 4 > w.end) p = grow(w, p, 4);
  const head = w.origin + start;
  const from = head + mapHeaderBytes(announced);
  const to = head + mapHeaderBytes(written);
  if (from !== to) w.bytes.copyWithin(to, from, p);
  containerHeader(w, 0x80, written, head);
  return p - from + to;
}

/** Writes a value that is neither an array nor a plain object. */
function special(w: Writer, v: object, p: number, depth: number): number {
  for (const e of w.options.extensions) if (v instanceof e.class) return extension(w, e.type, e.encode(v), p);
  if (ArrayBuffer.isView(v)) {
    return binary(w, v.byteLength > 0 && isUint8Array(v) ? v : shown(w, v.buffer, v.byteOffset, v.byteLength, p), p);
  }
  if (v instanceof Date) {
    const ms = v.getTime();
    if (ms !== ms) refuse(w, "out_of_range", p, "an invalid Date");
    const seconds = Math.floor(ms / 1000);
    return timestamp(w, BigInt(seconds), (ms - seconds * 1000) * 1e6, p);
  }
  if (v instanceof Timestamp) return timestamp(w, v.seconds, v.nanoseconds, p);
  if (v instanceof ExtensionValue) return extension(w, v.type, v.data, p);
  // The entries are copied, because the map or set may change while they are written.
  if (v instanceof Set) return array(w, [...(v as Set<unknown>)], p, depth);
  if (v instanceof Map) return entries(w, [...(v as Map<unknown, unknown>).keys()], [...(v as Map<unknown, unknown>).values()], p, depth);
  return properties(w, v, p, depth);
}

function properties(w: Writer, v: object, p: number, depth: number): number {
  const { toJSON } = v as { toJSON?: unknown };
  if (typeof toJSON === "function") return value(w, (v as { toJSON(): unknown }).toJSON(), p, depth);
  if (v instanceof Number || v instanceof String || v instanceof Boolean) return value(w, v.valueOf(), p, depth);
  const keys = Object.keys(v);
  if (keys.length === 0 && isMemory(v)) return binary(w, shown(w, v, 0, v.byteLength, p), p);
  const start = p - w.origin;
  p = containerHeader(w, 0x80, keys.length, p);
  let written = 0;
  for (const key of keys) {
    const item = (v as Record<string, unknown>)[key];
    if (isAbsent(item)) continue;
    written++;
    p = value(w, item, string(w, key, p), depth);
  }
  return written === keys.length ? p : recount(w, start, keys.length, written, p);
}

function entries(w: Writer, keys: readonly unknown[], items: readonly unknown[], p: number, depth: number): number {
  const n = keys.length;
  p = containerHeader(w, 0x80, n, p);
  for (let i = 0; i < n; i++) p = value(w, items[i], value(w, keys[i], p, depth), depth);
  return p;
}

/** Returns `n` bytes of `memory` from `at` on. Throws if the memory was transferred, because it would look empty. */
function shown(w: Writer, memory: ArrayBufferLike, at: number, n: number, p: number): Uint8Array {
  try {
    return new Uint8Array(memory, at, n);
  } catch {
    return refuse(w, "out_of_range", p, "memory that was transferred elsewhere");
  }
}

function binary(w: Writer, data: Uint8Array, p: number): number {
  const n = data.length;
  if (p + n + 5 > w.end) p = grow(w, p, n + 5);
  p = header(w, 0xc4, n, p);
  w.bytes.set(data, p);
  return p + n;
}

function extension(w: Writer, type: number, data: Uint8Array, p: number): number {
  if (!isUint8Array(data)) refuse(w, "invalid_extension", p, `an extension's encode gave something ${kindOf(data)}: return a Uint8Array`);
  const n = data.length;
  if (p + n + 6 > w.end) p = grow(w, p, n + 6);
  if (n === 1 || n === 2 || n === 4 || n === 8 || n === 16) w.bytes[p++] = 0xd4 + 31 - Math.clz32(n);
  else p = header(w, 0xc7, n, p);
  w.bytes[p++] = type;
  w.bytes.set(data, p);
  return p + n;
}

function timestamp(w: Writer, seconds: bigint, nanoseconds: number, p: number): number {
  const data = new DataView(new ArrayBuffer(12));
  let n = 8;
  if (seconds >> 34n !== 0n) {
    n = 12;
    data.setUint32(0, nanoseconds);
    data.setBigInt64(4, seconds);
  } else if (nanoseconds === 0 && seconds >> 32n === 0n) {
    n = 4;
    data.setUint32(0, Number(seconds));
  } else {
    data.setBigUint64(0, (BigInt(nanoseconds) << 34n) | seconds);
  }
  return extension(w, -1, new Uint8Array(data.buffer, 0, n), p);
}

/** Writes one plain object of a known shape. `depth` is that of its values. */
type WriteShape = (w: Writer, o: Record<string, unknown>, p: number, depth: number) => number;

/**
 * Compiles the writing of objects of one shape, if that is allowed: names become constant words, and values
 * are dispatched in place. One check reserves space for all names and numbers up to the next value of unknown
 * length.
 */
function compileWriter(node: Shape<WriteShape>, options: WriterOptions): WriteShape | undefined {
  const n = node.fields;
  const float = options.float32 ? "" : "if(v!==Math.floor(v)&&v===v){u[p]=203;d.setFloat64(p+1,v);p+=9}else ";
  let room = 9;
  let body = "";
  for (let at = node; at.parent; at = at.parent) {
    const { name, size } = at;
    const words = size >> 2;
    const stores = name.map((c, i) => (i < words ? `d.setInt32(p+${i * 4},${c});` : `u[p+${i + words * 3}]=${c};`)).join("");
    body = `v=o[${JSON.stringify(at.key)}];${at.fields > 1 ? "" : PLAIN}q=p;${stores}p+=${size};
if(typeof v==="number"){if((v|0)===v&&v>0&&v<128)u[p++]=v;else ${float}p=N(w,v,p)}
else{if(typeof v==="string")p=S(w,v,p);else if(typeof v==="object"&&v!==null)p=O(w,v,p,z);else if(v===true||v===false)u[p++]=v?195:194;else if(A(v)){p=q;m--}else p=V(w,v,p,z);if(p+${room}>w.end)p=G(w,p,${room});u=w.bytes;d=w.view}
${body}`;
    room += size + 9;
  }
  return compile(
    options.generate,
    "A,C,G,N,O,P,R,S,V,X",
    `return function(w,o,p,z){var u,d,v,q,m=${n},s=p-w.origin;if(p+${room}>w.end)p=G(w,p,${room});p=C(w,128,${n},p);u=w.bytes;d=w.view;${body}${n ? "" : PLAIN}return m===${n}?p:R(w,s,${n},m,p)}`,
  )?.(isAbsent, containerHeader, grow, number, object, plainPrototype, recount, string, value, special) as WriteShape | undefined;
}

/** Whether `__proto__` is readable: it is the fastest access to the prototype, but a host may forbid it. */
const PLAIN = `if(${protoIsReadable() ? "o.__proto__" : "Object.getPrototypeOf(o)"}!==P)return X(w,o,w.origin+s,z);`;

function protoIsReadable(): boolean {
  try {
    return (EMPTY as { __proto__?: unknown }).__proto__ === plainPrototype;
  } catch {
    return false;
  }
}

/** As in JSON, such a property is left out, and elsewhere such a value is nil. */
function isAbsent(v: unknown): boolean {
  return v === undefined || typeof v === "function" || typeof v === "symbol";
}

function textHeaderBytes(n: number): number {
  return n < 32 ? 1 : n < 0x100 ? 2 : n < 0x10000 ? 3 : 5;
}

/** Estimates the length from the first character. If the estimate is wrong, the text is moved. */

function guessHeaderBytes(s: string): number {
  const c = s.charCodeAt(0);
  return textHeaderBytes(s.length * (c < 0x80 ? 1 : c < 0x800 ? 2 : 3));
}

function mapHeaderBytes(n: number): number {
  return n < 16 ? 1 : n < 0x10000 ? 3 : 5;
}
