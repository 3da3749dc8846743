// The bodies of the packets that clients send (section 3). Each function returns the first byte of the packet.

import type {
  Acknowledgement,
  Auth,
  ConnectInit,
  Disconnect,
  PacketInit,
  ProtocolVersion,
  PublishInit,
  SubscribeInit,
  WillInit,
} from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import { mayCarry } from "../reason-codes.js";
import { hasProperties, writeProperties } from "./property-block.js";
import * as w from "./writer.js";

type Init<T extends PacketInit["type"]> = Extract<PacketInit, { type: T }>;

/** Writes a packet that only servers send, and returns its first byte. */
export type WriteOther = (packet: PacketInit, version: ProtocolVersion) => number;

/** Writes a body. `payload`: whether to write the payload of a PUBLISH. `other`: writes packets that clients do not send. */
export function writeSentByClient(
  packet: PacketInit,
  version: ProtocolVersion,
  payload: boolean,
  other: WriteOther,
): number {
  switch (packet.type) {
    case "publish":
      return publish(packet, version, payload);
    case "puback":
      return acknowledgement(packet, 4, 0x40, version);
    case "pubrec":
      return acknowledgement(packet, 5, 0x50, version);
    case "pubrel":
      return acknowledgement(packet, 6, 0x62, version);
    case "pubcomp":
      return acknowledgement(packet, 7, 0x70, version);
    case "subscribe":
      return subscribe(packet, version);
    case "unsubscribe":
      return unsubscribe(packet, version);
    case "pingreq":
      return 0xc0;
    case "connect":
      return connect(packet);
    case "disconnect":
      return disconnect(packet, version);
    case "auth":
      return auth(packet, version);
    default:
      return other(packet, version);
  }
}

/** Writes the properties of that packet type (0 for a will), which are always present in MQTT 5.0. */
export function properties(given: object | undefined, number: number, version: ProtocolVersion): void {
  if (version !== 5) notBeforeV5(given);
  else if (given === undefined || given === NO_PROPERTIES) w.byte(0);
  else writeProperties(given, 1 << number);
}

function notBeforeV5(given: object | undefined): void {
  if (hasProperties(given)) w.fail("not_in_version", "properties");
}

function publish(packet: PublishInit, version: ProtocolVersion, payload: boolean): number {
  const { topic, qos = 0, properties: given, payload: message } = packet;
  w.expectMessage(topic, message);
  if (topic !== "") {
    w.topic(topic, "topic");
  } else {
    if (version !== 5 || given?.topicAlias === undefined) w.fail("topic_missing", "topic");
    w.twoBytes(0);
  }
  let first = 0x30;
  if (qos === 0) {
    if (packet.dup) w.fail("dup_with_qos_zero", "dup");
  } else {
    first |= w.integer(qos, 1, 2, "qos", "qos_unknown") << 1;
    if (packet.dup) first |= 8;
    packetId(packet.packetId);
  }
  if (packet.retain) first |= 1;
  properties(given, 3, version);
  if (payload && message !== undefined) w.payload(message, "payload");
  return first;
}

export function packetId(id: number | null | undefined): void {
  w.twoBytes(w.integer(id, 1, 0xffff, "packetId"));
}

function acknowledgement(
  packet: Init<Acknowledgement<"puback" | "pubrec" | "pubrel" | "pubcomp">["type"]>,
  number: number,
  first: number,
  version: ProtocolVersion,
): number {
  packetId(packet.packetId);
  tail(packet.reason ?? 0, packet.properties, number, version);
  return first;
}

/**
 * Writes the optional reason code and properties at the end of a packet, in the shortest valid form. Returns whether
 * the properties contain an authentication method.
 */
function tail(reason: number, given: object | undefined, number: number, version: ProtocolVersion): boolean {
  checkReason(reason, number, "reason");
  if (version !== 5) {
    if (reason !== 0) w.fail("not_in_version", "reason");
    notBeforeV5(given);
  } else if (hasProperties(given)) {
    w.byte(reason);
    return writeProperties(given!, 1 << number);
  } else if (reason !== 0) {
    w.byte(reason);
  }
  return false;
}

export function checkReason(reason: number, number: number, field: string): void {
  if (typeof reason !== "number") w.fail("wrong_type", field);
  if (!mayCarry(number, reason)) w.fail("reason_code_unknown", field);
}

function connect(packet: ConnectInit): number {
  const { protocolVersion: version = 5, will, userName, password } = packet;
  w.integer(version, 3, 5, "protocolVersion");
  if (password != null && userName == null && version !== 5) w.fail("password_without_user_name", "password");
  // The server assigns an identifier only for clean sessions [MQTT-3.1.3-7].
  if (packet.clientId === "" && packet.cleanStart === false && version !== 5) w.fail("client_id_missing", "clientId");
  w.text(version === 3 ? "MQIsdp" : "MQTT", "protocolName");
  w.byte(version);
  w.byte(
    (userName == null ? 0 : 0x80) |
      (password == null ? 0 : 0x40) |
      (will == null ? 0 : willFlags(will)) |
      (packet.cleanStart === false ? 0 : 0x02),
  );
  w.twoBytes(w.integer(packet.keepAliveS ?? 0, 0, 0xffff, "keepAliveS"));
  properties(packet.properties, 1, version);
  w.text(packet.clientId, "clientId");
  if (will != null) {
    properties(will.properties, 0, version);
    w.topic(will.topic, "will.topic", "will_topic_invalid");
    w.binary(will.payload, "will.payload");
  }
  if (userName != null) w.text(userName, "userName");
  if (password != null) w.binary(password, "password");
  return 0x10;
}

function willFlags(will: WillInit): number {
  return 0x04 | (w.integer(will.qos ?? 0, 0, 2, "will.qos", "qos_unknown") << 3) | (will.retain ? 0x20 : 0);
}

function subscribe(packet: SubscribeInit, version: ProtocolVersion): number {
  packetId(packet.packetId);
  properties(packet.properties, 8, version);
  const { requests } = packet;
  if (isEmpty(requests)) w.fail("no_topic_filters", "requests");
  for (const request of requests) {
    const isSharedFilter = w.topicFilter(request.filter, "requests.filter");
    const { noLocal = false, retainAsPublished = false } = request;
    const qos = w.integer(request.qos ?? 0, 0, 2, "requests.qos", "qos_unknown");
    const handling = w.integer(request.retainHandling ?? 0, 0, 2, "requests.retainHandling");
    if (noLocal && isSharedFilter) w.fail("no_local_on_shared", "requests.noLocal");
    const options = qos | (noLocal ? 4 : 0) | (retainAsPublished ? 8 : 0) | (handling << 4);
    if (version !== 5 && options !== qos) w.fail("not_in_version", "requests");
    w.byte(options);
  }
  return 0x82;
}

/** Whether the value is not an array, or is empty. */
export function isEmpty(list: unknown): boolean {
  return !Array.isArray(list) || list.length === 0;
}

function unsubscribe(packet: Init<"unsubscribe">, version: ProtocolVersion): number {
  packetId(packet.packetId);
  properties(packet.properties, 10, version);
  const { filters } = packet;
  if (isEmpty(filters)) w.fail("no_topic_filters", "filters");
  for (let at = 0; at < filters.length; at++) w.topicFilter(filters[at]!, "filters");
  return 0xa2;
}

function disconnect(packet: Init<Disconnect["type"]>, version: ProtocolVersion): number {
  tail(packet.reason ?? 0, packet.properties, 14, version);
  return 0xe0;
}

function auth(packet: Init<Auth["type"]>, version: ProtocolVersion): number {
  if (version !== 5) w.fail("auth_before_v5", "type");
  const reason = packet.reason ?? 0;
  const hasMethod = tail(reason, packet.properties, 15, version);
  // A success without properties has an empty body.
  if (!hasMethod && w.written() > 0) w.fail("authentication_method_missing", "authenticationMethod");
  return 0xf0;
}
