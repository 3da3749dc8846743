/** What can go wrong on this side of an exchange. These strings do not change. */
export type ScramErrorCode =
  /** User name or password is empty, or not of visible ASCII and spaces. */
  | "scram_credentials"
  /** The server sent something else than SCRAM. */
  | "scram_malformed"
  /** The server did not repeat the client's nonce, or added nothing to it: the message may be from another exchange. */
  | "scram_nonce"
  /** The server asks for fewer iterations than are safe, or for more than `maxIterations`. */
  | "scram_iterations"
  /** The server refuses, in words of SCRAM. */
  | "scram_refused"
  /** The server has not proved that it knows the password. It may be another than it says. */
  | "scram_server_signature"
  /** There is no WebCrypto: pages need https, and Node.js needs version 20. */
  | "scram_unavailable";

/** A failure of SCRAM. The client's own error, `authentication_failed`, has it as its `cause`. */
export class ScramError extends Error {
  override readonly name = "ScramError";

  constructor(
    /** Which failure it is; stable over versions. */
    readonly code: ScramErrorCode,
    message: string,
  ) {
    super(`${message} [${code}]`);
  }
}

export function malformed(what: string): ScramError {
  return new ScramError("scram_malformed", `the server sent an invalid SCRAM message: ${what}`);
}
