// Reads the vectors' notation: see the section on vectors in README.md.
import { readFileSync } from "node:fs";
import { ExtensionValue, Timestamp } from "@tautwire/msgpack";

const file = new URL("../../../../../spec/vectors/msgpack/cases.json", import.meta.url);
export const vectors = JSON.parse(readFileSync(file, "utf8")).vectors;

export function bytes(notation) {
  const hex = notation.replace(/\(([0-9a-f]+)\*(\d+)\)/g, (_, part, count) => part.repeat(Number(count)));
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function hex(data) {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The value as decoded with `maps: "map"` and `timestamps: "exact"`. */
export function value(notation) {
  if (notation === "nil") return null;
  const [kind] = Object.keys(notation);
  const content = notation[kind];
  switch (kind) {
    case "bool":
      return content;
    case "int": {
      const n = BigInt(content);
      return Number.isSafeInteger(Number(n)) ? Number(n) : n;
    }
    case "float64":
      return new DataView(bytes(content).buffer).getFloat64(0);
    case "str":
      return typeof content === "string" ? content : content[0].repeat(content[1]);
    case "bin":
      return bytes(content);
    case "array":
      return content.map(value);
    case "repeat":
      return Array.from({ length: content[1] }, () => value(content[0]));
    case "map":
      return new Map(content.map(([k, v]) => [value(k), value(v)]));
    case "ext":
      return new ExtensionValue(content, bytes(notation.data));
    case "seconds":
      return new Timestamp(BigInt(content), notation.nanoseconds);
    default:
      throw new Error(`unknown notation ${kind}`);
  }
}

/** The same value with plain objects for maps, or `undefined` if a key is not a string or number. */
export function plain(v) {
  if (Array.isArray(v)) {
    const items = v.map(plain);
    return items.includes(undefined) ? undefined : items;
  }
  if (!(v instanceof Map)) return v;
  const o = {};
  for (const [k, item] of v) {
    if (typeof k !== "string" && typeof k !== "number") return undefined;
    const inner = plain(item);
    if (inner === undefined) return undefined;
    Object.defineProperty(o, k, { value: inner, enumerable: true, configurable: true, writable: true });
  }
  return o;
}
