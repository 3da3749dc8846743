/**
 * Functions of the platform beyond the language, looked up once. All are optional: a missing one has a fallback
 * with the same results.
 */

interface NodeBytes {
  utf8Write(this: Uint8Array, text: string, offset: number, lengthBytes: number): number;
  utf8Slice(this: Uint8Array, start: number, end: number): string;
  latin1Slice(this: Uint8Array, start: number, end: number): string;
  ucs2Slice(this: Uint8Array, start: number, end: number): string;
}

interface Host {
  Buffer?: { prototype: Partial<NodeBytes> };
  process?: { versions?: { node?: string } };
}

const host = globalThis as Host;
const bytes = host.Buffer?.prototype;

const textEncoder = /* @__PURE__ */ new TextEncoder();

/** Writes UTF-8 (lone surrogates as U+FFFD) and returns the number of bytes. */
const nodeWrite = bytes?.utf8Write;
export const utf8Write: (target: Uint8Array, text: string, offset: number, lengthBytes: number) => number = nodeWrite
  ? (target, text, offset, lengthBytes) => nodeWrite.call(target, text, offset, lengthBytes)
  : (target, text, offset) => textEncoder.encodeInto(text, target.subarray(offset)).written;

/** Decodes UTF-8; ill-formed sequences become U+FFFD as in the WHATWG Encoding Standard. */
export const utf8Slice = /* @__PURE__ */ slicer(bytes?.utf8Slice, "utf-8");

/** Decodes one character per byte; used only for ASCII. */
export const latin1Slice = /* @__PURE__ */ slicer(bytes?.latin1Slice, "latin1");

/** Decodes UTF-16 in the byte order of the machine. Without it, decoding UTF-8 is fastest, so there is no fallback. */
export const utf16Slice = /* @__PURE__ */ findUtf16Slice();

function findUtf16Slice(): Slice | undefined {
  const isLittleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;
  return isLittleEndian && bytes?.ucs2Slice ? slicer(bytes.ucs2Slice, "utf-16le") : undefined;
}

type Slice = (source: Uint8Array, start: number, end: number) => string;

function slicer(native: NodeBytes["utf8Slice"] | undefined, label: string, fatal = false): Slice {
  if (native) return (source, start, end) => native.call(source, start, end);
  // The BOM is kept like any other character.
  const decoder = new TextDecoder(label, { ignoreBOM: true, fatal });
  // Browsers refuse to decode text directly from shared memory.
  return (source, start, end) => decoder.decode(source.buffer instanceof ArrayBuffer ? source.subarray(start, end) : source.slice(start, end));
}

export function isUtf8(source: Uint8Array, start: number, end: number): boolean {
  try {
    slicer(undefined, "utf-8", true)(source, start, end);
    return true;
  } catch {
    return false;
  }
}

/**
 * Compiles `body` as a function of `parameter`. Returns `undefined` if that is not allowed.
 * `"auto"` compiles only on servers: in a page with a Content Security Policy, even a caught attempt is reported as a violation.
 */
export function compile(setting: boolean | "auto", parameter: string, body: string): ((...values: unknown[]) => unknown) | undefined {
  if (setting === false || (setting === "auto" && !host.process?.versions?.node)) return undefined;
  try {
    // The text consists only of JSON.stringify output and integers.
    // eslint-disable-next-line @typescript-eslint/no-implied-eval
    return new Function(parameter, body) as (...values: unknown[]) => unknown;
  } catch {
    return undefined;
  }
}
