import { utf16Slice } from "./platform.js";

/** Up to so many letters (in units of UTF-16), the fastest way to a string is to list them. */
const LISTED = utf16Slice === undefined ? 64 : 32;
/** Longer text is left to the platform. */
const MAX_BYTES = utf16Slice === undefined ? LISTED : 2048;

/** Where text is put together, a list for each count of letters. Nothing else runs meanwhile, and nothing here is read again. */
const units = /* @__PURE__ */ new Uint16Array(MAX_BYTES);
const unitBytes = /* @__PURE__ */ new Uint8Array(units.buffer);
const lists: number[][] = [];

const { fromCharCode } = String;

/**
 * The text of the bytes from `start` to `end`; `undefined` where the platform is faster, and where they are not UTF-8: what
 * such bytes read as is for the platform to say.
 */
export function readUtf8(u: Uint8Array, start: number, end: number): string | undefined {
  if (end - start > MAX_BYTES) return undefined;
  let n = 0;
  let p = start;
  while (p < end) {
    let c = u[p++]!;
    if (c > 0x7f) {
      // What continues a letter is 0 to 0x3f now; a byte that is not there is 0x80.
      const d = u[p++]! ^ 0x80;
      if (c < 0xe0) {
        if (c < 0xc2 || d > 0x3f) return undefined;
        c = ((c & 0x1f) << 6) | d;
      } else {
        const e = u[p++]! ^ 0x80;
        if (c < 0xf0) {
          c = ((c & 0xf) << 12) | (d << 6) | e;
          if ((d | e) > 0x3f || c < 0x800 || (c & 0xf800) === 0xd800) return undefined;
        } else {
          const f = u[p++]! ^ 0x80;
          if (c > 0xf4 || (d | e | f) > 0x3f) return undefined;
          c = ((c & 7) << 18) | (d << 12) | (e << 6) | f;
          if (c < 0x10000 || c > 0x10ffff) return undefined;
          units[n++] = 0xd7c0 + (c >> 10);
          c = 0xdc00 | (c & 0x3ff);
        }
      }
    }
    units[n++] = c;
  }
  // The last letter went on past the end.
  if (p !== end) return undefined;
  if (n > LISTED) return utf16Slice?.(unitBytes, 0, n * 2);
  const list = lists[n] ?? makeList(n);
  for (let i = 0; i < n; i++) list[i] = units[i]!;
  return fromCharCode(...list);
}

/** Pushed one by one: engines know then that nothing is missing in it. */
function makeList(n: number): number[] {
  while (lists.length <= n) {
    const list: number[] = [];
    while (list.length < lists.length) list.push(0);
    lists.push(list);
  }
  return lists[n]!;
}

/** Writes `s` at `p`, where three bytes for each of its units have room, and gives the position after it. */
export function writeUtf8(u: Uint8Array, s: string, p: number): number {
  const n = s.length;
  for (let i = 0; i < n; i++) {
    let c = s.charCodeAt(i);
    if (c < 0x80) {
      u[p++] = c;
    } else if (c < 0x800) {
      u[p++] = 0xc0 | (c >> 6);
      u[p++] = 0x80 | (c & 0x3f);
    } else {
      if ((c & 0xf800) === 0xd800) {
        const d = c < 0xdc00 && i + 1 < n ? s.charCodeAt(i + 1) : 0;
        if ((d & 0xfc00) === 0xdc00) {
          c = 0x10000 + ((c & 0x3ff) << 10) + (d & 0x3ff);
          u[p++] = 0xf0 | (c >> 18);
          u[p++] = 0x80 | ((c >> 12) & 0x3f);
          u[p++] = 0x80 | ((c >> 6) & 0x3f);
          u[p++] = 0x80 | (c & 0x3f);
          i++;
          continue;
        }
        // Half of a letter.
        c = 0xfffd;
      }
      u[p++] = 0xe0 | (c >> 12);
      u[p++] = 0x80 | ((c >> 6) & 0x3f);
      u[p++] = 0x80 | (c & 0x3f);
    }
  }
  return p;
}
