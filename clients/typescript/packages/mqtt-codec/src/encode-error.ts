import type { EncodeErrorCode } from "./error-codes.js";
import { message } from "./message.js";

/**
 * Why a packet cannot be written. The message is `FIELD: TEXT [CODE] (STATEMENT)`; see {@link message} for when there is no text.
 * Never holds a payload or a password.
 */
export class MqttEncodeError extends Error {
  override readonly name = "MqttEncodeError";

  constructor(
    /** What is wrong. */
    readonly code: EncodeErrorCode,
    /** The field or property, such as `will.topic`. */
    readonly field: string,
  ) {
    super(message(code, field + ": ", ""));
  }
}
