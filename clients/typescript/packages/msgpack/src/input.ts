import { invalidArgument, invalidOption } from "./error.js";
import type { Extension } from "./extension.js";

/** What bytes may come as: a view of memory, as exactly the part that it shows, or the memory itself. */
export type Bytes = ArrayBufferView | ArrayBufferLike;

/** `input` as a view; one that is a view already is given back as it is. */
export function viewOf(input: Bytes): ArrayBufferView {
  return ArrayBuffer.isView(input) ? input : isMemory(input) ? new Uint8Array(input) : notBytes(input);
}

/** `input` as its bytes. */
export function bytesOf(input: Bytes): Uint8Array {
  const view = viewOf(input);
  return isUint8Array(view) ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** Also those of another realm, such as the one that a test runner makes. */
export function isUint8Array(v: unknown): v is Uint8Array {
  return v instanceof Uint8Array || (ArrayBuffer.isView(v) && (v as Partial<Uint8Array>)[Symbol.toStringTag] === "Uint8Array");
}

export function isMemory(v: unknown): v is ArrayBufferLike {
  const tag = Object.prototype.toString.call(v);
  return tag === "[object ArrayBuffer]" || tag === "[object SharedArrayBuffer]";
}

function notBytes(given: unknown): never {
  return invalidArgument(`the input is ${kindOf(given)}, not a Uint8Array, another view, an ArrayBuffer or a SharedArrayBuffer`);
}

/** The kind of a value for people, never its content. */
export function kindOf(v: unknown): string {
  return v === null ? "null" : Array.isArray(v) ? "an array" : v === undefined ? "undefined" : `of type ${typeof v}`;
}

/** A position within `length` bytes, or the one after the last. */
export function checkOffset(offset: unknown, length: number, what: string): void {
  if (typeof offset === "number" && offset % 1 === 0 && offset >= 0 && offset <= length) return;
  invalidArgument(`the offset is ${typeof offset === "number" ? offset : kindOf(offset)}, ${what} has ${length} bytes`);
}

/** A limit as it was given, or `otherwise`. Infinity is a limit, NaN is none. */
export function limit(name: string, given: unknown, otherwise: number): number {
  if (given === undefined) return otherwise;
  if (typeof given === "number" && given >= 0) return given;
  return invalidOption(`${name} is ${typeof given === "number" ? given : kindOf(given)}, not a number from 0`);
}

export function checkExtensions(extensions: readonly Extension[] = []): readonly Extension[] {
  for (const { type } of extensions) {
    if (!isExtensionType(type)) invalidOption("the type of an extension is not an integer from -128 to 127");
  }
  return extensions;
}

export function isExtensionType(type: number): boolean {
  return type === (type << 24) >> 24;
}
