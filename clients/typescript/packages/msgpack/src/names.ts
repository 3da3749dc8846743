const MAX_SLOTS = 4096;
const MIN_SLOTS = 16;
/** The number of slots in which a name can be. */
const WAYS = 4;
/** A repeated name stays until this many other names have wanted its slot. */
const STAY = 8;
/** Names up to this length are identified by their words; for longer ones, the bytes between the words are compared. */
const MAX_WORDS_BYTES = 15;

/**
 * Returns the interned copy of `name`, by which the engine compares names. With another copy, each access would search for this
 * one, which is slower than everything else.
 */
export function intern(name: string): string {
  const table = Object.create(null) as Record<string, unknown>;
  table[name] = 0;
  for (const own in table) return own;
  return name;
}

/**
 * A cache of property names by their bytes: a comparison is faster than creating a string, and than finding the engine's copy of it.
 * A name is identified by up to four words of its encoding, header included: the first three and the last, which may overlap.
 */
export class Names {
  /** The number of failed lookups. */
  misses = 0;
  private texts: string[] = [];
  private words = new Int32Array(0);
  /** 0 for a name that was seen once. The others are interned, and stay for this many misses. */
  private stay = new Uint8Array(0);
  private shift = 32;
  /** The words and the slot of the last lookup. */
  private slot = 0;
  private first = 0;
  private second = 0;
  private third = 0;
  private last = 0;

  /** Returns the cached name of `n` bytes (at most 31) whose header is at `p`. */
  find(u: Uint8Array, d: DataView, p: number, n: number): string | undefined {
    let first: number;
    let last: number;
    let second = 0;
    let third = 0;
    if (n > 2) {
      first = d.getInt32(p);
      last = d.getInt32(p + n - 3);
      if (n > 7) second = d.getInt32(p + 4);
      if (n > 11) third = d.getInt32(p + 8);
    } else {
      first = (u[p]! << 16) | (n > 0 ? u[p + 1]! << 8 : 0);
      last = n > 1 ? u[p + 2]! : 0;
    }
    let hash = Math.imul(first, 0x9e3779b1) ^ Math.imul(last, 0x85ebca6b);
    if (n > 7) hash ^= Math.imul(second, 0xc2b2ae35) ^ Math.imul(third, 0x27d4eb2f);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    const { words, texts, shift } = this;
    this.first = first;
    this.second = second;
    this.third = third;
    this.last = last;
    if (shift === 32) return undefined;
    this.slot = hash >>> shift;
    for (let way = 0; way < WAYS; way++) {
      const slot = this.slot ^ way;
      const at = slot << 2;
      if (words[at] !== first || words[at + 1] !== last || words[at + 2] !== second || words[at + 3] !== third) continue;
      const text = texts[slot]!;
      let i = n - 4;
      while (i > 11 && text.charCodeAt(i - 1) === u[p + i]) i--;
      if (i <= 11) return this.stay[slot] === STAY ? text : this.recognise(slot, text);
    }
    return undefined;
  }

  private recognise(slot: number, text: string): string {
    if (this.stay[slot] === 0) this.texts[slot] = text = intern(text);
    this.stay[slot] = STAY;
    return text;
  }

  /** Caches the `name` of `n` bytes of the last lookup. `inputBytes`, the size of the input, determines the size of the table. */
  add(name: string, n: number, inputBytes: number): void {
    this.misses++;
    // Between the words, only characters of one byte can be compared.
    if (n > MAX_WORDS_BYTES && name.length !== n) return;
    const wanted = Math.max(MIN_SLOTS, Math.min(MAX_SLOTS, 1 << Math.max(0, 30 - Math.clz32(inputBytes))));
    if (this.texts.length < wanted) {
      this.texts = new Array<string>(wanted).fill("");
      this.words = new Int32Array(wanted << 2);
      this.stay = new Uint8Array(wanted);
      this.shift = Math.clz32(wanted) + 1;
      return;
    }
    const { words, texts, stay } = this;
    const slot = words[this.slot << 2] === 0 ? this.slot : this.slot ^ (this.misses & (WAYS - 1));
    const at = slot << 2;
    if (stay[slot]! > 1) {
      stay[slot]!--;
      return;
    }
    stay[slot] = 0;
    texts[slot] = name;
    words[at] = this.first;
    words[at + 1] = this.last;
    words[at + 2] = this.second;
    words[at + 3] = this.third;
  }
}
