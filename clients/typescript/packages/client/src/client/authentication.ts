/**
 * Extended authentication (section 4.12): the steps of a method such as SCRAM, which `@tautwire/client/scram` has. The functions
 * may be asynchronous; one that throws ends the client with `authentication_failed`. Nothing is sent to a server that has
 * accepted the client, and nothing of it is heard, before `finish` has checked it.
 */
export interface Authentication {
  /** The name of the method, which the server must know. */
  readonly method: string;
  /** The data of CONNECT, and of the first AUTH when the client authenticates again. */
  start?(): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** Answers the data of the server's AUTH. */
  step(data: Uint8Array | undefined): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** Checks what the server sent with its success, such as a signature. */
  finish?(data: Uint8Array | undefined): void | Promise<void>;
}
