// Topics repeat on most connections, and so do the names and values of properties. A text that has been seen is found by its
// bytes and need be neither checked nor made again. Where texts do not repeat the cache would only cost time, so each
// connection watches its own use of it.

const SLOTS = 512;
/** Longer texts are not kept. */
const TEXT_MAX_BYTES = 64;
/** After so many lookups the hits are counted. */
const TRIAL = 512;
/** With fewer hits than this in a trial the connection does without the cache for a while. */
const ENOUGH_HITS = TRIAL / 2;
/** The first rest in lookups. Each following one is twice as long, up to the longest. */
const FIRST_REST = 4096;
const LONGEST_REST = 1 << 20;

/** Texts and, 64 bytes apart, their UTF-8: 36 KB once, for all decoders, as connections of one server have much in common. */
interface Store {
  readonly texts: string[];
  readonly bytes: Uint8Array;
}

const stores: (Store | undefined)[] = [];

/** What the texts are. Topics have been checked for wildcards, so that other texts must not be taken for topics. */
export const TOPICS = 0;
export const PROPERTIES = 1;

function storeOf(kind: number): Store {
  return (stores[kind] ??= {
    texts: new Array<string>(SLOTS).fill(""),
    bytes: new Uint8Array(SLOTS * TEXT_MAX_BYTES),
  });
}

/** One decoder's use of the texts that are kept. */
export class TextCache {
  private readonly texts: string[];
  private readonly kept: Uint8Array;
  private lookups = 0;
  private hits = 0;
  /** Lookups until the next trial; 0 while the cache is in use. */
  private resting = 0;
  private rest = FIRST_REST;
  private slot = -1;

  constructor(kind: typeof TOPICS | typeof PROPERTIES) {
    const { texts, bytes } = storeOf(kind);
    this.texts = texts;
    this.kept = bytes;
  }

  /** The text of those bytes if it is kept. If not, {@link keep} may be called with it. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    this.slot = -1;
    if (this.resting !== 0) {
      this.resting--;
      return undefined;
    }
    const length = end - start;
    if (length === 0 || length > TEXT_MAX_BYTES) return undefined;
    if (this.lookups === TRIAL && !this.judge()) return undefined;
    this.lookups++;
    // Texts of one system differ at their ends or in their middles.
    const slot =
      (bytes[end - 1]! * 3 +
        bytes[start + (length >> 2)]! * 11 +
        bytes[start + (length >> 1)]! * 7 +
        bytes[start + ((length * 3) >> 2)]! * 31 +
        length * 5) &
      (SLOTS - 1);
    this.slot = slot;
    const text = this.texts[slot]!;
    // All that is kept is ASCII: as many bytes as UTF-16 units.
    if (text.length !== length) return undefined;
    const { kept } = this;
    // Four at a time: the loop itself takes longer than the comparisons.
    const shift = slot * TEXT_MAX_BYTES - start;
    let at = start;
    for (; at + 4 <= end; at += 4) {
      const other = at + shift;
      if (
        kept[other] !== bytes[at] ||
        kept[other + 1] !== bytes[at + 1] ||
        kept[other + 2] !== bytes[at + 2] ||
        kept[other + 3] !== bytes[at + 3]
      ) {
        return undefined;
      }
    }
    for (; at < end; at++) {
      if (kept[at + shift] !== bytes[at]) return undefined;
    }
    this.hits++;
    return text;
  }

  /** Keeps the text of the last {@link find} that found none, if it is ASCII. */
  keep(text: string, bytes: Uint8Array, start: number, end: number): void {
    const { slot, kept } = this;
    if (slot < 0 || text.length !== end - start) return;
    this.texts[slot] = text;
    let at = slot * TEXT_MAX_BYTES;
    for (let i = start; i < end; i++) kept[at++] = bytes[i]!;
  }

  /** Whether to go on. */
  private judge(): boolean {
    const goOn = this.hits >= ENOUGH_HITS;
    this.lookups = 0;
    this.hits = 0;
    if (goOn) {
      this.rest = FIRST_REST;
    } else {
      this.resting = this.rest;
      this.rest = Math.min(this.rest * 2, LONGEST_REST);
    }
    return goOn;
  }
}
