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
import { NO_PROPERTIES, type PublishProperties } from "../properties.js";
import { IN_AUTH, IN_CONNACK, IN_CONNECT, IN_DISCONNECT, IN_SUBSCRIBE, IN_WILL } from "../property-places.js";
import { CONNACK_V3_REASONS, REASON_PACKETS } from "../reason-codes.js";
import { filterFlaw, firstWildcard, isShared } from "../topics.js";
import { messageProperties, otherProperties, publishProperties } from "./property-block.js";
import type { Reader } from "./reader.js";
import { SHORT_ASCII_MAX, shortTopic } from "./short-ascii.js";
import { decodeText, scanText } from "./text.js";
import type { TextCache } from "./text-cache.js";

/** Decodes any body but that of PUBLISH. `first`: the checked first byte of the packet. */
export function decodeBody(r: Reader, first: number, version: ProtocolVersion): Packet {
  const isV5 = version === 5;
  switch (first >> 4) {
    case 1:
      return connect(r);
    case 2:
      return connack(r, isV5);
    case 4:
      return acknowledgement(r, "puback", 4, isV5);
    case 5:
      return acknowledgement(r, "pubrec", 5, isV5);
    case 6:
      return acknowledgement(r, "pubrel", 6, isV5);
    case 7:
      return acknowledgement(r, "pubcomp", 7, isV5);
    case 8:
      return subscribe(r, isV5);
    case 9:
      return suback(r, isV5);
    case 10:
      return unsubscribe(r, isV5);
    case 11:
      return unsuback(r, isV5);
    case 12:
      r.finish();
      return { type: "pingreq" };
    case 13:
      r.finish();
      return { type: "pingresp" };
    case 14:
      return disconnect(r, isV5);
    default:
      return auth(r, isV5);
  }
}

/** Section 3.3. */
export function decodePublish(r: Reader, first: number, version: ProtocolVersion, topics: TextCache): Publish {
  const topicAt = r.field();
  const topicEnd = r.at;
  const qos = (first >> 1) & 3;
  const packetId = qos === 0 ? null : r.packetId();
  const properties = version === 5 ? publishProperties(r) : NO_PROPERTIES;
  let topic = topics.find(r.bytes, topicAt, topicEnd);
  if (topic === undefined) {
    topic = newTopic(r, topicAt, topicEnd, properties);
    topics.keep(topic, r.bytes, topicAt, topicEnd);
  }
  const payload = r.view(r.at, r.end);
  // The flags have been checked: QoS 3 does not come here, and QoS 0 comes without DUP.
  return {
    type: "publish",
    dup: (first & 8) !== 0,
    qos: qos as 1 | 2,
    retain: (first & 1) !== 0,
    packetId: packetId!,
    topic,
    properties,
    payload,
  } satisfies PublishAcknowledged;
}

function newTopic(r: Reader, start: number, end: number, properties: PublishProperties): string {
  const topic = topicName(r, start, end);
  if (topic.length === 0 && properties.topicAlias === undefined) r.fail("topic_missing", start - 2, 0x82);
  return topic;
}

/** The text of those bytes, which is a topic name or empty. */
export function topicName(r: Reader, start: number, end: number): string {
  if (end - start <= SHORT_ASCII_MAX) {
    const topic = shortTopic(r.bytes, start, end);
    if (topic !== null) return topic;
  }
  const topic = r.textIn(start, end);
  const wildcard = firstWildcard(r.bytes, start, end);
  if (wildcard < end) r.fail("topic_wildcard", wildcard, 0x90);
  return topic;
}

function connect(r: Reader): Connect {
  const version = connectVersion(r);
  const flags = connectFlags(r, version);
  const keepAliveS = r.twoBytes();
  const properties = version === 5 ? otherProperties(r, IN_CONNECT) : NO_PROPERTIES;
  const clientId = r.text();
  const will = (flags & 0x04) !== 0 ? readWill(r, flags, version) : null;
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
    properties,
  };
}

function connectVersion(r: Reader): ProtocolVersion {
  const start = r.at;
  const name = r.text();
  if (name !== "MQTT" && name !== "MQIsdp") r.fail("protocol_name_unknown", start, 0x84);
  const level = r.byte();
  if (name === "MQTT" ? level === 4 || level === 5 : level === 3) return level as ProtocolVersion;
  return r.fail("protocol_level_unsupported", r.at - 1, 0x84);
}

function connectFlags(r: Reader, version: ProtocolVersion): number {
  const at = r.at;
  const flags = r.byte();
  if ((flags & 0x01) !== 0) r.fail("connect_flag_reserved", at);
  if ((flags & 0x04) === 0 && (flags & 0x38) !== 0) r.fail("will_flags_without_will", at);
  if ((flags & 0x18) === 0x18) r.fail("will_qos_three", at);
  if (version !== 5 && (flags & 0xc0) === 0x40) r.fail("password_without_user_name", at);
  return flags;
}

function readWill(r: Reader, flags: number, version: ProtocolVersion): Will {
  const properties = version === 5 ? messageProperties(r, IN_WILL) : NO_PROPERTIES;
  const start = r.field();
  const end = r.at;
  const topic = willTopic(r, start, end);
  const payload = r.binary();
  return { topic, payload, qos: ((flags >> 3) & 3) as QoS, retain: (flags & 0x20) !== 0, properties };
}

function willTopic(r: Reader, start: number, end: number): string {
  if (start === end) r.fail("will_topic_invalid", start, 0x90);
  const topic = decodeText(r.bytes, start, end);
  const wildcard = firstWildcard(r.bytes, start, end);
  if (topic === null) {
    const flaw = scanText(r.bytes, start, end);
    // What comes first is named; text that is not UTF-8 has no characters at all.
    if (flaw.code === "utf8_invalid" || flaw.at < wildcard) r.fail(flaw.code, flaw.at);
  }
  if (topic === null || wildcard < end) return r.fail("will_topic_invalid", wildcard, 0x90);
  return topic;
}

function connack(r: Reader, isV5: boolean): Connack {
  const at = r.at;
  const flags = r.byte();
  if (flags > 1) r.fail("connack_flags_reserved", at);
  const code = r.byte();
  const reason = isV5 ? code : (CONNACK_V3_REASONS[code] ?? 0x01);
  if (((REASON_PACKETS[reason]! >> 2) & 1) === 0) r.fail("reason_code_unknown", at + 1, 0x82);
  if (flags === 1 && reason !== 0) r.fail("session_present_on_failure", at, 0x82);
  const properties = isV5 ? otherProperties(r, IN_CONNACK) : NO_PROPERTIES;
  r.finish();
  return { type: "connack", sessionPresent: flags === 1, reason, properties };
}

function acknowledgement<T extends "puback" | "pubrec" | "pubrel" | "pubcomp">(
  r: Reader,
  type: T,
  number: number,
  isV5: boolean,
): Acknowledgement<T> {
  const packetId = r.packetId();
  if (r.at === r.end) return { type, packetId, reason: 0, properties: NO_PROPERTIES };
  if (!isV5) r.finish();
  const reason = reasonCode(r, number);
  const properties = r.at === r.end ? NO_PROPERTIES : otherProperties(r, 1 << number);
  r.finish();
  return { type, packetId, reason, properties };
}

function reasonCode(r: Reader, packetNumber: number): number {
  const code = r.byte();
  if (((REASON_PACKETS[code]! >> packetNumber) & 1) === 0) r.fail("reason_code_unknown", r.at - 1, 0x82);
  return code;
}

function subscribe(r: Reader, isV5: boolean): Subscribe {
  const packetId = r.packetId();
  const properties = isV5 ? otherProperties(r, IN_SUBSCRIBE) : NO_PROPERTIES;
  if (r.at === r.end) r.fail("no_topic_filters", r.at, 0x82);
  const requests: SubscriptionRequest[] = [];
  while (r.at < r.end) requests.push(subscriptionRequest(r, isV5));
  return { type: "subscribe", packetId, properties, requests };
}

function subscriptionRequest(r: Reader, isV5: boolean): SubscriptionRequest {
  const filterAt = r.at + 2;
  const filter = topicFilter(r);
  const at = r.at;
  const options = r.byte();
  if ((options & (isV5 ? 0xc0 : 0xfc)) !== 0) r.fail("subscription_options_reserved", at);
  const qos = options & 3;
  if (qos === 3) {
    if (isV5) r.fail("subscription_qos_three", at, 0x82);
    r.fail("subscription_options_reserved", at);
  }
  const retainHandling = options >> 4;
  if (retainHandling === 3) r.fail("retain_handling_three", at, 0x82);
  const noLocal = (options & 4) !== 0;
  if (noLocal && isShared(r.bytes, filterAt, at)) r.fail("no_local_on_shared", at, 0x82);
  return {
    filter,
    qos: qos as QoS,
    noLocal,
    retainAsPublished: (options & 8) !== 0,
    retainHandling: retainHandling as 0 | 1 | 2,
  };
}

function topicFilter(r: Reader): string {
  const start = r.field();
  const filter = r.textIn(start, r.at);
  const flaw = filterFlaw(r.bytes, start, r.at);
  if (flaw !== null) r.fail(flaw.code, flaw.at, 0x8f);
  return filter;
}

function suback(r: Reader, isV5: boolean): Suback {
  const packetId = r.packetId();
  const properties = isV5 ? otherProperties(r, 1 << 9) : NO_PROPERTIES;
  return { type: "suback", packetId, properties, reasons: reasonCodes(r, 9, isV5) };
}

/** What is left of the packet, as reason codes. Before MQTT 5.0 none is above 0x80. */
function reasonCodes(r: Reader, packetNumber: number, isV5: boolean): number[] {
  const { bytes, end } = r;
  let at = r.at;
  if (at === end) r.fail("no_reason_codes", at, 0x82);
  const reasons: number[] = [];
  for (; at < end; at++) {
    const code = bytes[at]!;
    if (((REASON_PACKETS[code]! >> packetNumber) & 1) === 0 || (!isV5 && code > 0x80)) {
      r.fail("reason_code_unknown", at, 0x82);
    }
    reasons.push(code);
  }
  r.at = end;
  return reasons;
}

function unsubscribe(r: Reader, isV5: boolean): Unsubscribe {
  const packetId = r.packetId();
  const properties = isV5 ? otherProperties(r, 1 << 10) : NO_PROPERTIES;
  if (r.at === r.end) r.fail("no_topic_filters", r.at, 0x82);
  const filters: string[] = [];
  while (r.at < r.end) filters.push(topicFilter(r));
  return { type: "unsubscribe", packetId, properties, filters };
}

function unsuback(r: Reader, isV5: boolean): Unsuback {
  const packetId = r.packetId();
  if (!isV5) {
    r.finish();
    return { type: "unsuback", packetId, properties: NO_PROPERTIES, reasons: [] };
  }
  const properties = otherProperties(r, 1 << 11);
  return { type: "unsuback", packetId, properties, reasons: reasonCodes(r, 11, true) };
}

function disconnect(r: Reader, isV5: boolean): Disconnect {
  if (r.at === r.end) return { type: "disconnect", reason: 0, properties: NO_PROPERTIES };
  if (!isV5) r.finish();
  const reason = reasonCode(r, 14);
  const properties = r.at === r.end ? NO_PROPERTIES : otherProperties(r, IN_DISCONNECT);
  r.finish();
  return { type: "disconnect", reason, properties };
}

function auth(r: Reader, isV5: boolean): Auth {
  if (!isV5) r.fail("auth_before_v5", r.at);
  if (r.at === r.end) return { type: "auth", reason: 0, properties: NO_PROPERTIES };
  const reason = reasonCode(r, 15);
  const at = r.at;
  const properties = otherProperties(r, IN_AUTH);
  r.finish();
  const isBareSuccess = reason === 0 && properties === NO_PROPERTIES;
  if (!isBareSuccess && properties.authenticationMethod === undefined) r.fail("authentication_method_missing", at, 0x82);
  return { type: "auth", reason, properties };
}
