import type { UserProperty } from "@tautwire/mqtt-codec";

/** A stable name for each way in which something of this package can fail. */
export type MqttErrorCode =
  /** The `AbortSignal` of the operation was aborted; `cause` is its reason. */
  | "aborted"
  /** The client has been closed, by its user or by an error, which is then the `cause`. */
  | "closed"
  /** The server did not answer within the time limit of a connection attempt. */
  | "connect_timeout"
  /** The server refused the connection; `reason` says why. */
  | "connection_refused"
  /** The network connection ended without a word from the server. */
  | "connection_lost"
  /** The transport failed or could not be opened; `cause` is its error. */
  | "transport_failed"
  /** TLS: the server's certificate was issued by an authority that is not trusted. */
  | "tls_unknown_authority"
  /** TLS: the server's certificate was issued by nobody but itself, and is not trusted. */
  | "tls_self_signed"
  /** TLS: the server's certificate is for other names; the message has them. */
  | "tls_name_mismatch"
  /** TLS: the server's certificate has expired. */
  | "tls_expired"
  /** TLS: the server's certificate is not valid yet, or the clock is wrong. */
  | "tls_not_yet_valid"
  /** TLS: the server's certificate has been revoked, or nothing says that it has not. */
  | "tls_revoked"
  /** TLS: the server's certificate cannot be used for another reason. */
  | "tls_certificate"
  /** TLS: the server asks for a certificate of this client, which has none. */
  | "tls_client_certificate_required"
  /** TLS: the server does not accept this client's certificate; the message says why. */
  | "tls_client_certificate_refused"
  /** TLS: there is no version, cipher suite or protocol (ALPN) that both have. */
  | "tls_nothing_in_common"
  /** TLS: the server does not speak it at this port. */
  | "tls_not_spoken"
  /** TLS: the server ended the connection before the handshake was over. */
  | "tls_closed"
  /** TLS: a certificate, a key or an option of this client is wrong. */
  | "tls_settings"
  /** The server did not answer a PINGREQ in time. */
  | "keep_alive_timeout"
  /** The server sent what the standard does not allow; `cause` or `reason` says what. */
  | "protocol_error"
  /** The server ended the connection with a DISCONNECT; `reason` says why. */
  | "server_disconnected"
  /** Another connection with the same client identifier has taken the session. */
  | "session_taken_over"
  /** The server names another one, in `serverReference` if it does so at all: connect there. */
  | "redirected"
  /** The server does not speak this version: use `protocolVersion: "auto"` or 4. */
  | "unsupported_protocol_version"
  /** The server's session is gone and with it the knowledge whether this QoS 2 message was delivered. */
  | "session_lost"
  /** The outgoing queue is full: publish less, raise its limits, or choose `drop-oldest`. */
  | "queue_full"
  /** A newer message took its place in the full outgoing queue. */
  | "dropped"
  /** The message expired before it could be sent. */
  | "expired"
  /** The packet is larger than the server accepts. */
  | "packet_too_large"
  /** The server does not support this QoS: use a lower one. */
  | "qos_not_supported"
  /** The server does not keep retained messages. */
  | "retain_not_supported"
  /** The server, or this version of MQTT, does not support it; the message says what. */
  | "not_supported"
  /** The server refused the message; `reason` says why. */
  | "publish_refused"
  /** The server refused the subscription; `reason` says why. */
  | "subscribe_refused"
  /** The server refused to end the subscription; `reason` says why. */
  | "unsubscribe_refused"
  /** The subscription was ended while this waited for it. */
  | "unsubscribed"
  /** No response came within the time limit of the request. */
  | "request_timeout"
  /** The responder answered with an error; the message is what it said. */
  | "request_failed"
  /** The authentication hook failed, or the server asked for one that is not there. */
  | "authentication_failed"
  /** An argument is wrong; the message says which and why. */
  | "invalid_argument"
  /** A payload is not what its codec takes or gives; `cause` is the codec's error. */
  | "payload_invalid"
  /** A callback of the application threw; `cause` is what it threw. */
  | "callback_failed";

/** What a server may say with a failure. */
export interface ErrorDetails {
  cause?: unknown;
  reason?: number | undefined;
  reasonString?: string | undefined;
  serverReference?: string | undefined;
  userProperties?: readonly UserProperty[] | undefined;
}

/** Every failure of this package. Never holds a payload or a password. */
export class MqttError extends Error {
  override readonly name: string;
  /** Which failure it is; stable over versions. */
  readonly code: MqttErrorCode;
  /** The MQTT 5.0 reason code of the packet that brought it, if one did. */
  readonly reason: number | undefined;
  /** What the server said for people to read. */
  readonly reasonString: string | undefined;
  /** Another server to use, with `redirected`. */
  readonly serverReference: string | undefined;
  /** What the server added. */
  readonly userProperties: readonly UserProperty[];

  constructor(code: MqttErrorCode, message: string, details: ErrorDetails = {}) {
    const { reason, reasonString } = details;
    super(
      message +
        (reason === undefined ? "" : ` (reason 0x${reason.toString(16).padStart(2, "0")})`) +
        (reasonString === undefined ? "" : `: ${reasonString}`),
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    // What the platform's own functions are recognised by.
    this.name = code === "aborted" ? "AbortError" : "MqttError";
    this.code = code;
    this.reason = reason;
    this.reasonString = reasonString;
    this.serverReference = details.serverReference;
    this.userProperties = details.userProperties ?? [];
  }
}

/** Anything that was thrown, as an error of this package. */
export function asMqttError(thrown: unknown, code: MqttErrorCode, message: string): MqttError {
  return thrown instanceof MqttError ? thrown : new MqttError(code, message, { cause: thrown });
}

export function aborted(signal: AbortSignal): MqttError {
  return new MqttError("aborted", "aborted", { cause: signal.reason });
}
