// The bodies of the packets (section 3). Each function answers the first byte of the packet.

import type {
  Acknowledgement,
  Auth,
  Connack,
  ConnectInit,
  Disconnect,
  PacketInit,
  ProtocolVersion,
  PublishInit,
  SubscribeInit,
  WillInit,
} from "../packets.js";
import { NO_PROPERTIES, type AuthProperties } from "../properties.js";
import { IN_WILL } from "../property-places.js";
import { CONNACK_V3_REASONS, REASON_PACKETS } from "../reason-codes.js";
import { filterFlaw, isShared } from "../topics.js";
import { hasProperties, integer, writeProperties } from "./property-block.js";
import type { Writer } from "./writer.js";

type Init<T extends PacketInit["type"]> = Extract<PacketInit, { type: T }>;

/** Writes a body. `payload`: whether that of a PUBLISH is written too. */
export function writeBody(w: Writer, packet: PacketInit, version: ProtocolVersion, payload: boolean): number {
  switch (packet.type) {
    case "publish":
      return publish(w, packet, version, payload);
    case "puback":
      return acknowledgement(w, packet, 4, 0x40, version);
    case "pubrec":
      return acknowledgement(w, packet, 5, 0x50, version);
    case "pubrel":
      return acknowledgement(w, packet, 6, 0x62, version);
    case "pubcomp":
      return acknowledgement(w, packet, 7, 0x70, version);
    case "subscribe":
      return subscribe(w, packet, version);
    case "suback":
      return suback(w, packet, version);
    case "unsubscribe":
      return unsubscribe(w, packet, version);
    case "unsuback":
      return unsuback(w, packet, version);
    case "pingreq":
      return 0xc0;
    case "pingresp":
      return 0xd0;
    case "connect":
      return connect(w, packet);
    case "connack":
      return connack(w, packet, version);
    case "disconnect":
      return disconnect(w, packet, version);
    case "auth":
      return auth(w, packet, version);
    default:
      return w.fail("not_a_packet", "type");
  }
}

/** Writes the property block of that packet type in MQTT 5.0, and nothing before it. */
function properties(w: Writer, given: object | undefined, place: number, version: ProtocolVersion): void {
  if (version === 5) {
    if (given === undefined || given === NO_PROPERTIES) w.byte(0);
    else writeProperties(w, given, place);
  } else {
    notBeforeV5(w, given);
  }
}

function notBeforeV5(w: Writer, given: object | undefined): void {
  if (given !== undefined && given !== NO_PROPERTIES && hasProperties(given)) w.fail("not_in_version", "properties");
}

function publish(w: Writer, packet: PublishInit, version: ProtocolVersion, payload: boolean): number {
  const { topic, qos = 0, properties: given, payload: message } = packet;
  const topicIsMissing = topic === "" && !(version === 5 && given?.topicAlias !== undefined);
  if (topicIsMissing) w.fail("topic_missing", "topic");
  w.topic(topic, "topic");
  let first = 0x30;
  if (qos === 0) {
    if (packet.dup) w.fail("out_of_range", "dup");
  } else {
    first |= integer(w, "qos", qos, 1, 2) << 1;
    if (packet.dup) first |= 8;
    packetId(w, packet.packetId);
  }
  if (packet.retain) first |= 1;
  properties(w, given, 1 << 3, version);
  if (payload && message !== undefined) w.payload(message, "payload");
  return first;
}

function packetId(w: Writer, id: number | null | undefined): void {
  w.twoBytes(integer(w, "packetId", id, 1, 0xffff));
}

function acknowledgement(
  w: Writer,
  packet: Init<Acknowledgement<"puback" | "pubrec" | "pubrel" | "pubcomp">["type"]>,
  number: number,
  first: number,
  version: ProtocolVersion,
): number {
  packetId(w, packet.packetId);
  tail(w, packet.reason ?? 0, packet.properties, number, version);
  return first;
}

/** Reason code and properties at the end of a packet that may leave them out, in the shortest legal form. */
function tail(w: Writer, reason: number, given: object | undefined, number: number, version: ProtocolVersion): void {
  checkReason(w, reason, number, "reason");
  if (version !== 5) {
    if (reason !== 0) w.fail("not_in_version", "reason");
    notBeforeV5(w, given);
    return;
  }
  if (given === undefined || given === NO_PROPERTIES || !hasProperties(given)) {
    if (reason !== 0) w.byte(reason);
    return;
  }
  w.byte(reason);
  writeProperties(w, given, 1 << number);
}

function checkReason(w: Writer, reason: number, number: number, field: string): void {
  if (((REASON_PACKETS[reason]! >> number) & 1) === 0) w.fail("reason_code_unknown", field);
}

function connect(w: Writer, packet: ConnectInit): number {
  const { protocolVersion: version = 5, will, userName, password } = packet;
  integer(w, "protocolVersion", version, 3, 5);
  if (password != null && userName == null && version !== 5) w.fail("password_without_user_name", "password");
  w.text(version === 3 ? "MQIsdp" : "MQTT", "protocolName");
  w.byte(version);
  w.byte(
    (userName == null ? 0 : 0x80) |
      (password == null ? 0 : 0x40) |
      (will == null ? 0 : willFlags(w, will)) |
      (packet.cleanStart === false ? 0 : 0x02),
  );
  w.twoBytes(integer(w, "keepAliveS", packet.keepAliveS ?? 0, 0, 0xffff));
  properties(w, packet.properties, 1 << 1, version);
  w.text(packet.clientId, "clientId");
  if (will != null) {
    properties(w, will.properties, IN_WILL, version);
    if (will.topic === "") w.fail("topic_wildcard", "will.topic");
    w.topic(will.topic, "will.topic");
    w.binary(will.payload, "will.payload");
  }
  if (userName != null) w.text(userName, "userName");
  if (password != null) w.binary(password, "password");
  return 0x10;
}

function willFlags(w: Writer, will: WillInit): number {
  return 0x04 | (integer(w, "will.qos", will.qos ?? 0, 0, 2) << 3) | (will.retain ? 0x20 : 0);
}

function connack(w: Writer, packet: Init<Connack["type"]>, version: ProtocolVersion): number {
  const { reason } = packet;
  checkReason(w, reason, 2, "reason");
  if (packet.sessionPresent && reason !== 0) w.fail("session_present_on_failure", "sessionPresent");
  const code = version === 5 ? reason : CONNACK_V3_REASONS.indexOf(reason);
  if (code < 0) w.fail("not_in_version", "reason");
  w.byte(packet.sessionPresent ? 1 : 0);
  w.byte(code);
  properties(w, packet.properties, 1 << 2, version);
  return 0x20;
}

function subscribe(w: Writer, packet: SubscribeInit, version: ProtocolVersion): number {
  packetId(w, packet.packetId);
  properties(w, packet.properties, 1 << 8, version);
  const { requests } = packet;
  if (isEmpty(requests)) w.fail("no_topic_filters", "requests");
  for (const request of requests) {
    const isSharedFilter = topicFilter(w, request.filter, "requests.filter");
    const { noLocal = false, retainAsPublished = false } = request;
    const qos = integer(w, "requests.qos", request.qos ?? 0, 0, 2);
    const handling = integer(w, "requests.retainHandling", request.retainHandling ?? 0, 0, 2);
    if (noLocal && isSharedFilter) w.fail("no_local_on_shared", "requests.noLocal");
    const options = qos | (noLocal ? 4 : 0) | (retainAsPublished ? 8 : 0) | (handling << 4);
    if (version !== 5 && options !== qos) w.fail("not_in_version", "requests");
    w.byte(options);
  }
  return 0x82;
}

/** Whether it is no list or has no items. */
function isEmpty(list: unknown): boolean {
  return !Array.isArray(list) || list.length === 0;
}

/** Answers whether the filter is a shared one. */
function topicFilter(w: Writer, filter: string, field: string): boolean {
  const start = w.text(filter, field);
  if (filterFlaw(w.bytes, start, w.at) !== null) w.fail("topic_filter_invalid", field);
  return isShared(w.bytes, start, w.at);
}

function suback(w: Writer, packet: Init<"suback">, version: ProtocolVersion): number {
  packetId(w, packet.packetId);
  properties(w, packet.properties, 1 << 9, version);
  reasons(w, packet.reasons, 9, version === 5 ? 0xff : 0x80);
  return 0x90;
}

function reasons(w: Writer, codes: readonly number[], number: number, highest: number): void {
  if (isEmpty(codes)) w.fail("no_reason_codes", "reasons");
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    checkReason(w, code, number, "reasons");
    if (code > highest) w.fail("not_in_version", "reasons");
    w.byte(code);
  }
}

function unsubscribe(w: Writer, packet: Init<"unsubscribe">, version: ProtocolVersion): number {
  packetId(w, packet.packetId);
  properties(w, packet.properties, 1 << 10, version);
  const { filters } = packet;
  if (isEmpty(filters)) w.fail("no_topic_filters", "filters");
  for (let at = 0; at < filters.length; at++) topicFilter(w, filters[at]!, "filters");
  return 0xa2;
}

function unsuback(w: Writer, packet: Init<"unsuback">, version: ProtocolVersion): number {
  packetId(w, packet.packetId);
  properties(w, packet.properties, 1 << 11, version);
  const codes = packet.reasons ?? [];
  if (version === 5) reasons(w, codes, 11, 0xff);
  else if (codes.length > 0) w.fail("not_in_version", "reasons");
  return 0xb0;
}

function disconnect(w: Writer, packet: Init<Disconnect["type"]>, version: ProtocolVersion): number {
  tail(w, packet.reason ?? 0, packet.properties, 14, version);
  return 0xe0;
}

function auth(w: Writer, packet: Init<Auth["type"]>, version: ProtocolVersion): number {
  if (version !== 5) w.fail("not_in_version", "type");
  const reason = packet.reason ?? 0;
  const given: AuthProperties = packet.properties ?? NO_PROPERTIES;
  checkReason(w, reason, 15, "reason");
  const isEmpty = !hasProperties(given);
  if (reason === 0 && isEmpty) return 0xf0;
  if (given.authenticationMethod === undefined) w.fail("authentication_method_missing", "authenticationMethod");
  w.byte(reason);
  writeProperties(w, given, 1 << 15);
  return 0xf0;
}
