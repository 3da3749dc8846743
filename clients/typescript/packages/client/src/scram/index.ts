/**
 * SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the client proves that it knows a password without sending it, and
 * the server has to prove that it knows it, too.
 *
 * @packageDocumentation
 */

export { ScramError, type ScramErrorCode } from "./error.js";
export { scram, type ScramOptions } from "./exchange.js";
