// The bodies of the packets that servers send (section 3). All decoders of this project make the same checks in the same
// order, so that they give the same result for every input.

import type {
  Acknowledgement,
  Auth,
  Connack,
  Disconnect,
  Packet,
  Publish,
  PublishAcknowledged,
  Suback,
  Unsuback,
} from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import { IN_AUTH, IN_PUBLISH } from "../property-places.js";
import { CONNACK_V3_REASONS, mayCarry } from "../reason-codes.js";
import { propertiesOf, readProperties, type AnyProperties } from "./property-block.js";
import * as r from "./reader.js";

/** Decodes the body at the reader's position. `first`: the validated first byte of a packet that servers send. */
export function decodeSentByServer(first: number, isV5: boolean): Packet {
  const type = first >> 4;
  switch (type) {
    case 2:
      return connack(isV5);
    case 3:
      return publish(first, isV5);
    case 4:
      return acknowledgement("puback", type, isV5);
    case 5:
      return acknowledgement("pubrec", type, isV5);
    case 6:
      return acknowledgement("pubrel", type, isV5);
    case 7:
      return acknowledgement("pubcomp", type, isV5);
    case 9:
      return suback(isV5);
    case 11:
      return unsuback(isV5);
    case 13:
      r.finish();
      return { type: "pingresp" };
    case 14:
      return disconnect(isV5);
    default:
      return auth(isV5);
  }
}

/** Section 3.3. */
export function publish(first: number, isV5: boolean): Publish {
  const topicAt = r.field();
  const topicEnd = r.position();
  const qos = (first >> 1) & 3;
  const packetId = qos === 0 ? null : r.packetId();
  const given: AnyProperties = isV5 ? readProperties(IN_PUBLISH) : NO_PROPERTIES;
  const topic = r.topicIn(topicAt, topicEnd, "topic_wildcard");
  if (topic === "" && given.topicAlias === undefined) r.fail("topic_missing", topicAt - 2, 0x82);
  // The flags are validated: there is no QoS 3, and QoS 0 has no DUP.
  return {
    type: "publish",
    dup: (first & 8) !== 0,
    qos: qos as 1 | 2,
    retain: (first & 1) !== 0,
    packetId: packetId!,
    topic,
    properties: given,
    payload: r.rest(),
  } satisfies PublishAcknowledged;
}

function connack(isV5: boolean): Connack {
  const at = r.position();
  const flags = r.byte();
  if (flags > 1) r.fail("connack_flags_reserved", at);
  const code = r.byte();
  const reason = isV5 ? code : (CONNACK_V3_REASONS[code] ?? 0x01);
  if (!mayCarry(2, reason)) r.fail("reason_code_unknown", at + 1, 0x82);
  if (flags === 1 && reason !== 0) r.fail("session_present_on_failure", at, 0x82);
  const given = propertiesOf(2, isV5);
  r.finish();
  return { type: "connack", sessionPresent: flags === 1, reason, properties: given };
}

function acknowledgement<T extends "puback" | "pubrec" | "pubrel" | "pubcomp">(
  type: T,
  number: number,
  isV5: boolean,
): Acknowledgement<T> {
  const packetId = r.packetId();
  const reason = lastReason(number, isV5);
  return { type, packetId, reason, properties: lastProperties(number) };
}

/** Reads a reason code, which may be omitted if it is 0 and no properties follow. Before MQTT 5.0 there is none. */
function lastReason(number: number, isV5: boolean): number {
  if (r.left() === 0) return 0;
  if (!isV5) r.finish();
  return reasonCode(number, 0xff);
}

/** Reads optional properties, then the end of the packet. */
function lastProperties(number: number): AnyProperties {
  if (r.left() === 0) return NO_PROPERTIES;
  const given = readProperties(1 << number);
  r.finish();
  return given;
}

function reasonCode(packetNumber: number, highest: number): number {
  const at = r.position();
  const code = r.byte();
  if (!mayCarry(packetNumber, code) || code > highest) r.fail("reason_code_unknown", at, 0x82);
  return code;
}

function suback(isV5: boolean): Suback {
  const packetId = r.packetId();
  const given = propertiesOf(9, isV5);
  return { type: "suback", packetId, properties: given, reasons: reasonCodes(9, isV5 ? 0xff : 0x80) };
}

/** Reads the rest of the packet as reason codes. Before MQTT 5.0 none is above 0x80. */

function reasonCodes(packetNumber: number, highest: number): number[] {
  if (r.left() === 0) r.fail("no_reason_codes", r.position(), 0x82);
  const reasons = [reasonCode(packetNumber, highest)];
  while (r.left() > 0) reasons.push(reasonCode(packetNumber, highest));
  return reasons;
}

function unsuback(isV5: boolean): Unsuback {
  const packetId = r.packetId();
  const given = propertiesOf(11, isV5);
  if (!isV5) r.finish();
  return { type: "unsuback", packetId, properties: given, reasons: isV5 ? reasonCodes(11, 0xff) : [] };
}

function disconnect(isV5: boolean): Disconnect {
  const reason = lastReason(14, isV5);
  return { type: "disconnect", reason, properties: lastProperties(14) };
}

function auth(isV5: boolean): Auth {
  if (!isV5) r.fail("auth_before_v5", r.position());
  if (r.left() === 0) return { type: "auth", reason: 0, properties: NO_PROPERTIES };
  const reason = reasonCode(15, 0xff);
  const at = r.position();
  const given = readProperties(IN_AUTH);
  r.finish();
  const isBareSuccess = reason === 0 && given === NO_PROPERTIES;
  if (!isBareSuccess && given.authenticationMethod === undefined) r.fail("authentication_method_missing", at, 0x82);
  return { type: "auth", reason, properties: given };
}
