// Wrong arguments are refused when they are given, not when they can be sent at last.

import type { PacketInit } from "@tautwire/mqtt-codec";
import { encodeClientInto } from "@tautwire/mqtt-codec/client";
import { asMqttError, messageOf, MqttError } from "../errors.js";
import type { FilterOptions } from "../session/filters.js";

/** So many UTF-16 units fit into a text (section 1.5.4), whatever they are. */
const SHORT_UNITS = 21_845;
/** How much of a wrong argument is repeated in an error. */
const SHOWN_MAX = 80;

/** @throws {MqttError} `invalid_argument` */
export function checkTopic(topic: string): void {
  // What is right is seen faster than by the codec, which knows what is wrong.
  if (topic.length > SHORT_UNITS || !/^[^+#\0\p{Surrogate}]+$/u.test(topic)) checkPacket({ type: "publish", topic }, topic);
}

export function checkQoS(qos: unknown): void {
  if (qos !== 0 && qos !== 1 && qos !== 2) throw new MqttError("invalid_argument", `QoS ${String(qos)}: it is 0, 1 or 2`);
}

/**
 * Whether a SUBSCRIBE with this filter can be written.
 *
 * @throws {MqttError} `invalid_argument`
 */
export function checkRequest(filter: string, { qos, noLocal, retainHandling }: FilterOptions): void {
  if (qos !== undefined) checkQoS(qos);
  checkPacket({ type: "subscribe", packetId: 1, requests: [{ filter, noLocal, retainHandling }] }, filter);
}

function checkPacket(packet: PacketInit, text: unknown): void {
  try {
    encodeClientInto(packet, new Uint8Array(3 * (text as string).length + 16));
  } catch (error) {
    throw asMqttError(error, "invalid_argument", `${String(text).slice(0, SHOWN_MAX)}: ${messageOf(error)}`);
  }
}
