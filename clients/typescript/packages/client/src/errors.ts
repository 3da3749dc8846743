import type { UserProperty } from "@tautwire/mqtt-codec";

/**
 * A stable code for each kind of failure. `TEXTS` of `@tautwire/client/texts` says what each means, and what to do.
 */
export type MqttErrorCode =
  | "invalid_options"
  | "invalid_argument"
  | "not_connected"
  /** If an error has ended the client, it is the `cause`. */
  | "closed"
  /** An `AbortSignal` was aborted; `cause` is its reason. */
  | "canceled"
  /** An `AbortSignal` was aborted after the message had been sent; `cause` is its reason. */
  | "unacknowledged"
  | "name_not_found"
  | "unreachable"
  | "connect_timeout"
  | "handshake_failed"
  /** `status` is the HTTP status, if the server sent one. */
  | "websocket_refused"
  | "connection_refused"
  /** `protocolVersion: "auto"` tries 5.0, and then 3.1.1. */
  | "unsupported_protocol_version"
  /** `serverReference` names the other server, if the server sent it. */
  | "redirected"
  | "authentication_failed"
  | "connection_lost"
  | "keep_alive_timeout"
  | "server_disconnected"
  | "session_taken_over"
  | "protocol_error"
  | "session_lost"
  | "store_failed"
  /** Another process, tab, or client of this program has the store open. */
  | "store_in_use"
  /** The file is left unchanged. */
  | "store_corrupt"
  | "queue_full"
  | "dropped"
  | "expired"
  | "packet_too_large"
  | "qos_not_supported"
  | "retain_not_supported"
  | "not_supported"
  | "publish_refused"
  | "subscribe_refused"
  | "unsubscribe_refused"
  | "unsubscribed"
  | "timeout"
  | "request_timeout"
  /** `detail` is the message of the responder. */
  | "request_failed"
  | "no_responder"
  | "payload_invalid"
  | "callback_failed"
  | "tls_unknown_authority"
  | "tls_self_signed"
  | "tls_name_mismatch"
  | "tls_expired"
  | "tls_not_yet_valid"
  | "tls_revoked"
  | "tls_certificate"
  | "tls_client_certificate_required"
  | "tls_client_certificate_refused"
  | "tls_no_shared_parameters"
  | "tls_not_supported"
  | "tls_needed"
  | "tls_closed"
  | "tls_options";

/** The optional fields of an {@link MqttError}. */
export interface ErrorDetails {
  cause?: unknown;
  reason?: number | undefined;
  reasonString?: string | undefined;
  serverReference?: string | undefined;
  userProperties?: readonly UserProperty[] | undefined;
  status?: number | undefined;
}

/** The fixed part of each message, by code: empty unless `@tautwire/client/texts` is loaded. */
let texts: Readonly<Record<string, string>> = {};
/** Returns the known name that was probably intended, or an empty string. */
let suggest: (name: string, known: readonly string[]) => string = () => "";

export function setTexts(table: typeof texts, suggestion: typeof suggest): void {
  texts = table;
  suggest = suggestion;
}

/** The detail of the error for an unknown option. */
export function unknownName(name: string, known: readonly string[]): string {
  const other = suggest(name, known);
  return `there is no option ${name}${other && `: did you mean ${other}?`}`;
}

/**
 * The error class of this package. The message is `TEXT (DETAIL) [CODE]`: what is wrong and what to do, the details of this case, and
 * the code. In browsers the text is included only if the program imports `@tautwire/client/texts`. An error never contains a payload
 * or a password.
 */
export class MqttError extends Error {
  override readonly name: string;
  /** The kind of failure; stable across versions. */
  readonly code: MqttErrorCode;
  /** The details of this case, such as the topic filter or the address; may be empty. */
  readonly detail: string;
  /** The MQTT 5.0 reason code, if a packet of the server caused the error. */
  readonly reason: number | undefined;
  /** The reason string of the server. */
  readonly reasonString: string | undefined;
  /** Another server to use, with `redirected`. */
  readonly serverReference: string | undefined;
  /** The user properties of the server's packet. */
  readonly userProperties: readonly UserProperty[];
  /** The HTTP status with which the server refused the WebSocket. */
  readonly status: number | undefined;

  constructor(code: MqttErrorCode, detail = "", details: ErrorDetails = {}) {
    const { cause, reason, reasonString } = details;
    super(messageFor(code, detail, reason, reasonString), cause === undefined ? undefined : { cause });
    // The platform's own functions use `AbortError` for an aborted signal.
    this.name = code === "canceled" || code === "unacknowledged" ? "AbortError" : "MqttError";
    this.code = code;
    this.detail = detail;
    this.reason = reason;
    this.reasonString = reasonString;
    this.serverReference = details.serverReference;
    this.userProperties = details.userProperties ?? [];
    this.status = details.status;
  }
}

function messageFor(code: string, detail: string, reason: number | undefined, reasonString: string | undefined): string {
  const hex = reason === undefined ? "" : `reason 0x${reason.toString(16).padStart(2, "0")}`;
  const particulars = [detail, hex, reasonString].filter(Boolean).join(", ");
  const text = texts[code];
  const parts = text === undefined ? [particulars] : [text, particulars && `(${particulars})`];
  return [...parts, `[${code}]`].filter(Boolean).join(" ");
}

/** Converts a thrown value to an error of this package. */
export function asMqttError(thrown: unknown, code: MqttErrorCode, detail?: string): MqttError {
  return thrown instanceof MqttError ? thrown : new MqttError(code, detail ?? messageOf(thrown), { cause: thrown });
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

/** The error of operations on a closed client. `error`: the reason, or null after `close()`. */
export function closedBy(error: MqttError | null): MqttError {
  return new MqttError("closed", "", { cause: error ?? undefined });
}

export function canceled(signal: AbortSignal): MqttError {
  return new MqttError("canceled", messageOf(signal.reason), { cause: signal.reason });
}
