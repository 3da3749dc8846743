// The bodies of the packets that only clients send (sections 3.1, 3.8, 3.10, 3.12). All decoders of this project make the same
// checks in the same order, so that they give the same result for every input.

import type {
  Connect,
  ProtocolVersion,
  QoS,
  Subscribe,
  SubscriptionRequest,
  Unsubscribe,
  Will,
} from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import { IN_WILL } from "../property-places.js";
import { filterFlaw, isShared } from "../topics.js";
import { propertiesOf, readProperties } from "./property-block.js";
import * as r from "./reader.js";

export function connect(): Connect {
  const version = connectVersion();
  const flags = connectFlags(version);
  const keepAliveS = r.twoBytes();
  const given = propertiesOf(1, version === 5);
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

export function subscribe(isV5: boolean): Subscribe {
  const packetId = r.packetId();
  const given = propertiesOf(8, isV5);
  // Created with its first element, an array takes no more memory than it needs, and is created faster.
  const requests = [subscriptionRequest(isV5)];
  while (r.left() > 0) requests.push(subscriptionRequest(isV5));
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

/** Reads one topic filter of a packet that contains at least one. */
function topicFilter(): string {
  if (r.left() === 0) r.fail("no_topic_filters", r.position(), 0x82);
  const from = r.field();
  const to = r.position();
  return r.knownFilter(from, to) ?? newFilter(from, to);
}

function newFilter(from: number, to: number): string {
  const filter = r.textIn(from, to);
  const flaw = filterFlaw(r.source(), from, to);
  if (flaw !== null) r.fail(flaw.code, flaw.at, 0x8f);
  r.cacheFilter(filter, from, to);
  return filter;
}

export function unsubscribe(isV5: boolean): Unsubscribe {
  const packetId = r.packetId();
  const given = propertiesOf(10, isV5);
  const filters = [topicFilter()];
  while (r.left() > 0) filters.push(topicFilter());
  return { type: "unsubscribe", packetId, properties: given, filters };
}
