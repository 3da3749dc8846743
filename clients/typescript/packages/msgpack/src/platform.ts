/**
 * What the platform has beyond the language, found once and never changed. Every part has a stand-in with the same
 * results, so that nothing here is needed.
 */

interface NodeBytes {
  utf8Write(this: Uint8Array, text: string, offset: number, lengthBytes: number): number;
  utf8Slice(this: Uint8Array, start: number, end: number): string;
  latin1Slice(this: Uint8Array, start: number, end: number): string;
}

interface Host {
  Buffer?: { prototype: Partial<NodeBytes> };
  process?: { versions?: { node?: string } };
}

const host = globalThis as Host;
const bytes = host.Buffer?.prototype;

export type Utf8Write = (target: Uint8Array, text: string, offset: number, lengthBytes: number) => number;
export type Slice = (source: Uint8Array, start: number, end: number) => string;

const textEncoder = /* @__PURE__ */ new TextEncoder();
// The BOM is a character like any other here: it is kept.
const textDecoder = /* @__PURE__ */ new TextDecoder("utf-8", { ignoreBOM: true });
const fatalTextDecoder = /* @__PURE__ */ new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

/** Writes UTF-8 (lone surrogates as U+FFFD) and returns the count of bytes. */
const nodeWrite = bytes?.utf8Write;
export const utf8Write: Utf8Write = nodeWrite
  ? (target, text, offset, lengthBytes) => nodeWrite.call(target, text, offset, lengthBytes)
  : (target, text, offset) => textEncoder.encodeInto(text, target.subarray(offset)).written;

/** Reads UTF-8; every ill-formed sequence becomes U+FFFD as the WHATWG Encoding Standard says. */
const nodeSlice = bytes?.utf8Slice;
export const utf8Slice: Slice = nodeSlice
  ? (source, start, end) => nodeSlice.call(source, start, end)
  : (source, start, end) => textDecoder.decode(unshared(source, start, end));

/** One character per byte, or `undefined` where the platform cannot do it fast. */
const nodeLatin1 = bytes?.latin1Slice;
export const latin1Slice: Slice | undefined = nodeLatin1 && ((source, start, end) => nodeLatin1.call(source, start, end));

export function isUtf8(source: Uint8Array, start: number, end: number): boolean {
  try {
    fatalTextDecoder.decode(unshared(source, start, end));
    return true;
  } catch {
    return false;
  }
}

/**
 * Compiles `body` as a function of `parameter`, or answers `undefined` where that is not allowed.
 * `"auto"` asks only on servers: in a page with a Content Security Policy, even a caught attempt is reported as a violation.
 */
export function compile(setting: boolean | "auto", parameter: string, body: string): ((argument: unknown) => unknown) | undefined {
  if (setting === false || (setting === "auto" && !host.process?.versions?.node)) return undefined;
  try {
    // Only text made from JSON.stringify and integers gets here.
    // eslint-disable-next-line @typescript-eslint/no-implied-eval
    return new Function(parameter, body) as (argument: unknown) => unknown;
  } catch {
    return undefined;
  }
}

/** Browsers refuse to decode text straight from shared memory. */
function unshared(source: Uint8Array, start: number, end: number): Uint8Array {
  return source.buffer instanceof ArrayBuffer ? source.subarray(start, end) : source.slice(start, end);
}
