// Derives the keys of a password, with WebCrypto.

import { ScramError } from "./error.js";

export type Bytes = Uint8Array<ArrayBuffer>;

/** ClientKey and ServerKey (RFC 5802, section 3), with the salt and iterations they were derived with. */
export interface Keys {
  readonly salt: string;
  readonly iterations: number;
  readonly client: Bytes;
  readonly server: Bytes;
}

/** The hash function of a mechanism. */
export class Hash {
  private readonly subtle: SubtleCrypto;

  constructor(readonly name: "SHA-256" | "SHA-512") {
    const { crypto } = globalThis as { readonly crypto?: { readonly subtle?: SubtleCrypto } };
    const subtle = crypto?.subtle;
    if (subtle === undefined) {
      throw new ScramError("scram_unavailable", "WebCrypto is not available: load the page by https, or use Node.js 20 or later");
    }
    this.subtle = subtle;
  }

  async digest(bytes: Bytes): Promise<Bytes> {
    return new Uint8Array(await this.subtle.digest(this.name, bytes));
  }

  async hmac(key: Bytes, text: string): Promise<Bytes> {
    const { subtle } = this;
    const imported = await subtle.importKey("raw", key, { name: "HMAC", hash: this.name }, false, ["sign"]);
    return new Uint8Array(await subtle.sign("HMAC", imported, ascii(text)));
  }

  async derive(password: string, salt: string, saltBytes: Bytes, iterations: number): Promise<Keys> {
    const { subtle, name: hash } = this;
    const imported = await subtle.importKey("raw", ascii(password), "PBKDF2", false, ["deriveBits"]);
    const bits = hash === "SHA-256" ? 256 : 512;
    const salted = new Uint8Array(
      await subtle.deriveBits({ name: "PBKDF2", hash, salt: saltBytes, iterations }, imported, bits),
    );
    return { salt, iterations, client: await this.hmac(salted, "Client Key"), server: await this.hmac(salted, "Server Key") };
  }
}

export function ascii(text: string): Bytes {
  return Uint8Array.from(text, (sign) => sign.charCodeAt(0));
}

/** Compares in a time that depends only on the lengths. */
export function areSame(a: Bytes, b: Uint8Array): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i]! ^ (b[i] ?? 0);
  return difference === 0;
}
