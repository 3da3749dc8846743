/**
 * Extended authentication (section 4.12): the steps of a method, such as SCRAM in `@tautwire/client/scram`. The functions
 * may be asynchronous; if one throws, the client ends with `authentication_failed`. After the server has accepted the client, the client
 * neither sends nor reads anything until `finish` has checked the server.
 */
export interface Authentication {
  /** The authentication method, which the server must support. */
  readonly method: string;
  /** Returns the data of CONNECT, and of the first AUTH of a re-authentication. */
  start?(): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** Returns the response to the data of an AUTH from the server. */
  step(data: Uint8Array | undefined): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** Checks the data that the server sent on success, such as a signature. */
  finish?(data: Uint8Array | undefined): void | Promise<void>;
}
