/** The failures of an exchange on the client's side. The strings are stable. */
export type ScramErrorCode =
  /** User name or password is empty, or not printable ASCII. */
  | "scram_credentials"
  /** The server sent a message that is not SCRAM. */
  | "scram_malformed"
  /** The server did not extend the client's nonce: the message may belong to another exchange. */
  | "scram_nonce"
  /** The server requires fewer iterations than are safe, or more than `maxIterations`. */
  | "scram_iterations"
  /** The server refuses with an error of SCRAM. */
  | "scram_refused"
  /** The server has not proved that it knows the password. It may be an impostor. */
  | "scram_server_signature"
  /** WebCrypto is not available: pages need https, and Node.js needs version 20. */
  | "scram_unavailable";

/** A failure of SCRAM. It is the `cause` of the client's error `authentication_failed`. */
export class ScramError extends Error {
  override readonly name = "ScramError";

  constructor(
    /** The kind of failure; stable across versions. */
    readonly code: ScramErrorCode,
    message: string,
  ) {
    super(`${message} [${code}]`);
  }
}

export function malformed(reason: string): ScramError {
  return new ScramError("scram_malformed", `the server sent an invalid SCRAM message: ${reason}`);
}
