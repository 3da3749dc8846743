import { MsgpackError, type MsgpackErrorCode } from "./error.js";
import { type Extension, ExtensionValue, Timestamp } from "./extension.js";
import { intern, Names } from "./names.js";
import { compile, isUtf8, latin1Slice, utf8Slice } from "./platform.js";
import { MAX_FIELDS, MAX_INLINE, none, type Shape, Shapes } from "./shapes.js";
import { readUtf8 } from "./utf8.js";

/** Views of the last input's memory are cached if it is not larger than this. */
const CACHED_VIEW_BYTES = 1024 * 1024;
/** Short strings are slices of longer ones, which they keep alive: the first of a message is small, none is large. */
const FIRST_WINDOW_BYTES = 256;
const LAST_WINDOW_BYTES = 2048;
const WINDOW_TEXT_BYTES = 256;
/** How many bytes of longer text are checked for being ASCII. */
const SAMPLE_BYTES = 32;
/** With at least this many unknown names, a map is expected to have more of them. */
const NEW_NAMES = 1024;
/** The largest `Date` in milliseconds. */
const MAX_DATE_MS = 8.64e15;

/** The mask in `INTEGERS` of a signed integer: all bits. */
const SIGNED = -1 << 8;

const NOTHING = /* @__PURE__ */ new Uint8Array(0);
const NO_VIEW = /* @__PURE__ */ new DataView(NOTHING.buffer);

/**
 * Integers of up to 32 bits except uint32, by their tags: the number of their bytes, plus 8 if these follow the tag, and above the
 * lowest 8 bits the mask of the value. It avoids branch mispredictions for mixed lengths.
 */
const INTEGERS = /* @__PURE__ */ integers();
const UINT32 = 0xce;
const UINT64 = 0xcf;

function integers(): Int32Array {
  const table = new Int32Array(256);
  table.fill(SIGNED | 1, 0, 0x80).fill(SIGNED | 1, 0xe0);
  table.set([0xff_00 | 9, 0xffff_00 | 10], 0xcc);
  table.set([SIGNED | 9, SIGNED | 10, SIGNED | 12], 0xd0);
  return table;
}

/** Reads a map of a known shape whose first value is at `p`. `depth` is that of its values. */
type ReadShape = (r: Reader, p: number, depth: number) => Record<string, unknown>;

export interface ReaderOptions {
  readonly int64: "safe" | "bigint" | "number";
  readonly maps: boolean;
  readonly binary: boolean;
  readonly strictUtf8: boolean;
  readonly timestamps: boolean;
  readonly maxDepth: number;
  readonly maxBytes: number;
  readonly maxStringBytes: number;
  readonly maxBinaryBytes: number;
  readonly maxArrayItems: number;
  readonly maxMapEntries: number;
  readonly extensions: ReadonlyMap<number, Extension>;
  readonly learnShapes: boolean;
  readonly generate: boolean | "auto";
}

/**
 * The state of a reader. Positions are relative to the start of the input's memory, not of the input. `depth` is the number of
 * containers around a value.
 */
export class Reader {
  bytes: Uint8Array = NOTHING;
  view: DataView = NO_VIEW;
  memory: ArrayBufferLike = NOTHING.buffer;
  /** The position of the next byte. */
  at = 0;
  /** The start and end of the input, within its memory. */
  start = 0;
  end = 0;
  busy = false;
  /** The number of announced, unread items of the arrays being read. Each takes at least a byte. */
  owed = 0;
  window = "";
  windowStart = 0;
  windowEnd = 0;
  windowBytes = 0;
  readonly names = new Names();
  readonly shapes: Shapes<ReadShape>;

  constructor(readonly options: ReaderOptions) {
    this.shapes = new Shapes(options.learnShapes);
  }
}

/** Reads the value at `offset` of `input`. It ends at `r.at - r.start`. */
export function read(r: Reader, input: ArrayBufferView, offset: number, whole: boolean): unknown {
  const { buffer: memory, byteLength } = input;
  // A transferred buffer has no bytes, and no view of it can be created.
  if (memory !== r.memory && byteLength > 0) {
    r.memory = memory;
    r.bytes = new Uint8Array(memory);
    r.view = new DataView(memory);
  }
  const { maxBytes } = r.options;
  r.start = input.byteOffset;
  r.at = r.start + offset;
  const end = r.start + byteLength;
  // The limit may be smaller than the input: do not read beyond it.
  r.end = Math.min(end, r.at + maxBytes);
  r.windowBytes = FIRST_WINDOW_BYTES;
  r.owed = r.windowEnd = 0;
  r.busy = true;
  try {
    const v = value(r, 0);
    if (whole && r.at !== end) refuse(r, "trailing_bytes", r.at, `${end - r.at} bytes follow the value`);
    return v;
  } catch (error) {
    if (r.end < end && error instanceof MsgpackError && error.code === "truncated") {
      refuse(r, "limit_total", r.end, `the message is above ${maxBytes} bytes`);
    }
    throw error;
  } finally {
    r.busy = false;
    r.window = "";
    if (r.memory.byteLength > CACHED_VIEW_BYTES) {
      r.memory = NOTHING.buffer;
      r.bytes = NOTHING;
      r.view = NO_VIEW;
    }
  }
}

function value(r: Reader, depth: number): unknown {
  const p = r.at;
  if (p >= r.end) truncated(r, p);
  const t = r.bytes[p]!;
  r.at = p + 1;
  if (t < 0x80) return t;
  if (t >= 0xe0) return t - 0x100;
  if (t < 0x90) return map(r, t & 15, depth + 1);
  if (t < 0xa0) return array(r, t & 15, depth + 1);
  if (t < 0xc0) return text(r, t & 31);
  return tagged(r, t, p + 1, depth);
}

function tagged(r: Reader, t: number, p: number, depth: number): unknown {
  const { view } = r;
  const k = INTEGERS[t]!;
  if (k !== 0 && p + 4 <= r.end) {
    r.at = p + (k & 7);
    return (view.getInt32(p) >> -(k << 3)) & (k >> 8);
  }
  switch (t) {
    case 0xc0:
      return null;
    case 0xc2:
    case 0xc3:
      return t === 0xc3;
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return binary(r, length(r, t - 0xc4));
    case 0xc7:
    case 0xc8:
    case 0xc9:
      return extension(r, length(r, t - 0xc7));
    case 0xca:
      take(r, 4);
      return view.getFloat32(p);
    case 0xcb:
      take(r, 8);
      return view.getFloat64(p);
    case 0xcc:
    case 0xcd:
    case 0xce:
      return length(r, t - 0xcc);
    case 0xcf:
    case 0xd3: {
      take(r, 8);
      const { int64 } = r.options;
      if (int64 !== "bigint") {
        const n = (t === 0xd3 ? view.getInt32(p) : view.getUint32(p)) * 0x100000000 + view.getUint32(p + 4);
        if (int64 === "number" || Number.isSafeInteger(n)) return n;
      }
      return t === 0xd3 ? view.getBigInt64(p) : view.getBigUint64(p);
    }
    case 0xd0:
      take(r, 1);
      return view.getInt8(p);
    case 0xd1:
      take(r, 2);
      return view.getInt16(p);
    case 0xd2:
      take(r, 4);
      return view.getInt32(p);
    case 0xd9:
    case 0xda:
    case 0xdb:
      return text(r, length(r, t - 0xd9));
    case 0xdc:
    case 0xdd:
      return array(r, length(r, t - 0xdb), depth + 1);
    case 0xde:
    case 0xdf:
      return map(r, length(r, t - 0xdd), depth + 1);
    case 0xc1:
      return refuse(r, "invalid_format", p - 1, "the byte 0xc1 is never used");
    default:
      return extension(r, 1 << (t - 0xd4));
  }
}

/** Skips `n` bytes and returns the position before them. */
function take(r: Reader, n: number): number {
  const p = r.at;
  if (p + n > r.end) truncated(r, p);
  r.at = p + n;
  return p;
}

/** Reads an unsigned integer of 1, 2 or 4 bytes, for `size` 0, 1 or 2. */
function length(r: Reader, size: number): number {
  const p = take(r, 1 << size);
  return size === 0 ? r.bytes[p]! : size === 1 ? r.view.getUint16(p) : r.view.getUint32(p);
}

/** Reads a string of `n` bytes. */
function text(r: Reader, n: number): string {
  if (n > r.options.maxStringBytes) tooLong(r, "string", n);
  const a = take(r, n);
  const b = r.at;
  if (n === 0) return "";
  const u = r.bytes;
  const d = r.view;
  const sampled = n > WINDOW_TEXT_BYTES ? a + SAMPLE_BYTES : b;
  let all = 0;
  let p = a;
  // The first characters usually tell the script.
  if (n > 3 && (d.getInt32(p) & 0x80808080) !== 0) return readUtf8(u, d, a, b) ?? unicode(r, a, b);
  for (; p < sampled - 3; p += 4) all |= d.getInt32(p);
  for (; p < sampled; p++) all |= u[p]!;
  if ((all & 0x80808080) !== 0) return readUtf8(u, d, a, b) ?? unicode(r, a, b);
  if (n > WINDOW_TEXT_BYTES) return unicode(r, a, b);
  if (n < 3) return n === 1 ? String.fromCharCode(u[a]!) : String.fromCharCode(u[a]!, u[a + 1]!);
  if (b > r.windowEnd || a < r.windowStart) {
    if (n === 3) return String.fromCharCode(u[a]!, u[a + 1]!, u[a + 2]!);
    r.windowStart = a;
    r.windowEnd = Math.min(a + r.windowBytes, r.end);
    if (r.windowBytes < LAST_WINDOW_BYTES) r.windowBytes *= 2;
    r.window = latin1Slice(u, a, r.windowEnd);
  }
  return r.window.substring(a - r.windowStart, b - r.windowStart);
}

/** Decodes any text with the platform. */
function unicode(r: Reader, a: number, b: number): string {
  const s = utf8Slice(r.bytes, a, b);
  // Only a string that contains U+FFFD can have been ill-formed.
  if (r.options.strictUtf8 && s.includes("\ufffd") && !isUtf8(r.bytes, a, b)) refuse(r, "invalid_utf8", a, "the string is not UTF-8");
  return s;
}

function array(r: Reader, n: number, depth: number): unknown[] {
  const { end, bytes: u, view: d, owed } = r;
  let p = r.at;
  if (depth > r.options.maxDepth) tooDeep(r);
  if (n > r.options.maxArrayItems) tooLong(r, "array", n);
  if (n + owed > end - p) truncated(r, p);
  if (n === 0) return [];
  // Coordinates are frequent and small, and engines create literals fastest.
  if (n === 2 && u[p] === 0xcb && p + 18 <= end && u[p + 9] === 0xcb) {
    r.at = p + 18;
    return [d.getFloat64(p + 1), d.getFloat64(p + 10)];
  }
  const short = r.options.int64 !== "bigint";
  // Two separate places create arrays, so that engines learn that one of them contains floats.
  const a = u[p] === 0xcb ? new Array<unknown>(n) : new Array<unknown>(n);
  for (let i = 0; i < n; i++) {
    // Past the end, `value` throws the error.
    const t = p < end ? u[p]! : 0xc1;
    if (t < 0x80) {
      a[i] = t;
      p++;
    } else if (t === 0xcb && p + 9 <= end) {
      a[i] = d.getFloat64(p + 1);
      p += 9;
    } else if (t === UINT32 && p + 5 <= end) {
      a[i] = d.getUint32(p + 1);
      p += 5;
    } else if (INTEGERS[t] !== 0 && p + 5 <= end) {
      const k = INTEGERS[t]!;
      p += (k >> 3) & 1;
      a[i] = (d.getInt32(p) >> -(k << 3)) & (k >> 8);
      p += k & 7;
    } else if (t === UINT64 && p + 9 <= end && short && d.getUint32(p + 1) < 0x200000) {
      a[i] = d.getUint32(p + 1) * 0x100000000 + d.getUint32(p + 5);
      p += 9;
    } else {
      r.at = p;
      r.owed = owed + n - i - 1;
      a[i] = value(r, depth);
      p = r.at;
    }
  }
  r.owed = owed;
  r.at = p;
  return a;
}

function map(r: Reader, n: number, depth: number): unknown {
  const { shapes, end, options } = r;
  if (depth > options.maxDepth) tooDeep(r);
  if (n > options.maxMapEntries) tooLong(r, "map", n);
  if (n * 2 > end - r.at) truncated(r, r.at);
  if (options.maps) {
    const entries = new Map<unknown, unknown>();
    for (; n > 0; n--) {
      const k = value(r, depth);
      entries.set(k, value(r, depth));
    }
    return entries;
  }
  if (n === 0) return {};
  const root = n > MAX_FIELDS ? none : shapes.begin();
  let first = root.last;
  if (!isNext(r, first)) {
    const { misses } = r.names;
    const k = key(r);
    first = shapes.next(root, k);
    if (first === none) return unshaped(r, k, misses, n, depth);
  }
  const fast = first.byFields?.[n];
  return fast === undefined ? entries(r, first, [], n, depth) : fast(r, r.at, depth);
}

/**
 * Reads the rest of a map of `n` entries whose first names form `shape`, with `values`. If there is one value less, the value
 * of the last name is next.
 */
function entries(r: Reader, shape: Shape<ReadShape>, values: unknown[], n: number, depth: number): Record<string, unknown> {
  const { shapes } = r;
  for (;;) {
    if (shape.fields > values.length) values.push(value(r, depth));
    const i = values.length;
    if (i === n) break;
    const next = shape.last;
    if (isNext(r, next)) {
      shape = next;
    } else {
      const k = key(r);
      const found = shapes.next(shape, k);
      // Without a known shape, continue with an ordinary object.
      if (found === none) {
        const o = make(shape, values);
        define(o, k, value(r, depth));
        return rest(r, o, n - i - 1, depth);
      }
      shape = found;
    }
  }
  if (shapes.isDue(shape)) compileReader(shape, r.options.generate);
  if (shape.code !== undefined) {
    // The next map probably has the same shape.
    let first = shape;
    while (first.fields > 1) first = first.parent!;
    (first.byFields ??= [])[n] = shape.code;
  }
  return make(shape, values);
}

/** Skips the next name if it is that of `shape`, and returns whether it was. */
function isNext(r: Reader, { size, name }: Shape<ReadShape>): boolean {
  let p = r.at;
  if (size === 0 || p + size > r.end) return false;
  const u = r.bytes;
  const d = r.view;
  let i = 0;
  for (; i < size >> 2; i++, p += 4) if (d.getInt32(p) !== name[i]) return false;
  for (; i < name.length; i++) if (u[p++] !== name[i]) return false;
  r.at = p;
  return true;
}

/** Creates the object of `shape` with `values`. */
function make(shape: Shape<ReadShape>, values: readonly unknown[]): Record<string, unknown> {
  if (shape.make !== undefined) return shape.make(values) as Record<string, unknown>;
  const keys = (shape.keys ??= pathOf(shape).map(({ key }) => intern(key!)));
  const o: Record<string, unknown> = {};
  for (let i = 0; i < keys.length; i++) o[keys[i]!] = values[i];
  return o;
}

/** Returns the shapes on the path to this one, inclusive: one for each property. */
function pathOf(shape: Shape<ReadShape>): Shape<ReadShape>[] {
  return shape.parent === undefined ? [] : [...pathOf(shape.parent), shape];
}

/**
 * Compiles the reading of a map after the first name of a shape, if that is allowed: names become constant words,
 * values are dispatched in place, and the object is created by one literal, which takes a fraction of the time of adding its
 * properties one by one. Wide shapes get only the literal.
 */
function compileReader(shape: Shape<ReadShape>, generate: boolean | "auto"): void {
  const path = pathOf(shape);
  const literal = (values: readonly string[]): string => `return {${path.map(({ key }, i) => `${JSON.stringify(key)}:${values[i]}`).join()}}`;
  if (shape.fields > MAX_INLINE) {
    shape.make = compile(generate, "v", literal(path.map((_, i) => `v[${i}]`)));
    return;
  }
  let body = "";
  const values: string[] = [];
  path.forEach(({ name, size }, i) => {
    const words = size >> 2;
    const differs = name.map((c, j) => (j < words ? `d.getInt32(p+${j * 4})!==${c}` : `u[p+${j + words * 3}]!==${c}`)).join("||");
    if (i > 0) body += `if(p+${size}>=e||${differs}){r.at=p;return E(r,K[${i - 1}],[${values.join()}],${path.length},z)}p+=${size};`;
    body += `var v${i};t=u[p];
if(t<128&&p<e){v${i}=t;p++}else if(t===203&&p+9<=e){v${i}=d.getFloat64(p+1);p+=9}else{r.at=p;v${i}=V(r,z);p=r.at}
`;
    values.push(`v${i}`);
  });
  const text = `return function(r,p,z){var u=r.bytes,d=r.view,e=r.end,t;${body}r.at=p;${literal(values)}}`;
  shape.code = compile(generate, "E,K,V", text)?.(entries, path, value) as ReadShape | undefined;
}

/** Reads the rest of a map of `n` entries without a shape, after its first name. `misses` was counted before it. */
function unshaped(r: Reader, k: string, misses: number, n: number, depth: number): Record<string, unknown> {
  // Adding many new properties is slow, unless the engine stores the object as a table.
  const isNew = n > MAX_FIELDS || r.names.misses > Math.max(misses, NEW_NAMES);
  const o = (isNew ? Object.create(null) : {}) as Record<string, unknown>;
  define(o, k, value(r, depth));
  rest(r, o, n - 1, depth);
  return isNew ? (Object.setPrototypeOf(o, Object.prototype) as Record<string, unknown>) : o;
}

/** Reads `n` more entries into `o`. */
function rest(r: Reader, o: Record<string, unknown>, n: number, depth: number): Record<string, unknown> {
  for (; n > 0; n--) {
    const k = key(r);
    define(o, k, value(r, depth));
  }
  return o;
}

function key(r: Reader): string {
  const p = r.at;
  const u = r.bytes;
  const t = p < r.end ? u[p]! : 0xc1;
  const n = t & 31;
  if ((t & 0xe0) === 0xa0 && p + n < r.end && n <= r.options.maxStringBytes) {
    const { names } = r;
    const known = names.find(u, r.view, p, n);
    if (known !== undefined) {
      r.at = p + n + 1;
      return known;
    }
    r.at = p + 1;
    const name = text(r, n);
    names.add(name, n, r.end - r.start);
    return name;
  }
  // Strings and numbers can name a property; true, nil and what has a structure cannot.
  if (t < 0x80 || t >= 0xe0 || (t & 0xe0) === 0xa0 || (t >= 0xca && t <= 0xd3) || (t >= 0xd9 && t <= 0xdb) || t === 0xc1) {
    return String(value(r, 0));
  }
  return refuse(r, "invalid_key", p, 'a map key is neither a string nor a number: decode with maps: "map"');
}

/** Sets an own property, whatever the name would mean to an assignment. */
function define(o: Record<string, unknown>, k: string, v: unknown): void {
  if (k.length === 9 && k === "__proto__") Object.defineProperty(o, k, { value: v, configurable: true, enumerable: true, writable: true });
  else o[k] = v;
}

function binary(r: Reader, n: number): Uint8Array {
  if (n > r.options.maxBinaryBytes) tooLong(r, "binary", n);
  const data = new Uint8Array(r.memory, take(r, n), n);
  return r.options.binary ? data.slice() : data;
}

function extension(r: Reader, n: number): unknown {
  const type = r.view.getInt8(take(r, 1));
  const known = r.options.extensions.get(type);
  const data = binary(r, n);
  if (known !== undefined) return known.decode(data);
  return type === -1 ? timestamp(r, data) : new ExtensionValue(type, data);
}

function timestamp(r: Reader, { buffer, byteOffset, length: n }: Uint8Array): Date | Timestamp {
  const d = new DataView(buffer, byteOffset, n);
  const bad = (message: string): never => refuse(r, "invalid_timestamp", r.at - n, message);
  if (n !== 4 && n !== 8 && n !== 12) bad("a timestamp has 4, 8 or 12 bytes");
  const nanoseconds = n === 4 ? 0 : d.getUint32(0) >>> (n === 8 ? 2 : 0);
  const seconds = n === 4 ? BigInt(d.getUint32(0)) : n === 8 ? d.getBigUint64(0) & 0x3_ffff_ffffn : d.getBigInt64(4);
  if (nanoseconds >= 1e9) bad("a timestamp with a second or more of nanoseconds");
  if (r.options.timestamps) return new Timestamp(seconds, nanoseconds);
  const ms = Number(seconds) * 1000 + Math.floor(nanoseconds / 1e6);
  if (Math.abs(ms) > MAX_DATE_MS) bad('a timestamp past what a Date holds: decode with timestamps: "exact"');
  return new Date(ms);
}

function truncated(r: Reader, p: number): never {
  return refuse(r, "truncated", p, "the input ends before the value does");
}

function tooDeep(r: Reader): never {
  return refuse(r, "limit_depth", r.at, `nested deeper than ${r.options.maxDepth}`);
}

function tooLong(r: Reader, what: string, n: number): never {
  return refuse(r, "limit_length", r.at, `a length of ${n} is above the limit for this ${what}`);
}

function refuse(r: Reader, code: MsgpackErrorCode, p: number, message: string): never {
  throw new MsgpackError(code, p - r.start, message);
}
