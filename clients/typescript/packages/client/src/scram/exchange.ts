import type { Authentication } from "../client/authentication.js";
import { malformed, ScramError } from "./error.js";
import { areSame, ascii, Hash, type Bytes, type Keys } from "./keys.js";
import { escaped, fromBase64, isVisible, readServerFinal, readServerFirst, toBase64 } from "./messages.js";

export interface ScramOptions {
  /** Default: SCRAM-SHA-256. */
  mechanism?: "SCRAM-SHA-256" | "SCRAM-SHA-512" | undefined;
  /** Of visible ASCII and spaces: other names would have to be normalised (SASLprep, RFC 4013), which this does not do. */
  userName: string;
  /** Likewise. */
  password: string;
  /** The most iterations that a server may ask for, so that none can keep this client computing. Default: 100,000. */
  maxIterations?: number | undefined;
}

/** The fewest iterations that are taken. RFC 7677 asks for as many. */
const ITERATIONS_MIN = 4096;
const ITERATIONS_MAX = 100_000;
const NONCE_BYTES = 18;
/** There is no channel binding. */
const HEADER = "n,,";

interface Exchange {
  readonly bare: string;
  readonly nonce: string;
  /** Whether the server has been answered. */
  isProved: boolean;
  /** What the server owes. */
  signature?: Bytes;
}

/**
 * An {@link Authentication} by SCRAM, for the option `authentication` of one client. It keeps the keys that the password gives, so
 * that only the first exchange costs the iterations, as long as the server keeps its salt.
 *
 * @throws {ScramError} `scram_credentials`, `scram_unavailable`.
 */
export function scram(options: ScramOptions): Authentication {
  return scramWith(options, () => toBase64(globalThis.crypto.getRandomValues(new Uint8Array(NONCE_BYTES))));
}

/** With nonces of the caller. */
export function scramWith(options: ScramOptions, newNonce: () => string): Authentication {
  const { mechanism: method = "SCRAM-SHA-256", userName, maxIterations = ITERATIONS_MAX } = options;
  if (!isVisible(userName) || !isVisible(options.password)) {
    throw new ScramError("scram_credentials", "user name and password of SCRAM are of visible ASCII and spaces");
  }
  const hash = new Hash(method === "SCRAM-SHA-256" ? "SHA-256" : "SHA-512");
  let keys: Keys | undefined;
  let exchange: Exchange | undefined;
  return {
    method,

    start() {
      const nonce = newNonce();
      exchange = { bare: `n=${escaped(userName)},r=${nonce}`, nonce, isProved: false };
      return ascii(HEADER + exchange.bare);
    },

    async step(data) {
      const current = exchange;
      if (current === undefined || current.isProved) throw malformed("unexpected message");
      current.isProved = true;
      const { text, nonce, salt, iterations } = readServerFirst(data, current.nonce);
      if (iterations < ITERATIONS_MIN || iterations > maxIterations) {
        throw new ScramError(
          "scram_iterations",
          `the server asks for a number of iterations that is not from ${ITERATIONS_MIN} to ${maxIterations}`,
        );
      }
      if (keys?.salt !== salt || keys.iterations !== iterations) {
        keys = await hash.derive(options.password, salt, fromBase64(salt), iterations);
      }
      const { client, server } = keys;
      const withoutProof = `c=${btoa(HEADER)},r=${nonce}`;
      const message = `${current.bare},${text},${withoutProof}`;
      const proof = await hash.hmac(await hash.digest(client), message);
      for (let i = 0; i < proof.length; i++) proof[i]! ^= client[i]!;
      current.signature = await hash.hmac(server, message);
      return ascii(`${withoutProof},p=${toBase64(proof)}`);
    },

    finish(data) {
      const expected = exchange?.signature;
      exchange = undefined;
      // Success before the proof proves nothing.
      if (expected === undefined || data === undefined || data.length === 0 || !areSame(expected, readServerFinal(data))) {
        throw new ScramError(
          "scram_server_signature",
          "the server has not proved that it knows the password: check the address, and that nobody impersonates the server",
        );
      }
    },
  };
}
