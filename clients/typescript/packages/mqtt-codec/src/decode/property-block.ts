// Property blocks (section 2.2.2): one function for messages, which are many, and one for all other packets.

import type { DecodeErrorCode } from "../decode-error.js";
import {
  NO_PROPERTIES,
  type AuthProperties,
  type ConnackProperties,
  type ConnectProperties,
  type DisconnectProperties,
  type PublishProperties,
  type SubscribeProperties,
  type UserProperty,
  type WillProperties,
} from "../properties.js";
import { IN_PUBLISH, PROPERTY_PLACES } from "../property-places.js";
import { firstWildcard } from "../topics.js";
import type { Reader } from "./reader.js";

type OtherProperties = AuthProperties & ConnackProperties & ConnectProperties & DisconnectProperties & SubscribeProperties;

/** Reads the properties of a PUBLISH or a will. `place`: the bit of which of them. */
export function messageProperties(r: Reader, place: number): PublishProperties & WillProperties {
  const packetEnd = open(r);
  if (packetEnd < 0) return NO_PROPERTIES;
  const p: PublishProperties & WillProperties = {};
  let seen = 0;
  while (r.at < r.end) {
    const id = r.byte();
    if ((PROPERTY_PLACES[id]! & place) === 0) refuse(r, id);
    switch (id) {
      case 0x01:
        seen = once(r, seen, 1);
        p.payloadFormatIndicator = zeroOrOne(r, "payload_format_unknown");
        break;
      case 0x02:
        seen = once(r, seen, 2);
        p.messageExpiryInterval = r.fourBytes();
        break;
      case 0x03:
        seen = once(r, seen, 4);
        p.contentType = r.propertyText();
        break;
      case 0x08:
        seen = once(r, seen, 8);
        p.responseTopic = responseTopic(r);
        break;
      case 0x09:
        seen = once(r, seen, 16);
        p.correlationData = r.binary();
        break;
      case 0x0b: {
        const value = subscriptionIdentifier(r);
        if (p.subscriptionIdentifiers === undefined) p.subscriptionIdentifiers = [value];
        else (p.subscriptionIdentifiers as number[]).push(value);
        break;
      }
      case 0x18:
        seen = once(r, seen, 32);
        p.willDelayInterval = r.fourBytes();
        break;
      case 0x23:
        seen = once(r, seen, 64);
        p.topicAlias = nonZero(r, r.twoBytes(), 2, "topic_alias_zero", 0x94);
        break;
      default:
        p.userProperties = userProperty(r, p.userProperties);
    }
  }
  close(r, packetEnd);
  return p;
}

/** Reads the properties of any other packet. `place`: the bit of its type. */
export function otherProperties(r: Reader, place: number): OtherProperties {
  const packetEnd = open(r);
  if (packetEnd < 0) return NO_PROPERTIES;
  const blockAt = r.at;
  const p: OtherProperties = {};
  let seen = 0;
  while (r.at < r.end) {
    const id = r.byte();
    if ((PROPERTY_PLACES[id]! & place) === 0) refuse(r, id);
    // No two identifiers that come here have these five bits in common.
    if (id !== 0x26) seen = once(r, seen, 1 << (id & 31));
    switch (id) {
      case 0x0b:
        p.subscriptionIdentifier = subscriptionIdentifier(r);
        break;
      case 0x11:
        p.sessionExpiryInterval = r.fourBytes();
        break;
      case 0x12:
        p.assignedClientIdentifier = r.propertyText();
        break;
      case 0x13:
        p.serverKeepAlive = r.twoBytes();
        break;
      case 0x15:
        p.authenticationMethod = r.propertyText();
        break;
      case 0x16:
        p.authenticationData = r.binary();
        break;
      case 0x17:
        p.requestProblemInformation = flag(r);
        break;
      case 0x19:
        p.requestResponseInformation = flag(r);
        break;
      case 0x1a:
        p.responseInformation = r.propertyText();
        break;
      case 0x1c:
        p.serverReference = r.propertyText();
        break;
      case 0x1f:
        p.reasonString = r.propertyText();
        break;
      case 0x21:
        p.receiveMaximum = nonZero(r, r.twoBytes(), 2, "receive_maximum_zero", 0x82);
        break;
      case 0x22:
        p.topicAliasMaximum = r.twoBytes();
        break;
      case 0x24:
        p.maximumQoS = zeroOrOne(r, "maximum_qos_out_of_range");
        break;
      case 0x25:
        p.retainAvailable = flag(r);
        break;
      case 0x27:
        p.maximumPacketSize = nonZero(r, r.fourBytes(), 4, "maximum_packet_size_zero", 0x82);
        break;
      case 0x28:
        p.wildcardSubscriptionAvailable = flag(r);
        break;
      case 0x29:
        p.subscriptionIdentifierAvailable = flag(r);
        break;
      case 0x2a:
        p.sharedSubscriptionAvailable = flag(r);
        break;
      default:
        p.userProperties = userProperty(r, p.userProperties);
    }
  }
  if ((seen & AUTHENTICATION) === AUTHENTICATION_DATA) r.fail("authentication_data_alone", blockAt, 0x82);
  close(r, packetEnd);
  return p;
}

const AUTHENTICATION_DATA = 1 << 0x16;
const AUTHENTICATION = AUTHENTICATION_DATA | (1 << 0x15);

/** Reads a property length and opens its block. Answers the end of the packet, or -1 if the block is empty. */
function open(r: Reader): number {
  const lengthAt = r.at;
  const length = r.variableByteInteger();
  if (length === 0) return -1;
  const packetEnd = r.end;
  const blockEnd = r.at + length;
  if (blockEnd > packetEnd) r.fail("property_block_past_end", lengthAt);
  r.end = blockEnd;
  r.short = "property_past_block";
  return packetEnd;
}

function close(r: Reader, packetEnd: number): void {
  r.end = packetEnd;
  r.short = "field_past_end";
}

/** An identifier that may not stand here, or that nobody may send. */
function refuse(r: Reader, id: number): never {
  return r.fail((PROPERTY_PLACES[id] ?? 0) === 0 ? "property_unknown" : "property_not_allowed", r.at - 1);
}

/** A property that may stand once alone: answers `seen` with its bit added. Called behind its identifier. */
function once(r: Reader, seen: number, bit: number): number {
  if ((seen & bit) !== 0) r.fail("property_repeated", r.at - 1, 0x82);
  return seen | bit;
}

function nonZero(r: Reader, value: number, size: number, code: DecodeErrorCode, reason: number): number {
  if (value === 0) r.fail(code, r.at - size, reason);
  return value;
}

function flag(r: Reader): boolean {
  return zeroOrOne(r, "property_not_boolean") === 1;
}

function zeroOrOne(r: Reader, code: DecodeErrorCode): 0 | 1 {
  const value = r.byte();
  if (value > 1) r.fail(code, r.at - 1, 0x82);
  return value as 0 | 1;
}

function subscriptionIdentifier(r: Reader): number {
  const at = r.at;
  const value = r.variableByteInteger();
  if (value === 0) r.fail("subscription_id_zero", at, 0x82);
  return value;
}

/** A response topic is a topic name `[MQTT-3.3.2-14]`. */
function responseTopic(r: Reader): string {
  const start = r.field();
  const text = r.textIn(start, r.at);
  const wildcard = firstWildcard(r.bytes, start, r.at);
  if (start === r.at || wildcard < r.at) r.fail("response_topic_invalid", wildcard, 0x90);
  return text;
}

function userProperty(r: Reader, list: readonly UserProperty[] | undefined): readonly UserProperty[] {
  const pair: UserProperty = [r.propertyText(), r.propertyText()];
  if (list === undefined) return [pair];
  (list as UserProperty[]).push(pair);
  return list;
}

/** The properties of a PUBLISH, of which most have none. */
export function publishProperties(r: Reader): PublishProperties {
  if (r.at < r.end && r.bytes[r.at] === 0) {
    r.at++;
    return NO_PROPERTIES;
  }
  return messageProperties(r, IN_PUBLISH);
}
