import type { Authentication } from "../client/authentication.js";
import { malformed, ScramError } from "./error.js";
import { areSame, ascii, Hash, type Bytes, type Keys } from "./keys.js";
import { escapeName, fromBase64, isPrintable, readServerFinal, readServerFirst, toBase64 } from "./messages.js";

/** Options of {@link scram}. */
export interface ScramOptions {
  /** Default: SCRAM-SHA-256. */
  mechanism?: "SCRAM-SHA-256" | "SCRAM-SHA-512" | undefined;
  /** Printable ASCII. Other names would need SASLprep (RFC 4013), which is not implemented. */
  userName: string;
  /** Printable ASCII, as for `userName`. */
  password: string;
  /** The maximum number of iterations that a server may require, which limits the CPU time of a connection. Default: 100,000. */
  maxIterations?: number | undefined;
}

/** The minimum number of iterations, as in RFC 7677. */
const ITERATIONS_MIN = 4096;
const ITERATIONS_MAX = 100_000;
const NONCE_BYTES = 18;
/** The GS2 header: no channel binding. */
const HEADER = "n,,";

interface Exchange {
  readonly bare: string;
  readonly nonce: string;
  /** Whether the client has sent its proof. */
  isProved: boolean;
  /** The signature that the server has to send. */
  signature?: Bytes;
}

/**
 * Returns an {@link Authentication} with SCRAM, for the option `authentication` of one client. It caches the keys, so that only the
 * first exchange computes the iterations, as long as the server uses the same salt.
 *
 * @throws {ScramError} `scram_credentials`, `scram_unavailable`.
 */
export function scram(options: ScramOptions): Authentication {
  return scramWith(options, () => toBase64(globalThis.crypto.getRandomValues(new Uint8Array(NONCE_BYTES))));
}

/** Like {@link scram}, with the caller's nonces. */
export function scramWith(options: ScramOptions, newNonce: () => string): Authentication {
  const { mechanism: method = "SCRAM-SHA-256", userName, maxIterations = ITERATIONS_MAX } = options;
  if (!isPrintable(userName) || !isPrintable(options.password)) {
    throw new ScramError("scram_credentials", "user name and password of SCRAM must be printable ASCII and not empty");
  }
  const hash = new Hash(method === "SCRAM-SHA-256" ? "SHA-256" : "SHA-512");
  let keys: Keys | undefined;
  let exchange: Exchange | undefined;
  return {
    method,

    start() {
      const nonce = newNonce();
      exchange = { bare: `n=${escapeName(userName)},r=${nonce}`, nonce, isProved: false };
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
          `the server requires ${iterations} iterations; ${ITERATIONS_MIN} to ${maxIterations} are allowed`,
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
      // Without an exchange, success proves nothing.
      if (expected === undefined || data === undefined || data.length === 0 || !areSame(expected, readServerFinal(data))) {
        throw new ScramError(
          "scram_server_signature",
          "the server has not proved that it knows the password: check the address, and that nobody impersonates the server",
        );
      }
    },
  };
}
