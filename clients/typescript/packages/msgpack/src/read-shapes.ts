import { compile } from "./platform.js";
import type { Reader } from "./reader.js";
import { encodedName } from "./write-shapes.js";

/** Reads one map of a known shape whose first key is at `p`; `depth` is that of its values. */
type ReadShape = (reader: Reader, p: number, depth: number) => unknown;

const SLOTS = 1024;
/** Maps with more entries are read without learning. */
const MAX_FIELDS = 64;
/** A shape is compiled after this many uses, if it was one in HOT_SHARE maps: cold compiled code is slow. */
const COMPILE_AFTER = 32;
const HOT_SHARE = 64;
/** Functions compiled in the time of REFILL_MAPS maps: compiling costs as much as reading hundreds of maps. */
const MAX_COMPILED = 256;
const REFILL_MAPS = 1 << 20;
/** After this many maps that no shape fitted, shapes must have been of use WORTH times as often. */
const WINDOW_MISSES = 256;
const WORTH = 3;
const FIRST_PAUSE = 1024;
const LONGEST_PAUSE = 65536;

/** Which of the first four bytes belong to a first key of 0, 1, 2, 3… bytes, little-endian. */
export const FIRST_KEY_MASKS = /* @__PURE__ */ Int32Array.from({ length: 32 }, (_, n) => (n < 3 ? (1 << (8 * n + 8)) - 1 : -1));

class Shape {
  read: ReadShape;
  /** The first byte of each value when it was seen last. */
  readonly tags: Uint8Array;

  constructor(
    readonly first: number,
    readonly keys: readonly string[],
    readonly names: readonly Uint8Array[],
    shapes: ReadShapes,
  ) {
    this.tags = new Uint8Array(keys.length);
    const interpreted = interpret(keys, names, this.tags);
    let left = COMPILE_AFTER;
    let since = shapes.total;
    this.read = (reader, p, depth) => {
      if (--left === 0) {
        if (shapes.total - since < COMPILE_AFTER * HOT_SHARE) this.read = shapes.compile(this) ?? interpreted;
        left = COMPILE_AFTER;
        since = shapes.total;
      }
      return interpreted(reader, p, depth);
    };
  }
}

/**
 * The shapes that a decoder has seen, found by their count of entries and the start of their first key. A shape's reader
 * compares every key with the bytes it expects, and hands over to the general way at the first that differs. Keys that
 * do not repeat switch learning off for a while.
 */
export class ReadShapes {
  private readonly table = new Array<Shape | null>(SLOTS).fill(null);
  private readonly seen = new Int32Array(SLOTS);
  private compiled = 0;
  private refilled = 0;
  private before = 0;
  private maps = 0;
  private misses = 0;
  private pause: number;
  private nextPause = FIRST_PAUSE;

  constructor(
    learn: boolean,
    private readonly generate: boolean | "auto",
  ) {
    this.pause = learn ? 0 : Infinity;
  }

  find(first: number, n: number): Shape | null {
    if (this.pause > 0) {
      this.pause--;
      return null;
    }
    this.maps++;
    const slot = slotOf(first, n);
    let shape = this.table[slot];
    if (shape?.first === first && shape.keys.length === n) return shape;
    shape = this.table[slot ^ 1];
    return shape?.first === first && shape.keys.length === n ? shape : null;
  }

  /** Takes note of a map that `find` did not find; the second time its keys become a shape. */
  learn(first: number, n: number, o: Record<string, unknown>): void {
    if (this.pause > 0 || n > MAX_FIELDS) return;
    this.missed();
    let slot = slotOf(first, n);
    const sign = first ^ n;
    if (this.seen[slot] !== sign) {
      this.seen[slot] = sign;
      return;
    }
    const keys = Object.keys(o);
    // Fewer keys: one came twice. Names like numbers come in another order than they were sent.
    if (keys.length !== n || keys.some((k) => k === "__proto__" || /^\d/.test(k))) return;
    if (this.table[slot] !== null) slot ^= 1;
    this.table[slot] = new Shape(first, keys, keys.map(encodedName), this);
  }

  /** A map that no shape fitted. */
  missed(): void {
    if (++this.misses <= WINDOW_MISSES) return;
    const worth = this.maps > this.misses * WORTH;
    this.pause = worth ? 0 : this.nextPause;
    this.nextPause = worth ? FIRST_PAUSE : Math.min(this.nextPause * 2, LONGEST_PAUSE);
    if (!worth) {
      this.table.fill(null);
      this.seen.fill(0);
    }
    this.before += this.maps;
    this.maps = this.misses = 0;
  }

  /** Maps looked up so far. */
  get total(): number {
    return this.before + this.maps;
  }

  compile(shape: Shape): ReadShape | undefined {
    if (this.total - this.refilled > REFILL_MAPS) {
      this.refilled = this.total;
      this.compiled = 0;
    }
    if (this.compiled >= MAX_COMPILED) return undefined;
    const made = compile(this.generate, "keys", source(shape.keys, shape.names, shape.tags))?.(shape.keys);
    if (made !== undefined) this.compiled++;
    return made as ReadShape | undefined;
  }
}

function slotOf(first: number, n: number): number {
  return Math.imul(first + n, 0x9e3779b1) >>> 22;
}

function interpret(keys: readonly string[], names: readonly Uint8Array[], tags: Uint8Array): ReadShape {
  const n = keys.length;
  return (reader, p, depth) => {
    const u = reader.bytes;
    const { end } = reader;
    const values: unknown[] = [];
    for (let i = 0; i < n; i++) {
      const name = names[i]!;
      const m = name.length;
      if (p + m >= end) return reader.resume(keys, values, p, depth);
      for (let j = 0; j < m; j++) if (u[p + j] !== name[j]) return reader.resume(keys, values, p, depth);
      p += m;
      tags[i] = u[p]!;
      reader.position = p;
      values.push(reader.value(depth));
      p = reader.position;
    }
    const o: Record<string, unknown> = {};
    for (let i = 0; i < n; i++) o[keys[i]!] = values[i];
    return o;
  };
}

/**
 * The same as `interpret` as source text: names become constant words, the kinds of value seen last are read in place,
 * and the object comes from one literal.
 */
function source(keys: readonly string[], names: readonly Uint8Array[], tags: Uint8Array): string {
  let body = "return function(r,p,z){var u=r.bytes,d=r.view,e=r.end,t;";
  const values: string[] = [];
  const general = (v: string) => `{r.position=p;${v}=r.value(z);p=r.position}\n`;
  for (let i = 0; i < keys.length; i++) {
    const name = names[i]!;
    const v = `v${i}`;
    const tag = tags[i]!;
    body += `if(p+${name.length}>=e||${differs(name)})return r.resume(keys,[${values.join()}],p,z);p+=${name.length};var ${v};`;
    if (tag < 0x80) body += `if(u[p]<128)${v}=u[p++];else${general(v)}`;
    else if (tag === 0xcb) body += `if(u[p]===203&&p+9<=e){${v}=d.getFloat64(p+1);p+=9}else${general(v)}`;
    else if (tag === 0xcd) body += `if(u[p]===205&&p+3<=e){${v}=d.getUint16(p+1);p+=3}else${general(v)}`;
    else if (tag === 0xce) body += `if(u[p]===206&&p+5<=e){${v}=d.getUint32(p+1);p+=5}else${general(v)}`;
    else if (tag >= 0xa0 && tag < 0xc0) body += `t=u[p];if((t&224)===160){${v}=r.text(p+1,t&31);p=r.position}else${general(v)}`;
    else if (tag === 0xc2 || tag === 0xc3) body += `t=u[p];if((t|1)===195){${v}=t===195;p++}else${general(v)}`;
    else body += general(v);
    values.push(v);
  }
  return `${body}r.position=p;return {${keys.map((k, i) => `${JSON.stringify(k)}:v${i}`).join()}}}`;
}

/** Compares the bytes at `p` with constant ones, as wide as it goes and never past the end. */
function differs(name: Uint8Array): string {
  const n = name.length;
  const view = new DataView(name.buffer, name.byteOffset, n);
  const parts: string[] = [];
  let at = 0;
  for (; at + 4 <= n; at += 4) parts.push(`d.getInt32(p+${at})!==${view.getInt32(at)}`);
  if (at < n && n >= 4) parts.push(`d.getInt32(p+${n - 4})!==${view.getInt32(n - 4)}`);
  else for (; at < n; at++) parts.push(`u[p+${at}]!==${name[at]!}`);
  return parts.join("||");
}
