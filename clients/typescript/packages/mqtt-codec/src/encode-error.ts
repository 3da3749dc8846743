import type { EncodeErrorCode } from "./error-codes.js";
import { message } from "./message.js";

/**
 * The error for a packet that cannot be encoded. The message is `FIELD: TEXT [CODE] (STATEMENT)`; see {@link message} for when the
 * text is missing. It never contains a payload or a password.
 */
export class MqttEncodeError extends Error {
  override readonly name = "MqttEncodeError";

  constructor(
    /** The check that failed. */
    readonly code: EncodeErrorCode,
    /** The field or property, such as `will.topic`. */
    readonly field: string,
  ) {
    super(message(code, field + ": ", ""));
  }
}
