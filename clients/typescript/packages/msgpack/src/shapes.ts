import { intern } from "./names.js";
import { utf8Write } from "./platform.js";

/** Property names known in one place of the tree of names. */
const MAX_NODES = 4096;
/** Objects with more properties, and names with more bytes, are not remembered. */
export const MAX_FIELDS = 64;
const MAX_NAME_BYTES = 31;
/** Visits after which a shape is worth compiling. */
const COMPILE_AFTER = 32;
/** Functions compiled in the time of REFILL_MAPS objects: compiling costs as much as hundreds of objects. */
const MAX_COMPILED = 256;
const REFILL_MAPS = 1 << 20;
/** After this many new names, objects must have been WORTH times as many; else a pause. */
const WINDOW_NAMES = 256;
const WORTH = 4;
const FIRST_PAUSE = 1024;
const LONGEST_PAUSE = 65536;

/** Where a name is written, to see how it goes on the wire. */
const text = /* @__PURE__ */ new Uint8Array(1 + MAX_NAME_BYTES * 3);
const words = /* @__PURE__ */ new DataView(text.buffer);

/** The properties from the root of the tree to here, in this order. `F` is a function made for objects that have these. */
export class Shape<F> {
  /** Where the way went last: most objects follow the one before. `none` while there is nowhere to go. */
  last: Shape<F>;
  /** All ways on, where there are several. */
  children: Map<string, Shape<F>> | undefined;
  write: F | undefined;
  /** Functions for the shapes that begin with this one, by their count of properties. */
  byFields: (F | undefined)[] | undefined;
  visits = 0;
  private names: readonly string[] | undefined;

  constructor(
    readonly key: string | undefined,
    readonly parent: Shape<F> | undefined,
    readonly fields: number,
    /** The last name as it goes on the wire: whole words of four bytes, then single bytes. `size` counts the bytes. */
    readonly name: readonly number[],
    readonly size: number,
    last?: Shape<F>,
  ) {
    this.last = last ?? this;
  }

  /** All names up to here. */
  keys(): readonly string[] {
    if (this.names !== undefined) return this.names;
    const names = this.parent ? [intern(this.key!)] : [];
    for (let at = this.parent; at?.parent; at = at.parent) names.unshift(intern(at.key!));
    return (this.names = names);
  }
}

/** Stands for all that is not remembered. */
export const none = /* @__PURE__ */ new Shape<never>(undefined, undefined, 0, [], 0);

/**
 * The shapes that an encoder or a decoder has seen: a tree over property names in their order. Names that do not repeat
 * switch learning off for a while.
 */
export class Shapes<F> {
  root = new Shape<F>(undefined, undefined, 0, [], 0, none);
  private nodes = 0;
  private compiled = 0;
  private refilled = 0;
  private maps = 0;
  private since = 0;
  private created = 0;
  private pause: number;
  private nextPause = FIRST_PAUSE;

  constructor(learn: boolean) {
    this.pause = learn ? 0 : Infinity;
  }

  /** The shape without any property, from where `next` leads on. */
  begin(): Shape<F> {
    if (this.pause > 0) {
      this.pause--;
      return none;
    }
    this.maps++;
    return this.root;
  }

  /** The shape with `key` after those of `shape`, or `none`. */
  next(shape: Shape<F>, key: string): Shape<F> {
    if (shape === none || shape.last.key === key) return shape.last;
    const known = shape.children?.get(key);
    if (known !== undefined) return (shape.last = known);
    if (++this.created > WINDOW_NAMES) this.judge();
    // `toJSON` decides how an object is written; `__proto__` needs care.
    const special = key === "toJSON" || key === "__proto__";
    if (special || this.nodes >= MAX_NODES || shape.fields >= MAX_FIELDS || key.length > MAX_NAME_BYTES) return none;
    const n = utf8Write(text, key, 1, MAX_NAME_BYTES * 3);
    if (n > MAX_NAME_BYTES) return none;
    text[0] = 0xa0 | n;
    const name: number[] = [];
    let i = 0;
    for (; i < n - 2; i += 4) name.push(words.getInt32(i));
    for (; i <= n; i++) name.push(text[i]!);
    this.nodes++;
    const child: Shape<F> = new Shape<F>(key, shape, shape.fields + 1, name, n + 1, none);
    if (shape.children !== undefined) shape.children.set(key, child);
    else if (shape.last !== none) shape.children = new Map([[shape.last.key!, shape.last], [key, child]]);
    return (shape.last = child);
  }

  /** After so many new names: whether there were objects enough that had use of what was learned; else a pause. */
  private judge(): void {
    const worth = this.maps - this.since > WINDOW_NAMES * WORTH;
    if (!worth) {
      this.pause = this.nextPause;
      this.root = new Shape<F>(undefined, undefined, 0, [], 0, none);
      this.nodes = 0;
    }
    this.nextPause = worth ? FIRST_PAUSE : Math.min(this.nextPause * 2, LONGEST_PAUSE);
    this.since = this.maps;
    this.created = 0;
  }

  /** Counts a visit, and says whether now is the time to make a function for `shape`. */
  isDue(shape: Shape<F>): boolean {
    if (shape === none || ++shape.visits !== COMPILE_AFTER) return false;
    if (this.maps - this.refilled > REFILL_MAPS) {
      this.refilled = this.maps;
      this.compiled = 0;
    }
    return this.compiled++ < MAX_COMPILED;
  }
}
