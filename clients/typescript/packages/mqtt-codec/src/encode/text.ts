// Text to UTF-8, into bytes that are there.

type Write = (this: Uint8Array, text: string, at: number, length: number) => number;

/** {@link writeText} has met U+0000 `[MQTT-1.5.4-2]`. */
export const TEXT_HAS_NULL = -1;
/** {@link writeText} has met half of a surrogate pair `[MQTT-1.5.4-1]`. */
export const TEXT_IS_ILL_FORMED = -2;
/** {@link writeText} has met the end of the buffer. */
export const TEXT_DOES_NOT_FIT = -3;

/** Up to so many UTF-16 units a loop is faster than a call into the platform. */
const SHORT_MAX = 40;

/** What Node.js and Bun have on `Buffer`: for long ASCII text alone, all other text is written by the loop below. */
const platformWrite: Write | undefined = /* @__PURE__ */ (() => {
  const prototype = (globalThis as { Buffer?: { prototype?: { utf8Write?: unknown } } }).Buffer?.prototype;
  const write = prototype?.utf8Write;
  return typeof write === "function" ? (write as Write) : undefined;
})();

let utf8Write = platformWrite;

/** Whether the platform's own function may be used. For tests that hold both ways to the same result. */
export function usePlatformWrite(allowed: boolean): void {
  utf8Write = allowed ? platformWrite : undefined;
}

/**
 * Writes the UTF-8 of the text at `at`, not beyond `limit`, and answers where it ends, or one of the negative numbers above.
 * From `at` on there is room for at least as many bytes as the text has UTF-16 units.
 */
export function writeText(bytes: Uint8Array, at: number, limit: number, text: string): number {
  const length = text.length;
  if (length > SHORT_MAX && utf8Write !== undefined && limit - at >= length * 3) {
    // As many bytes as units: all of them are ASCII.
    if (utf8Write.call(bytes, text, at, length * 3) === length) {
      return text.includes("\0") ? TEXT_HAS_NULL : at + length;
    }
    return writeAny(bytes, at, limit, text, 0);
  }
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    const u0 = text.charCodeAt(i);
    const u1 = text.charCodeAt(i + 1);
    const u2 = text.charCodeAt(i + 2);
    const u3 = text.charCodeAt(i + 3);
    if ((u0 | u1 | u2 | u3) > 0x7f || ((u0 - 1) | (u1 - 1) | (u2 - 1) | (u3 - 1)) < 0) {
      return writeAny(bytes, at + i, limit, text, i);
    }
    bytes[at + i] = u0;
    bytes[at + i + 1] = u1;
    bytes[at + i + 2] = u2;
    bytes[at + i + 3] = u3;
  }
  for (; i < length; i++) {
    const unit = text.charCodeAt(i);
    // 0 becomes the largest number there is, all above ASCII stays above.
    if ((unit - 1) >>> 0 > 0x7e) return writeAny(bytes, at + i, limit, text, i);
    bytes[at + i] = unit;
  }
  return at + length;
}

/** Goes on at the unit `i`. */
function writeAny(bytes: Uint8Array, at: number, limit: number, text: string, i: number): number {
  for (; i < text.length; i++) {
    let point = text.charCodeAt(i);
    if (point === 0) return TEXT_HAS_NULL;
    if (point >= 0xd800 && point <= 0xdfff) {
      const low = text.charCodeAt(i + 1);
      // Beyond the end `low` is not a number, and the comparison fails.
      if (point > 0xdbff || !(low >= 0xdc00 && low <= 0xdfff)) return TEXT_IS_ILL_FORMED;
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
      i++;
    }
    const size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (at + size > limit) return TEXT_DOES_NOT_FIT;
    if (size === 1) {
      bytes[at++] = point;
      continue;
    }
    bytes[at] = (size === 2 ? 0xc0 : size === 3 ? 0xe0 : 0xf0) | (point >> (6 * (size - 1)));
    for (let more = 1; more < size; more++) {
      bytes[at + more] = 0x80 | ((point >> (6 * (size - 1 - more))) & 0x3f);
    }
    at += size;
  }
  return at;
}
