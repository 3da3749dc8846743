import type { DecodeErrorCode } from "./error-codes.js";
import { message } from "./message.js";

/** The kind of failure (section 4.13): the bytes cannot be parsed, violate the protocol, or are too large. */
export type DecodeFault = "malformed" | "protocol_error" | "too_large";

/**
 * The error for bytes that are not a valid packet. The message is `TEXT [CODE] at byte OFFSET (STATEMENT)`; see {@link message} for
 * when the text is missing. It never contains a payload.
 */
export class MqttDecodeError extends Error {
  override readonly name = "MqttDecodeError";
  /** The kind of failure. */
  readonly fault: DecodeFault;

  constructor(
    /** The check that failed. */
    readonly code: DecodeErrorCode,
    /** The offset of the failure, from the start of the packet's fixed header. */
    readonly offset: number,
    /** The MQTT 5.0 reason code to send in a CONNACK or DISCONNECT. */
    readonly reason: number,
  ) {
    super(message(code, "", ` at byte ${offset}`));
    this.fault = reason === 0x81 ? "malformed" : reason === 0x95 ? "too_large" : "protocol_error";
  }
}
