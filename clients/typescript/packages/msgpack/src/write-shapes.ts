import { compile, utf8Write } from "./platform.js";
import { isAbsent, isPlain, type Properties, type Writer } from "./writer.js";

/** Writes one plain object of a known shape; `depth` is that of its values. */
export type WriteShape = (writer: Writer, o: Properties, p: number, depth: number) => number;

/** Property names known in one place of the tree of names. */
const MAX_NODES = 4096;
/** Objects with more properties are written without learning. */
const MAX_FIELDS = 64;
/** Functions compiled in the time of REFILL_MAPS objects: compiling costs as much as writing hundreds of objects. */
const MAX_COMPILED = 256;
const REFILL_MAPS = 1 << 20;
/** Visits after which a shape is worth knowing, and worth compiling. */
const LEARN_AFTER = 2;
const COMPILE_AFTER = 32;
/** After this many new names, names must have been used WORTH times as often. */
const WINDOW_NAMES = 256;
const WORTH = 4;
const FIRST_PAUSE = 1024;
const LONGEST_PAUSE = 65536;

const EMPTY = {};

class Node {
  /** The child taken last: most objects follow the one before. */
  last: Node | null = null;
  children: Map<string, Node> | null = null;
  write: WriteShape | null = null;
  visits = 0;

  constructor(
    readonly key: string,
    readonly parent: Node | null,
    readonly depth: number,
  ) {}
}

/**
 * The shapes that an encoder has seen: a tree over the property names of plain objects in their order. A shape seen
 * often gets a writer that has its names as bytes. Names that do not repeat switch learning off for a while.
 */
export class WriteShapes {
  /** False when somebody made `Object.prototype` enumerable: then only own properties may be taken, the slow way. */
  clean = true;
  private root = new Node("", null, 0);
  private nodes = 0;
  private compiled = 0;
  private sinceRefill = 0;
  private maps = 0;
  private created = 0;
  private pause: number;
  private nextPause = FIRST_PAUSE;

  constructor(
    learn: boolean,
    private readonly generate: boolean | "auto",
    private readonly float32: boolean,
  ) {
    this.pause = learn ? 0 : Infinity;
  }

  /** To be called once per message. */
  begin(): void {
    this.clean = true;
    for (const k in EMPTY) this.clean = k === "";
  }

  /** The writer for objects like `o`, if it is known. */
  find(o: Properties): WriteShape | null {
    if (this.pause > 0 || !this.clean) {
      this.pause--;
      return null;
    }
    this.maps++;
    let node = this.root;
    for (const k in o) {
      let child = node.last;
      if (child?.key !== k) {
        child = this.child(node, k);
        if (child === null) return null;
        node.last = child;
      }
      node = child;
    }
    return node.write ?? this.learn(node);
  }

  private child(node: Node, key: string): Node | null {
    const known = node.children?.get(key);
    if (known !== undefined) return known;
    if (++this.created > WINDOW_NAMES) {
      const worth = this.maps > this.created * WORTH;
      this.pause = worth ? 0 : this.nextPause;
      this.nextPause = worth ? FIRST_PAUSE : Math.min(this.nextPause * 2, LONGEST_PAUSE);
      if (!worth) this.forget();
      this.sinceRefill += this.maps;
      this.created = this.maps = 0;
      return null;
    }
    if (this.nodes >= MAX_NODES) {
      if (this.maps > LONGEST_PAUSE) this.forget();
      return null;
    }
    if (node.depth >= MAX_FIELDS) return null;
    this.nodes++;
    const child = new Node(key, node, node.depth + 1);
    node.children ??= new Map();
    node.children.set(key, child);
    return child;
  }

  private forget(): void {
    this.root = new Node("", null, 0);
    this.nodes = 0;
  }

  private mayCompile(): boolean {
    if (this.sinceRefill + this.maps > REFILL_MAPS) this.compiled = this.sinceRefill = 0;
    return this.compiled < MAX_COMPILED;
  }

  private learn(node: Node): WriteShape | null {
    if (++node.visits < LEARN_AFTER || !this.clean) return null;
    const keys: string[] = [];
    for (let at = node; at.parent; at = at.parent) keys.unshift(at.key);
    // Own `toJSON` decides how the object is written; `__proto__` is left to the careful way.
    if (keys.includes("toJSON") || keys.includes("__proto__")) return null;
    const names = keys.map(encodedName);
    const interpreted = interpret(keys, names);
    let left = COMPILE_AFTER;
    node.write = (writer, o, p, depth) => {
      if (--left === 0 && this.mayCompile()) {
        const made = compile(this.generate, "absent", source(keys, names, this.float32))?.(isAbsent) as WriteShape | undefined;
        if (made) {
          this.compiled++;
          node.write = made;
        }
      }
      return interpreted(writer, o, p, depth);
    };
    return node.write;
  }
}

/** A name as it goes on the wire, header and all. */
export function encodedName(name: string): Uint8Array {
  const text = new Uint8Array(name.length * 3 + 5);
  const n = utf8Write(text, name, 5, name.length * 3);
  const header = n < 32 ? [0xa0 | n] : n < 0x100 ? [0xd9, n] : n < 0x10000 ? [0xda, n >> 8, n] : [0xdb, n >> 24, n >> 16, n >> 8, n];
  text.set(header, 5 - header.length);
  return text.subarray(5 - header.length, 5 + n);
}

function interpret(keys: readonly string[], names: readonly Uint8Array[]): WriteShape {
  const n = keys.length;
  return (writer, o, p, depth) => {
    if (!isPlain(o)) return writer.special(o, p, depth);
    const start = p - writer.origin;
    p = writer.mapHeader(n, p);
    let written = 0;
    let i = 0;
    for (const k in o) {
      // A property may vanish while the ones before it are written.
      while (i < n && keys[i] !== k) i++;
      if (i === n) break;
      const name = names[i]!;
      const v = o[k];
      if (isAbsent(v)) continue;
      p = writer.ensure(p, name.length);
      const u = writer.bytes;
      for (let j = 0; j < name.length; j++) u[p++] = name[j]!;
      p = writer.value(v, p, depth);
      written++;
    }
    return writer.recount(start, n, written, p);
  };
}

/**
 * The same as `interpret` as source text: names become constant words, values are dispatched in place. One check per
 * stretch makes room for all names and numbers up to the next value of unknown length.
 */
function source(keys: readonly string[], names: readonly Uint8Array[], float32: boolean): string {
  const n = keys.length;
  let room = 5;
  for (const name of names) room += name.length + 9;
  // After the first property is read, engines know the prototype: but only by this name, which a host may forbid.
  const plain = `if(${protoIsReadable() ? "o.__proto__" : "Object.getPrototypeOf(o)"}!==Object.prototype)return w.special(o,w.origin+s,z);`;
  const float = float32
    ? ""
    : "if(v!==Math.floor(v)&&v===v){u[p]=203;d.setFloat64(p+1,v);p+=9}else ";
  let body = `return function(w,o,p,z){var u,d,v,q,m=${n},s=p-w.origin;p=w.ensure(p,${room});p=w.mapHeader(${n},p);u=w.bytes;d=w.view;`;
  room -= 5;
  for (let i = 0; i < n; i++) {
    const name = names[i]!;
    room -= name.length + 9;
    body += `v=o[${JSON.stringify(keys[i])}];${i === 0 ? plain : ""}q=p;${stores(name)}p+=${name.length};
if(typeof v==="number"){if((v|0)===v&&v>0&&v<128)u[p++]=v;else ${float}p=w.number(v,p)}
else{if(typeof v==="string")p=w.string(v,p);else if(typeof v==="object"&&v!==null)p=w.object(v,p,z);else if(absent(v)){p=q;m--}else p=w.value(v,p,z);p=w.ensure(p,${room});u=w.bytes;d=w.view}
`;
  }
  if (n === 0) body += plain;
  return `${body}return m===${n}?p:w.recount(s,${n},m,p)}`;
}

function protoIsReadable(): boolean {
  try {
    return (EMPTY as { __proto__?: unknown }).__proto__ === Object.prototype;
  } catch {
    return false;
  }
}

/** Stores of constant bytes at `p`, as wide as they go and never past the end. */
function stores(name: Uint8Array): string {
  const n = name.length;
  const view = new DataView(name.buffer, name.byteOffset, n);
  let text = "";
  let at = 0;
  for (; at + 4 <= n; at += 4) text += `d.setInt32(p+${at},${view.getInt32(at)});`;
  if (at < n && n >= 4) return `${text}d.setInt32(p+${n - 4},${view.getInt32(n - 4)});`;
  for (; at < n; at++) text += `u[p+${at}]=${name[at]!};`;
  return text;
}
