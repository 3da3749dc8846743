/** Slots to begin with, and at most: they grow before names are given up. */
const FEW_SLOTS = 256;
const MANY_SLOTS = 4096;
/** Longer names are rare, and not worth the comparison. */
const MAX_BYTES = 24;
/** After this many new names, names must have been looked for WORTH times as often; else a pause. */
const WINDOW_NAMES = 1024;
const WORTH = 2;
const PAUSE = 65536;

/**
 * Property names by their bytes: engines keep one copy of each name, and finding that copy again costs more than
 * comparing a few characters. Names that do not repeat switch it off for a while.
 */
export class KeyCache {
  private names = new Array<string>(FEW_SLOTS).fill("");
  private seen = new Int32Array(FEW_SLOTS);
  private hash = 0;
  private lookups = 0;
  private added = 0;
  private pause = 0;

  /** The name of `n` bytes at `a`, if it is known. Names are compared in full. */
  find(bytes: Uint8Array, a: number, n: number): string | undefined {
    this.hash = 0;
    if (n > MAX_BYTES || n === 0) return undefined;
    if (this.pause > 0) {
      this.pause--;
      return undefined;
    }
    this.lookups++;
    let h = n;
    for (let i = 0; i < n; i++) h = Math.imul(h, 31) + bytes[a + i]!;
    h |= 1;
    this.hash = h;
    const name = this.names[this.slotOf(h)]!;
    if (name.length !== n) return undefined;
    for (let i = 0; i < n; i++) if (name.charCodeAt(i) !== bytes[a + i]) return undefined;
    return name;
  }

  /** Remembers `name`, which `find` just did not find, the second time. Only ASCII names can be found by their bytes. */
  add(name: string): void {
    const h = this.hash;
    if (h === 0) return;
    if (++this.added > WINDOW_NAMES) {
      if (this.lookups < this.added * WORTH) this.crowded();
      this.added = this.lookups = 0;
    }
    const slot = this.slotOf(h);
    if (this.seen[slot] === h) this.names[slot] = Object.keys({ [name]: 0 })[0]!;
    else this.seen[slot] = h;
  }

  private crowded(): void {
    const slots = this.names.length * 4;
    if (slots > MANY_SLOTS) {
      this.pause = PAUSE;
      return;
    }
    this.names = new Array<string>(slots).fill("");
    this.seen = new Int32Array(slots);
  }

  private slotOf(hash: number): number {
    return ((hash >>> 1) ^ (hash >>> 13)) & (this.names.length - 1);
  }
}
