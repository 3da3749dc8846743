import { invalidArgument, invalidOption } from "./error.js";
import type { Extension } from "./extension.js";

/** The types of binary input: a view, of which exactly the visible part is used, or a whole buffer. */
export type Bytes = ArrayBufferView | ArrayBufferLike;

/** Returns `input` as a view; a view is returned unchanged. */
export function viewOf(input: Bytes): ArrayBufferView {
  return ArrayBuffer.isView(input) ? input : isMemory(input) ? new Uint8Array(input) : notBytes(input);
}

/** Returns the bytes of `input`. */
export function bytesOf(input: Bytes): Uint8Array {
  const view = viewOf(input);
  return isUint8Array(view) ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** Also recognizes instances of another realm, such as that of a test runner. */
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

/** Describes the type of a value for an error message, never its content. */
export function kindOf(v: unknown): string {
  return v === null ? "null" : Array.isArray(v) ? "an array" : v === undefined ? "undefined" : `of type ${typeof v}`;
}

/** A number, or the type of another value. */
function shown(v: unknown): string {
  return typeof v === "number" ? `${v}` : kindOf(v);
}

/** Checks that an offset is within `length` bytes, or at their end. */
export function checkOffset(offset: unknown, length: number, what: string): void {
  if (typeof offset === "number" && offset % 1 === 0 && offset >= 0 && offset <= length) return;
  invalidArgument(`the offset is ${shown(offset)}, ${what} has ${length} bytes`);
}

/** Refuses options that are no settings: a misspelt limit would be no limit. */
export function refuseUnknown(options: object, settings: object): void {
  for (const name in options) if (!(name in settings)) invalidOption(`there is no option ${name}`);
}

/** Returns a limit, or its default. Infinity is allowed, NaN is not. */
export function limit(name: string, given: unknown, otherwise: number): number {
  if (given === undefined) return otherwise;
  if (typeof given === "number" && given >= 0) return given;
  return invalidOption(`${name} is ${shown(given)}, not a number from 0`);
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
