// Checks arguments when a function is called, not when the packet is sent.

import type { PacketInit } from "@tautwire/mqtt-codec";
import { encodeClientInto } from "@tautwire/mqtt-codec/client";
import { asMqttError, messageOf, MqttError } from "../errors.js";
import type { FilterOptions } from "../session/filters.js";

/** A string of this many UTF-16 units always fits into an MQTT string of 65,535 bytes (section 1.5.4). */
const SHORT_UNITS = 21_845;
/** How many characters of an invalid argument an error repeats. */
const SHOWN_MAX = 80;

/** @throws {MqttError} `invalid_argument` */
export function checkTopic(topic: unknown): asserts topic is string {
  // The regular expression accepts valid topics faster than the codec, which says what is wrong with the others.
  if (typeof topic !== "string") throw new MqttError("invalid_argument", `the topic is ${typeof topic}: must be a string`);
  if (topic.length > SHORT_UNITS || !/^[^+#\0\p{Surrogate}]+$/u.test(topic)) checkPacket({ type: "publish", topic }, topic);
}

export function checkQoS(qos: unknown): void {
  if (qos !== 0 && qos !== 1 && qos !== 2) throw new MqttError("invalid_argument", `QoS ${String(qos)}: must be 0, 1 or 2`);
}

/**
 * Checks that a SUBSCRIBE with this filter and these options can be encoded.
 *
 * @throws {MqttError} `invalid_argument`
 */
export function checkRequest(filter: string, { qos, noLocal, retainHandling }: FilterOptions): void {
  if (typeof (filter as unknown) !== "string") throw new MqttError("invalid_argument", `a filter is ${typeof filter}: must be a string`);
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
