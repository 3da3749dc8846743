// The bodies of the packets (section 3): one function for each kind. What is checked, and in which order, is the same in
// all decoders of this project, so that they give the same verdict on every input.

import type {
  Acknowledgement,
  Auth,
  Connack,
  Connect,
  Disconnect,
  Packet,
  ProtocolVersion,
  Publish,
  PublishAcknowledged,
  QoS,
  Suback,
  Subscribe,
  SubscriptionRequest,
  Unsuback,
  Unsubscribe,
  Will,
} from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import { IN_AUTH, IN_PUBLISH, IN_WILL } from "../property-places.js";
import { CONNACK_V3_REASONS, mayCarry } from "../reason-codes.js";
import { filterFlaw, isShared } from "../topics.js";
import { readProperties, type AnyProperties } from "./property-block.js";
import * as r from "./reader.js";

/** Decodes the body that the reader has begun. `first`: the checked first byte of the packet. */
export function decodeBody(first: number, version: ProtocolVersion): Packet {
  const isV5 = version === 5;
  const type = first >> 4;
  switch (type) {
    case 1:
      return connect();
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
    case 8:
      return subscribe(isV5);
    case 9:
      return suback(isV5);
    case 10:
      return unsubscribe(isV5);
    case 11:
      return unsuback(isV5);
    case 12:
      r.finish();
      return { type: "pingreq" };
    case 13:
      r.finish();
      return { type: "pingresp" };
    case 14:
      return disconnect(isV5);
    default:
      return auth(isV5);
  }
}

/** The properties of that packet type in MQTT 5.0. */
function properties(type: number, isV5: boolean): AnyProperties {
  return isV5 ? readProperties(1 << type) : NO_PROPERTIES;
}

/** Section 3.3. */
function publish(first: number, isV5: boolean): Publish {
  const topicAt = r.field();
  const topicEnd = r.position();
  const qos = (first >> 1) & 3;
  const packetId = qos === 0 ? null : r.packetId();
  const given: AnyProperties = isV5 ? readProperties(IN_PUBLISH) : NO_PROPERTIES;
  const topic = r.topicIn(topicAt, topicEnd, "topic_wildcard");
  if (topic === "" && given.topicAlias === undefined) r.fail("topic_missing", topicAt - 2, 0x82);
  // The flags have been checked: QoS 3 does not come here, and QoS 0 comes without DUP.
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

function connect(): Connect {
  const version = connectVersion();
  const flags = connectFlags(version);
  const keepAliveS = r.twoBytes();
  const given = properties(1, version === 5);
  const clientId = r.text();
  const will = (flags & 0x04) !== 0 ? readWill(flags, version) : null;
  const userName = (flags & 0x80) !== 0 ? r.text() : null;
  const password = (flags & 0x40) !== 0 ? r.binary() : null;
  r.finish();
  return {
    type: "connect",
    protocolVersion: version,
    cleanStart: (flags & 0x02) !== 0,
    keepAliveS,
    clientId,
    will,
    userName,
    password,
    properties: given,
  };
}

function connectVersion(): ProtocolVersion {
  const start = r.position();
  const name = r.text();
  if (name !== "MQTT" && name !== "MQIsdp") r.fail("protocol_name_unknown", start, 0x84);
  const at = r.position();
  const level = r.byte();
  if (name === "MQTT" ? level === 4 || level === 5 : level === 3) return level as ProtocolVersion;
  return r.fail("protocol_level_unsupported", at, 0x84);
}

function connectFlags(version: ProtocolVersion): number {
  const at = r.position();
  const flags = r.byte();
  if ((flags & 0x01) !== 0) r.fail("connect_flag_reserved", at);
  if ((flags & 0x04) === 0 && (flags & 0x38) !== 0) r.fail("will_flags_without_will", at);
  if ((flags & 0x18) === 0x18) r.fail("will_qos_three", at);
  if (version !== 5 && (flags & 0xc0) === 0x40) r.fail("password_without_user_name", at);
  return flags;
}

function readWill(flags: number, version: ProtocolVersion): Will {
  const properties = version === 5 ? readProperties(IN_WILL) : NO_PROPERTIES;
  const start = r.field();
  const topic = r.topicIn(start, r.position(), "will_topic_invalid");
  const payload = r.binary();
  return { topic, payload, qos: ((flags >> 3) & 3) as QoS, retain: (flags & 0x20) !== 0, properties };
}

function connack(isV5: boolean): Connack {
  const at = r.position();
  const flags = r.byte();
  if (flags > 1) r.fail("connack_flags_reserved", at);
  const code = r.byte();
  const reason = isV5 ? code : (CONNACK_V3_REASONS[code] ?? 0x01);
  if (!mayCarry(2, reason)) r.fail("reason_code_unknown", at + 1, 0x82);
  if (flags === 1 && reason !== 0) r.fail("session_present_on_failure", at, 0x82);
  const given = properties(2, isV5);
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

/** A reason code that may be left out if it is 0 and no properties follow. Before MQTT 5.0 there is none. */
function lastReason(number: number, isV5: boolean): number {
  if (r.left() === 0) return 0;
  if (!isV5) r.finish();
  return reasonCode(number, 0xff);
}

/** Properties that may be left out, then the end of the packet. */
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

function subscribe(isV5: boolean): Subscribe {
  const packetId = r.packetId();
  const given = properties(8, isV5);
  const requests: SubscriptionRequest[] = [];
  do requests.push(subscriptionRequest(isV5));
  while (r.left() > 0);
  return { type: "subscribe", packetId, properties: given, requests };
}

function subscriptionRequest(isV5: boolean): SubscriptionRequest {
  const filterAt = r.position() + 2;
  const filter = topicFilter();
  const at = r.position();
  const options = r.byte();
  const qos = options & 3;
  if ((options & (isV5 ? 0xc0 : 0xfc)) !== 0 || (qos === 3 && !isV5)) r.fail("subscription_options_reserved", at);
  if (qos === 3) r.fail("subscription_qos_three", at, 0x82);
  const retainHandling = options >> 4;
  if (retainHandling === 3) r.fail("retain_handling_three", at, 0x82);
  const noLocal = (options & 4) !== 0;
  if (noLocal && isShared(r.source(), filterAt, at)) r.fail("no_local_on_shared", at, 0x82);
  return {
    filter,
    qos: qos as QoS,
    noLocal,
    retainAsPublished: (options & 8) !== 0,
    retainHandling: retainHandling as 0 | 1 | 2,
  };
}

/** One of the topic filters of a packet that holds at least one. */
function topicFilter(): string {
  const at = r.position();
  if (r.left() === 0) r.fail("no_topic_filters", at, 0x82);
  const filter = r.text();
  const flaw = filterFlaw(r.source(), at + 2, r.position());
  if (flaw !== null) r.fail(flaw.code, flaw.at, 0x8f);
  return filter;
}

function suback(isV5: boolean): Suback {
  const packetId = r.packetId();
  const given = properties(9, isV5);
  return { type: "suback", packetId, properties: given, reasons: reasonCodes(9, isV5 ? 0xff : 0x80) };
}

/** What is left of the packet, as reason codes. Before MQTT 5.0 none is above 0x80. */
function reasonCodes(packetNumber: number, highest: number): number[] {
  if (r.left() === 0) r.fail("no_reason_codes", r.position(), 0x82);
  const reasons: number[] = [];
  do reasons.push(reasonCode(packetNumber, highest));
  while (r.left() > 0);
  return reasons;
}

function unsubscribe(isV5: boolean): Unsubscribe {
  const packetId = r.packetId();
  const given = properties(10, isV5);
  const filters: string[] = [];
  do filters.push(topicFilter());
  while (r.left() > 0);
  return { type: "unsubscribe", packetId, properties: given, filters };
}

function unsuback(isV5: boolean): Unsuback {
  const packetId = r.packetId();
  const given = properties(11, isV5);
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
