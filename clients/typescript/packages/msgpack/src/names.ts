const MAX_SLOTS = 4096;
const MIN_SLOTS = 16;
/** Names up to this length are told apart by their words alone; in longer ones, what is between the words is compared. */
const MAX_WORDS_BYTES = 15;

/**
 * Property names by their bytes: engines keep one copy of each, and finding that copy again costs more than comparing. A
 * name is up to four words of what is on the wire, header included: the first three and the last, which may overlap. Each
 * has two places where it may be.
 */
export class Names {
  /** Names that were asked for and not known. */
  misses = 0;
  private texts: string[] = [];
  private words = new Int32Array(0);
  private shift = 32;
  /** What was asked for last. */
  private slot = 0;
  private first = 0;
  private second = 0;
  private third = 0;
  private last = 0;

  /** The name of `n` bytes (31 at most) whose header is at `p`, if it is known. */
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
    let hash = Math.imul(first ^ Math.imul(last, 0x85ebca6b), 0x9e3779b1);
    if (n > 7) hash = Math.imul(hash ^ second ^ Math.imul(third, 0xc2b2ae35), 0x9e3779b1);
    const { words, texts, shift } = this;
    this.first = first;
    this.second = second;
    this.third = third;
    this.last = last;
    if (shift === 32) return undefined;
    let slot = hash >>> shift;
    this.slot = slot;
    for (let way = 0; way < 2; way++, slot ^= 1) {
      const at = slot << 2;
      if (words[at] !== first || words[at + 1] !== last || words[at + 2] !== second || words[at + 3] !== third) continue;
      const text = texts[slot]!;
      let i = n - 4;
      while (i > 11 && text.charCodeAt(i - 1) === u[p + i]) i--;
      if (i <= 11) return text;
    }
    return undefined;
  }

  /** Keeps `name`, of `n` bytes, as what was asked for last, in an input of `inputBytes`: it tells how large a table pays. */
  add(name: string, n: number, inputBytes: number): void {
    this.misses++;
    // Between the words, only a character that is one byte can be compared with it.
    if (n > MAX_WORDS_BYTES && name.length !== n) return;
    const wanted = Math.max(MIN_SLOTS, Math.min(MAX_SLOTS, 1 << Math.max(0, 30 - Math.clz32(inputBytes))));
    if (this.texts.length < wanted) {
      this.texts = new Array<string>(wanted).fill("");
      this.words = new Int32Array(wanted << 2);
      this.shift = Math.clz32(wanted) + 1;
      return;
    }
    const { words, texts, slot } = this;
    const at = slot << 2;
    const other = (slot ^ 1) << 2;
    texts[slot ^ 1] = texts[slot]!;
    for (let i = 0; i < 4; i++) words[other + i] = words[at + i]!;
    texts[slot] = name;
    words[at] = this.first;
    words[at + 1] = this.last;
    words[at + 2] = this.second;
    words[at + 3] = this.third;
  }
}
