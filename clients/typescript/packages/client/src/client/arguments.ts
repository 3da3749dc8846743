// Wrong arguments are refused when they are given, not when they can be sent at last.

import { encodeClientInto } from "@tautwire/mqtt-codec/client";
import { asMqttError, messageOf, MqttError } from "../errors.js";
import type { FilterOptions } from "../session/filters.js";

/** The most bytes of a text (section 1.5.4). */
const TEXT_MAX = 65_535;
/** How much of a wrong argument is repeated in an error. */
const SHOWN_MAX = 80;

export function checkTopic(topic: string): void {
  if (!/^[^+#\0\p{Surrogate}]+$/u.test(topic) || isTooLong(topic)) {
    throw new MqttError("invalid_argument", "a topic name is not empty and has neither + nor # nor U+0000");
  }
}

function isTooLong(text: string): boolean {
  // One UTF-16 unit takes at most three bytes.
  return text.length > TEXT_MAX / 3 && new TextEncoder().encode(text).length > TEXT_MAX;
}

export function checkQoS(qos: unknown): void {
  if (qos !== 0 && qos !== 1 && qos !== 2) throw new MqttError("invalid_argument", `QoS ${String(qos)}: it is 0, 1 or 2`);
}

/** Whether a SUBSCRIBE with this filter can be written. */
export function checkRequest(filter: unknown, { qos, noLocal, retainHandling }: FilterOptions): void {
  if (qos !== undefined) checkQoS(qos);
  try {
    const text = filter as string;
    const requests = [{ filter: text, noLocal, retainHandling }];
    encodeClientInto({ type: "subscribe", packetId: 1, requests }, new Uint8Array(3 * text.length + 16));
  } catch (error) {
    const shown = String(filter).slice(0, SHOWN_MAX);
    throw asMqttError(error, "invalid_argument", `${shown}: ${messageOf(error)}`);
  }
}
