// Classifies the bytes of a string before it is decoded.

/** U+0000, or a byte that is not ASCII. */
export const UNUSUAL = 1;
/** `+` or `#`. */
export const WILDCARD = 2;

const FLAGS: Uint8Array = /* @__PURE__ */ (() => {
  const table = new Uint8Array(256).fill(UNUSUAL, 0x80);
  table[0] = UNUSUAL;
  table[0x2b] = table[0x23] = WILDCARD;
  return table;
})();

/** Returns which of the flags apply to the bytes. */
export function flagsOf(bytes: Uint8Array, start: number, end: number): number {
  let flags = 0;
  let at = start;
  // Four at a time, because the loop overhead exceeds the lookups.
  for (; at + 4 <= end; at += 4) {
    flags |= FLAGS[bytes[at]!]! | FLAGS[bytes[at + 1]!]! | FLAGS[bytes[at + 2]!]! | FLAGS[bytes[at + 3]!]!;
  }
  for (; at < end; at++) flags |= FLAGS[bytes[at]!]!;
  return flags;
}
