// The messages of the server (RFC 5802, section 7), which must be printable ASCII.

import { malformed, ScramError } from "./error.js";

/** The maximum size of a message of the server. */
const MESSAGE_MAX_BYTES = 1024;

export interface ServerFirst {
  readonly text: string;
  /** The nonce of the client followed by that of the server. */
  readonly nonce: string;
  /** Base64. */
  readonly salt: string;
  readonly iterations: number;
}

export function readServerFirst(data: Uint8Array | undefined, clientNonce: string): ServerFirst {
  const text = read(data);
  const [first = "", second = "", third = ""] = text.split(",");
  // A mandatory extension, `m=…`, would be in the place of the nonce.
  if (!first.startsWith("r=") || !second.startsWith("s=") || !third.startsWith("i=")) {
    throw malformed("nonce, salt or iterations are missing");
  }
  const [nonce, salt, iterations] = [first.slice(2), second.slice(2), third.slice(2)];
  if (fromBase64(salt).length === 0) throw malformed("the salt is empty");
  if (!/^(0|[1-9]\d*)$/.test(iterations)) throw malformed("the iterations are not a number");
  if (!nonce.startsWith(clientNonce) || nonce === clientNonce) {
    throw new ScramError("scram_nonce", "the server did not extend the client's nonce");
  }
  return { text, nonce, salt, iterations: Number(iterations) };
}

/** Returns the signature in the server's final message. */
export function readServerFinal(data: Uint8Array): Uint8Array {
  const [first = ""] = read(data).split(",");
  if (!first.startsWith("v=")) throw malformed("the signature is missing");
  return fromBase64(first.slice(2));
}

export function isPrintable(text: string): boolean {
  return /^[ -~]+$/.test(text);
}

/** Escapes a user name for a message. */
export function escapeName(userName: string): string {
  return userName.replaceAll("=", "=3D").replaceAll(",", "=2C");
}

export function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  // `atob` also accepts spaces, and missing padding.
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw malformed("a field is not Base64");
  return Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
}

function read(data: Uint8Array | undefined): string {
  if (data === undefined || data.length > MESSAGE_MAX_BYTES) throw malformed("it is empty, or longer than 1,024 bytes");
  const text = String.fromCharCode(...data);
  if (!isPrintable(text)) throw malformed("it is empty, or not printable ASCII");
  if (text.startsWith("e=")) throw new ScramError("scram_refused", `the server refuses: ${text.slice(2)}`);
  return text;
}
