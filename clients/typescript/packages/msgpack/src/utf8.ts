import { utf16Slice } from "./platform.js";

/** Longer text is decoded by the platform. */
const MAX_BYTES = utf16Slice === undefined ? 96 : 2048;

/** The buffer for decoded text. No other code runs in between, and it is not read afterwards. */
const units = /* @__PURE__ */ new Uint16Array(MAX_BYTES);
const unitBytes = /* @__PURE__ */ new Uint8Array(units.buffer);

const { fromCharCode } = String;

/** The bit patterns of two 2-byte characters, of a 3-byte character and any byte, and of four ASCII characters, in four bytes. */
const TWO_MASK = 0xe0c0e0c0 | 0;
const TWO = 0xc080c080 | 0;
const THREE_MASK = 0xf0c0c000 | 0;
const THREE = 0xe0808000 | 0;
const ASCII_MASK = 0x80808080 | 0;

/**
 * Decodes the bytes from `start` to `end`. Returns `undefined` if the platform is faster, or if they are not UTF-8, which the
 * platform has to decode.
 */
export function readUtf8(u: Uint8Array, d: DataView, start: number, end: number): string | undefined {
  if (end - start > MAX_BYTES) return undefined;
  let n = 0;
  let p = start;
  while (p < end) {
    if (p + 4 <= end) {
      const w = d.getInt32(p);
      if ((w & TWO_MASK) === TWO) {
        const a = ((w >> 18) & 0x7c0) | ((w >> 16) & 0x3f);
        const b = ((w >> 2) & 0x7c0) | (w & 0x3f);
        if (a < 0x80 || b < 0x80) return undefined;
        units[n] = a;
        units[n + 1] = b;
        n += 2;
        p += 4;
        continue;
      }
      if ((w & THREE_MASK) === THREE) {
        const a = ((w >> 12) & 0xf000) | ((w >> 10) & 0xfc0) | ((w >> 8) & 0x3f);
        if (a < 0x800 || (a & 0xf800) === 0xd800) return undefined;
        units[n++] = a;
        p += 3;
        continue;
      }
      if ((w & ASCII_MASK) === 0) {
        units[n] = w >> 24;
        units[n + 1] = (w >> 16) & 0xff;
        units[n + 2] = (w >> 8) & 0xff;
        units[n + 3] = w & 0xff;
        n += 4;
        p += 4;
        continue;
      }
    }
    let c = u[p++]!;
    if (c > 0x7f) {
      // Continuation bytes are 0 to 0x3f now; a missing byte is 0x80.
      const x = u[p++]! ^ 0x80;
      if (c < 0xe0) {
        if (c < 0xc2 || x > 0x3f) return undefined;
        c = ((c & 0x1f) << 6) | x;
      } else {
        const y = u[p++]! ^ 0x80;
        if (c < 0xf0) {
          c = ((c & 0xf) << 12) | (x << 6) | y;
          if ((x | y) > 0x3f || c < 0x800 || (c & 0xf800) === 0xd800) return undefined;
        } else {
          const z = u[p++]! ^ 0x80;
          if (c > 0xf4 || (x | y | z) > 0x3f) return undefined;
          c = ((c & 7) << 18) | (x << 12) | (y << 6) | z;
          if (c < 0x10000 || c > 0x10ffff) return undefined;
          units[n++] = 0xd7c0 + (c >> 10);
          c = 0xdc00 | (c & 0x3ff);
        }
      }
    }
    units[n++] = c;
  }
  // If `p` is past the end, the last character is incomplete.
  return p === end ? textOf(n) : undefined;
}

/** Returns the first `n` units. For few units, one call with spare arguments and a slice is faster than an array or the platform. */
function textOf(n: number): string {
  const c = units;
  if (n <= 4) return cut(fromCharCode(c[0]!, c[1]!, c[2]!, c[3]!), n);
  if (n <= 8) return cut(fromCharCode(c[0]!, c[1]!, c[2]!, c[3]!, c[4]!, c[5]!, c[6]!, c[7]!), n);
  if (n <= 16) return cut(fromCharCode(c[0]!, c[1]!, c[2]!, c[3]!, c[4]!, c[5]!, c[6]!, c[7]!, c[8]!, c[9]!, c[10]!, c[11]!, c[12]!, c[13]!, c[14]!, c[15]!), n);
  return utf16Slice === undefined ? fromCharCode(...c.subarray(0, n)) : utf16Slice(unitBytes, 0, n * 2);
}

function cut(s: string, n: number): string {
  return n === s.length ? s : s.substring(0, n);
}

/** Writes `s` at `p`, where there must be room for three bytes per unit. Returns the position after it. */
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
        // A lone surrogate.
        c = 0xfffd;
      }
      u[p++] = 0xe0 | (c >> 12);
      u[p++] = 0x80 | ((c >> 6) & 0x3f);
      u[p++] = 0x80 | (c & 0x3f);
    }
  }
  return p;
}
