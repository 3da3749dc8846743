// Topics repeat on most connections, and so do the names and values of properties. A text that has been seen is found by its
// bytes and need be neither checked nor made again. Where texts do not repeat the cache would only cost time, so each
// connection watches its own use of it.

const SLOTS = 512;
/** Longer texts are not kept. */
const TEXT_MAX_BYTES = 64;
const TEXT_MAX_WORDS = TEXT_MAX_BYTES / 4;
/** A connection begins with so much credit. A hit adds one up to this, a miss takes one. */
const CREDIT = 256;
/** Without credit a connection does without the cache for so many lookups. Each following rest is twice as long. */
const FIRST_REST = 4096;
const LONGEST_REST = 1 << 20;

/** Texts and, 64 bytes apart, their UTF-8, four bytes in a word, the first lowest: 36 KB once, for all decoders, as connections of one server have much in common. */
interface Store {
  readonly texts: string[];
  readonly words: Int32Array;
}

const stores: (Store | undefined)[] = [];

/** What the texts are. Topics and topic filters have been checked as such, so that other texts must not be taken for them. */
export const TOPICS = 0;
export const TEXTS = 1;
export const FILTERS = 2;

/** One decoder's use of the texts that are kept. */
export class TextCache {
  private readonly texts: string[];
  private readonly kept: Int32Array;
  /** Above 0: the credit. Below: the lookups that are left of a rest. */
  private credit = CREDIT;
  private rest = FIRST_REST;

  constructor(kind: typeof TOPICS | typeof TEXTS | typeof FILTERS) {
    const store = (stores[kind] ??= {
      texts: new Array<string>(SLOTS).fill(""),
      words: new Int32Array(SLOTS * TEXT_MAX_WORDS),
    });
    this.texts = store.texts;
    this.kept = store.words;
  }

  /** The text of those bytes if it is kept. If not, {@link keep} may be called with it. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    const { credit } = this;
    const length = end - start;
    if (credit < 0) {
      this.credit = credit + 1 || CREDIT;
      return undefined;
    }
    if (length === 0 || length > TEXT_MAX_BYTES) return undefined;
    const slot = slotOf(bytes, start, end);
    const text = this.texts[slot]!;
    // All that is kept is ASCII: as many bytes as UTF-16 units.
    if (text.length !== length) return undefined;
    const { kept } = this;
    let word = slot * TEXT_MAX_WORDS;
    let at = start;
    for (; at + 4 <= end; at += 4) {
      // One comparison of four bytes takes less time than four.
      if (kept[word++] !== (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24))) return undefined;
    }
    for (let bits = kept[word]!; at < end; at++) {
      if ((bits & 0xff) !== bytes[at]) return undefined;
      bits >>= 8;
    }
    if (credit < CREDIT && (this.credit = credit + 1) === CREDIT) this.rest = FIRST_REST;
    return text;
  }

  /** Keeps the text of the last {@link find} that found none, if it is ASCII and the cache does not rest. */
  keep(text: string, bytes: Uint8Array, start: number, end: number): void {
    const { length } = text;
    if (this.credit < 0 || length !== end - start || length === 0 || length > TEXT_MAX_BYTES) return;
    if (--this.credit === 0) {
      this.credit = -this.rest;
      if (this.rest < LONGEST_REST) this.rest *= 2;
      return;
    }
    const slot = slotOf(bytes, start, end);
    this.texts[slot] = text;
    for (let at = 0; at < length; at++) {
      const word = slot * TEXT_MAX_WORDS + (at >> 2);
      // Shifts count modulo 32. The first byte of a word removes what stood there.
      this.kept[word] = (at & 3 && this.kept[word]!) | (bytes[start + at]! << (8 * at));
    }
  }
}

/** Texts of one system differ at their ends or in their middles. */
function slotOf(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start;
  return (
    (bytes[end - 1]! * 3 +
      bytes[start + (length >> 2)]! * 11 +
      bytes[start + (length >> 1)]! * 7 +
      bytes[start + ((length * 3) >> 2)]! * 31 +
      length * 5) &
    (SLOTS - 1)
  );
}
