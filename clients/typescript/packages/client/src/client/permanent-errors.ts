import type { MqttError } from "../errors.js";

/** Reason codes of CONNACK and DISCONNECT that are permanent: 0x84 to 0x87, Banned, and Bad authentication method. */
const REASONS: readonly number[] = [0x84, 0x85, 0x86, 0x87, 0x8a, 0x8c];
/** Reason codes of CONNACK that refuse the will: its topic, size, payload, retain flag or QoS. */
const WILL_REASONS: readonly number[] = [0x90, 0x95, 0x99, 0x9a, 0x9b];
const CODES: readonly string[] = [
  "unsupported_protocol_version",
  "session_taken_over",
  "redirected",
  "authentication_failed",
  "invalid_options",
  "invalid_argument",
  "tls_options",
];

/** Whether another attempt would fail in the same way. */
export function isPermanent({ code, reason = 0 }: MqttError): boolean {
  const isRefused = code === "connection_refused";
  return (
    CODES.includes(code) ||
    ((isRefused || code === "server_disconnected") && REASONS.includes(reason)) ||
    (isRefused && WILL_REASONS.includes(reason))
  );
}
