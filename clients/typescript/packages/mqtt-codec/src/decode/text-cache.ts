// Topics repeat on most connections, and so do the names and values of properties. A cached string is found by its bytes and need
// not be validated or decoded again. Because the cache only costs time if strings do not repeat, each connection measures its hits
// and misses.

const SLOTS = 512;
/** Longer strings are not cached. */
const TEXT_MAX_BYTES = 64;
const TEXT_MAX_WORDS = TEXT_MAX_BYTES / 4;
/** The initial and maximum credit of a connection. A hit adds one, a miss takes one. */
const CREDIT = 256;
/** Without credit, a connection skips the cache for this many lookups. Each further pause is twice as long. */
const FIRST_PAUSE = 4096;
const LONGEST_PAUSE = 1 << 20;

/**
 * The strings and, at intervals of 64 bytes, their UTF-8 as little-endian 32-bit words: 36 KB. All decoders share it, because the
 * connections of one server have many strings in common.
 */
interface Store {
  readonly texts: string[];
  readonly words: Int32Array;
}

const stores: (Store | undefined)[] = [];

/** The kinds of strings. Topics and topic filters are validated, so that each kind needs a cache. */
export const TOPICS = 0;
export const TEXTS = 1;
export const FILTERS = 2;

/** A decoder's view of the shared cache. */
export class TextCache {
  private readonly texts: string[];
  private readonly words: Int32Array;
  /** Above 0: the credit. Below 0: the remaining lookups of a pause. */
  private credit = CREDIT;
  private rest = FIRST_PAUSE;

  constructor(kind: typeof TOPICS | typeof TEXTS | typeof FILTERS) {
    const store = (stores[kind] ??= {
      texts: new Array<string>(SLOTS).fill(""),
      words: new Int32Array(SLOTS * TEXT_MAX_WORDS),
    });
    this.texts = store.texts;
    this.words = store.words;
  }

  /** Returns the cached string of these bytes. If there is none, {@link add} may be called with it. */
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
    // Cached strings are ASCII: as many bytes as UTF-16 units.
    if (text.length !== length) return undefined;
    const { words } = this;
    let word = slot * TEXT_MAX_WORDS;
    let at = start;
    for (; at + 4 <= end; at += 4) {
      // One comparison of a word is faster than four of bytes.
      if (words[word++] !== (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24))) return undefined;
    }
    for (let bits = words[word]!; at < end; at++) {
      if ((bits & 0xff) !== bytes[at]) return undefined;
      bits >>= 8;
    }
    if (credit < CREDIT && (this.credit = credit + 1) === CREDIT) this.rest = FIRST_PAUSE;
    return text;
  }

  /** Caches the string of the last failed {@link find}, if it is ASCII and the cache is not paused. */
  add(text: string, bytes: Uint8Array, start: number, end: number): void {
    const { length } = text;
    if (this.credit < 0 || length !== end - start || length === 0 || length > TEXT_MAX_BYTES) return;
    if (--this.credit === 0) {
      this.credit = -this.rest;
      if (this.rest < LONGEST_PAUSE) this.rest *= 2;
      return;
    }
    const slot = slotOf(bytes, start, end);
    this.texts[slot] = text;
    for (let at = 0; at < length; at++) {
      const word = slot * TEXT_MAX_WORDS + (at >> 2);
      // Shifts count modulo 32. The first byte of a word clears its old value.
      this.words[word] = (at & 3 && this.words[word]!) | (bytes[start + at]! << (8 * at));
    }
  }
}

/** Hashes bytes of the end and the middle, where the strings of one system differ. */
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
