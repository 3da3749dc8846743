import type { UserProperty } from "@tautwire/mqtt-codec";

/**
 * A stable name for each way in which something of this package can fail. `TEXTS` of `@tautwire/client/texts` says what each
 * means, and what to do.
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
  /** `status` is that of HTTP, if the server answered with one. */
  | "websocket_refused"
  | "connection_refused"
  /** `protocolVersion: "auto"` tries 5.0, and then 3.1.1. */
  | "unsupported_protocol_version"
  /** `serverReference` names the other server, if this one says its name. */
  | "redirected"
  | "authentication_failed"
  | "connection_lost"
  | "keep_alive_timeout"
  | "server_disconnected"
  | "session_taken_over"
  | "protocol_error"
  | "session_lost"
  | "store_failed"
  /** Another process, another tab, or another client of this program has it open. */
  | "store_in_use"
  /** It stays as it is. */
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
  | "request_timeout"
  /** `detail` is what the responder said. */
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
  | "tls_nothing_in_common"
  | "tls_not_spoken"
  | "tls_closed"
  | "tls_settings";

/** What else is known of a failure. */
export interface ErrorDetails {
  cause?: unknown;
  reason?: number | undefined;
  reasonString?: string | undefined;
  serverReference?: string | undefined;
  userProperties?: readonly UserProperty[] | undefined;
  status?: number | undefined;
}

/** The fixed parts of messages, by code: those of `@tautwire/client/texts`, where it is loaded. */
let texts: Readonly<Record<string, string>> = {};
/** Answers which of the known names was probably meant, or nothing. */
let meant: (name: string, known: readonly string[]) => string = () => "";

export function setWords(table: typeof texts, guess: typeof meant): void {
  texts = table;
  meant = guess;
}

/** What is wrong with an option that does not exist. */
export function unknownName(name: string, known: readonly string[]): string {
  const other = meant(name, known);
  return `there is no option ${name}${other && `: do you mean ${other}?`}`;
}

/**
 * Every failure of this package. The message is `TEXT (DETAIL) [CODE]`: what is wrong and what to do, what it was in this case, and
 * the code. In browsers the text is there only if the program imports `@tautwire/client/texts`. Never holds a payload or
 * a password.
 */
export class MqttError extends Error {
  override readonly name: string;
  /** Which failure it is; stable over versions. */
  readonly code: MqttErrorCode;
  /** What it was in this case, such as the topic filter or the address; may be empty. */
  readonly detail: string;
  /** The MQTT 5.0 reason code of the packet that brought it, if one did. */
  readonly reason: number | undefined;
  /** What the server said for people to read. */
  readonly reasonString: string | undefined;
  /** Another server to use, with `redirected`. */
  readonly serverReference: string | undefined;
  /** What the server added. */
  readonly userProperties: readonly UserProperty[];
  /** The status of HTTP with which the server refused the WebSocket. */
  readonly status: number | undefined;

  constructor(code: MqttErrorCode, detail = "", details: ErrorDetails = {}) {
    const { cause, reason, reasonString } = details;
    super(messageFor(code, detail, reason, reasonString), cause === undefined ? undefined : { cause });
    // What the platform's own functions are recognised by.
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

/** Anything that was thrown, as an error of this package. */
export function asMqttError(thrown: unknown, code: MqttErrorCode, detail?: string): MqttError {
  return thrown instanceof MqttError ? thrown : new MqttError(code, detail ?? messageOf(thrown), { cause: thrown });
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

/** `error`: what has ended the client, if its user has not. */
export function closedBy(error: MqttError | null): MqttError {
  return new MqttError("closed", "", { cause: error ?? undefined });
}

export function canceled(signal: AbortSignal): MqttError {
  return new MqttError("canceled", messageOf(signal.reason), { cause: signal.reason });
}
