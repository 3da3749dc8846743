import type { DecodeErrorCode } from "./error-codes.js";
import { message } from "./message.js";

/** Who is at fault (section 4.13): bytes that cannot be parsed, or that say what is not allowed, or too many of them. */
export type DecodeFault = "malformed" | "protocol_error" | "too_large";

/**
 * Why bytes are not a packet: who is at fault, what to answer and where it went wrong. The message is
 * `TEXT [CODE] at byte OFFSET (STATEMENT)`; see {@link message} for when there is no text. Never holds a payload.
 */
export class MqttDecodeError extends Error {
  override readonly name = "MqttDecodeError";
  /** Who is at fault. */
  readonly fault: DecodeFault;

  constructor(
    /** Which check failed. */
    readonly code: DecodeErrorCode,
    /** The byte at which it went wrong, from the start of the packet's fixed header. */
    readonly offset: number,
    /** The MQTT 5.0 reason code to answer with, in a CONNACK or DISCONNECT. */
    readonly reason: number,
  ) {
    super(message(code, "", ` at byte ${offset}`));
    this.fault = reason === 0x81 ? "malformed" : reason === 0x95 ? "too_large" : "protocol_error";
  }
}
