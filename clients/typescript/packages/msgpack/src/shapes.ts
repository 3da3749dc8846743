import { utf8Write } from "./platform.js";

/** The maximum number of nodes of the tree. */
const MAX_NODES = 4096;
/** Objects with more properties, and names with more bytes, are not learned. */
export const MAX_FIELDS = 128;
const MAX_NAME_BYTES = 31;
/** The visits after which a shape is compiled, if at least one in RARE objects since its first visit had it. */
const COMPILE_AFTER = 32;
const RARE = 64;
/** The visits of a shape in steady use start at this number. */
const STEADY = -(2 ** 30);
/** Shapes with more properties are not compiled to inline code, because engines take long to optimize it. */
export const MAX_INLINE = 64;
/** The initial number of functions that may be compiled, and one more for this many objects: compiling costs as much as hundreds of them. */
const MAX_COMPILED = 256;
const OBJECTS_PER_FUNCTION = 4096;
/** After this many new names, there must have been WORTH times as many objects; otherwise learning pauses. */
const WINDOW_NAMES = 256;
const WORTH = 4;
const FIRST_PAUSE = 1024;
const LONGEST_PAUSE = 65536;

/** The buffer in which a name is encoded. */
const text = /* @__PURE__ */ new Uint8Array(1 + MAX_NAME_BYTES * 3);
const words = /* @__PURE__ */ new DataView(text.buffer);

/** A node of the tree: the properties from the root to here, in this order. `F` is a compiled function for such objects. */
export class Shape<F> {
  /** The child of the last object, because most objects are like the one before. `none` without children. */
  last: Shape<F>;
  /** All children, by name. */
  children: Map<string, Shape<F>> | undefined;
  code: F | undefined;
  /** The function of the last shape that started with this one, by the number of its properties. */
  byFields: (F | undefined)[] | undefined;
  /** Creates the object from the values. */
  make: ((values: readonly unknown[]) => unknown) | undefined;
  visits = 0;
  /** The number of objects before the first visit. */
  since = 0;
  /** All names up to here, created on demand. */
  keys: readonly string[] | undefined;

  constructor(
    readonly key: string | undefined,
    readonly parent: Shape<F> | undefined,
    readonly fields: number,
    /** The encoding of the last name: words of four bytes, then single bytes. `size` is the number of bytes. */
    readonly name: readonly number[],
    readonly size: number,
    last?: Shape<F>,
  ) {
    this.last = last ?? this;
  }
}

/** Represents all shapes that are not learned. */
export const none = /* @__PURE__ */ new Shape<never>(undefined, undefined, 0, [], 0);

/**
 * The shapes that an encoder or a decoder has learned: a tree of property names in their order. Names that do not repeat
 * are dropped, and pause learning for a while; shapes in steady use stay.
 */
export class Shapes<F> {
  /** The shape without properties, from which `next` starts. */
  readonly root = new Shape<F>(undefined, undefined, 0, [], 0, none);
  private nodes = 0;
  private compiled = 0;
  private maps = 0;
  /** New names since the last evaluation, and the number of objects at the first of them. */
  private created = 0;
  private since = 0;
  private pause: number;
  private nextPause = FIRST_PAUSE;

  constructor(learn: boolean) {
    this.pause = learn ? 0 : Infinity;
  }

  /** Counts an object, and returns the root. */
  begin(): Shape<F> {
    if (this.pause > 0) this.pause--;
    else this.maps++;
    return this.root;
  }

  /** Returns the shape with `key` after those of `shape`, or `none`. */
  next(shape: Shape<F>, key: string): Shape<F> {
    if (shape === none || shape.last.key === key) return shape.last;
    const known = shape.children?.get(key);
    if (known !== undefined) return (shape.last = known);
    if (this.pause > 0) return none;
    if (this.created++ === 0) this.since = this.maps;
    if (this.created > WINDOW_NAMES) this.judge();
    // `toJSON` determines how an object is encoded; `__proto__` needs special handling.
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

  /** Evaluates, after WINDOW_NAMES new names, whether enough objects used the learned shapes; otherwise pauses learning. */
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

  /** Drops shapes that are not in steady use. Returns whether anything of `shape` remains. */
  private prune(shape: Shape<F>): boolean {
    let remaining: Shape<F> = none;
    for (const [key, child] of shape.children ?? []) {
      if (this.prune(child)) remaining = child;
      else shape.children!.delete(key);
    }
    shape.last = remaining;
    this.nodes++;
    return remaining !== none || shape.visits < 0;
  }

  /** Counts a visit. Returns whether to compile a function for `shape` now. */
  isDue(shape: Shape<F>): boolean {
    if (++shape.visits % COMPILE_AFTER !== 0 || shape.visits * RARE < this.maps - shape.since) return false;
    if (shape === none || this.compiled >= MAX_COMPILED + this.maps / OBJECTS_PER_FUNCTION) return false;
    this.compiled++;
    shape.visits = STEADY;
    return true;
  }
}
