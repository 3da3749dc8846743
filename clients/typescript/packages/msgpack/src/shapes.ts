import { utf8Write } from "./platform.js";

/** Property names known in one place of the tree of names. */
const MAX_NODES = 4096;
/** Objects with more properties, and names with more bytes, are not remembered. */
export const MAX_FIELDS = 128;
const MAX_NAME_BYTES = 31;
/** Visits after which a shape is in steady use and worth compiling, if of so many objects since it was first seen one had it. */
const COMPILE_AFTER = 32;
const RARE = 64;
/** What is in steady use has this many visits from there on. */
const STEADY = -(2 ** 30);
/** Shapes with more properties are not read and written by code of their own: engines take long to make it fast. */
export const MAX_INLINE = 64;
/** Functions that may be compiled at once, and one more for so many objects: compiling costs as much as hundreds of them. */
const MAX_COMPILED = 256;
const OBJECTS_PER_FUNCTION = 4096;
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
  /** All ways on. */
  children: Map<string, Shape<F>> | undefined;
  code: F | undefined;
  /** The function of the last shape that began with this one, by the count of its properties. */
  byFields: (F | undefined)[] | undefined;
  /** Makes the object of the values. */
  make: ((values: readonly unknown[]) => unknown) | undefined;
  visits = 0;
  /** Objects that had come before this was first seen. */
  since = 0;
  /** All names up to here, once they have been asked for. */
  keys: readonly string[] | undefined;

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
}

/** Stands for all that is not remembered. */
export const none = /* @__PURE__ */ new Shape<never>(undefined, undefined, 0, [], 0);

/**
 * The shapes that an encoder or a decoder has seen: a tree over property names in their order. Names that do not repeat
 * are forgotten, and switch learning off for a while; what is in steady use stays.
 */
export class Shapes<F> {
  /** The shape without any property, from where `next` leads on. */
  readonly root = new Shape<F>(undefined, undefined, 0, [], 0, none);
  private nodes = 0;
  private compiled = 0;
  private maps = 0;
  /** New names since the last judgement, and objects when the first of them came. */
  private created = 0;
  private since = 0;
  private pause: number;
  private nextPause = FIRST_PAUSE;

  constructor(learn: boolean) {
    this.pause = learn ? 0 : Infinity;
  }

  /** Counts an object, and gives the root. */
  begin(): Shape<F> {
    if (this.pause > 0) this.pause--;
    else this.maps++;
    return this.root;
  }

  /** The shape with `key` after those of `shape`, or `none`. */
  next(shape: Shape<F>, key: string): Shape<F> {
    if (shape === none || shape.last.key === key) return shape.last;
    const known = shape.children?.get(key);
    if (known !== undefined) return (shape.last = known);
    if (this.pause > 0) return none;
    if (this.created++ === 0) this.since = this.maps;
    if (this.created > WINDOW_NAMES) this.judge();
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
    child.since = this.maps;
    (shape.children ??= new Map<string, Shape<F>>()).set(key, child);
    return (shape.last = child);
  }

  /** After so many new names: whether there were objects enough that had use of what was learned; else a pause. */
  private judge(): void {
    const worth = this.maps - this.since > WINDOW_NAMES * WORTH;
    if (!worth) this.pause = this.nextPause;
    if (!worth || this.nodes >= MAX_NODES) {
      this.nodes = 0;
      this.prune(this.root);
    }
    this.nextPause = worth ? FIRST_PAUSE : Math.min(this.nextPause * 2, LONGEST_PAUSE);
    this.created = 0;
  }

  /** Forgets what is not in steady use, and says whether anything is left of `shape`. */
  private prune(shape: Shape<F>): boolean {
    let kept: Shape<F> = none;
    for (const [key, child] of shape.children ?? []) {
      if (this.prune(child)) kept = child;
      else shape.children!.delete(key);
    }
    shape.last = kept;
    this.nodes++;
    return kept !== none || shape.visits < 0;
  }

  /** Counts a visit, and says whether now is the time to make a function for `shape`. */
  isDue(shape: Shape<F>): boolean {
    if (++shape.visits % COMPILE_AFTER !== 0 || shape.visits * RARE < this.maps - shape.since) return false;
    if (shape === none || this.compiled >= MAX_COMPILED + this.maps / OBJECTS_PER_FUNCTION) return false;
    this.compiled++;
    shape.visits = STEADY;
    return true;
  }
}
