import type { MqttError } from "../errors.js";

/** Reasons of CONNACK and DISCONNECT that another attempt would meet again: 0x84 to 0x87, banned, and the authentication method. */
const REASONS: readonly number[] = [0x84, 0x85, 0x86, 0x87, 0x8a, 0x8c];
/** Reasons of CONNACK that speak of the will: its topic, size, payload, retain flag and QoS. */
const WILL_REASONS: readonly number[] = [0x90, 0x95, 0x99, 0x9a, 0x9b];
const CODES: readonly string[] = [
  "unsupported_protocol_version",
  "session_taken_over",
  "redirected",
  "authentication_failed",
  "invalid_options",
  "invalid_argument",
  "tls_settings",
];

/** Whether another attempt would end in the same way. */
export function isPermanent({ code, reason = 0 }: MqttError): boolean {
  const isRefused = code === "connection_refused";
  return (
    CODES.includes(code) ||
    ((isRefused || code === "server_disconnected") && REASONS.includes(reason)) ||
    (isRefused && WILL_REASONS.includes(reason))
  );
}
