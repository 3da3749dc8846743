// Property blocks (section 2.2.2).

import type { DecodeErrorCode } from "../error-codes.js";
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
import * as r from "./reader.js";

/** The properties of all packets. */
export type AnyProperties = AuthProperties &
  ConnackProperties &
  ConnectProperties &
  DisconnectProperties &
  PublishProperties &
  SubscribeProperties &
  WillProperties;

/** Reads the properties of that packet type in MQTT 5.0. */
export function propertiesOf(type: number, isV5: boolean): AnyProperties {
  return isV5 ? readProperties(1 << type) : NO_PROPERTIES;
}

/** Reads a property length and its block. `place`: the bit of the packet type or the will. */
export function readProperties(place: number): AnyProperties {
  const lengthAt = r.position();
  const length = r.variableByteInteger();
  if (length === 0) return NO_PROPERTIES;
  const blockAt = r.position();
  if (!r.enterBlock(length)) r.fail("property_block_past_end", lengthAt);
  const p: AnyProperties = {};
  let seen = 0;
  let users: UserProperty[] | null = null;
  let subscriptions: number[] | null = null;
  while (r.left() > 0) {
    const id = r.byte();
    const at = r.position();
    const places = PROPERTY_PLACES[id] ?? 0;
    if ((places & place) === 0) r.fail(places === 0 ? "property_unknown" : "property_not_allowed", at - 1);
    if (id === 0x26) {
      const pair: UserProperty = [r.text(), r.text()];
      if (users === null) p.userProperties = users = [pair];
      else users.push(pair);
      continue;
    }
    if (id === 0x0b && place === IN_PUBLISH) {
      const value = nonZero(r.variableByteInteger(), at, "subscription_id_zero");
      if (subscriptions === null) p.subscriptionIdentifiers = subscriptions = [value];
      else subscriptions.push(value);
      continue;
    }
    // No two identifiers that are allowed in the same place share this bit.
    const bit = 1 << (id + (id >> 5));
    if ((seen & bit) !== 0) r.fail("property_repeated", at - 1, 0x82);
    seen |= bit;
    switch (id) {
      case 0x01:
        p.payloadFormatIndicator = zeroOrOne(at, "payload_format_unknown");
        break;
      case 0x02:
        p.messageExpiryInterval = r.fourBytes();
        break;
      case 0x03:
        p.contentType = r.text();
        break;
      case 0x08:
        p.responseTopic = r.topicIn(r.field(), r.position(), "response_topic_invalid");
        break;
      case 0x09:
        p.correlationData = r.binary();
        break;
      case 0x0b:
        p.subscriptionIdentifier = nonZero(r.variableByteInteger(), at, "subscription_id_zero");
        break;
      case 0x11:
        p.sessionExpiryInterval = r.fourBytes();
        break;
      case 0x12:
        p.assignedClientIdentifier = r.text();
        break;
      case 0x13:
        p.serverKeepAlive = r.twoBytes();
        break;
      case 0x15:
        p.authenticationMethod = r.text();
        break;
      case 0x16:
        p.authenticationData = r.binary();
        break;
      case 0x17:
        p.requestProblemInformation = flag(at);
        break;
      case 0x18:
        p.willDelayInterval = r.fourBytes();
        break;
      case 0x19:
        p.requestResponseInformation = flag(at);
        break;
      case 0x1a:
        p.responseInformation = r.text();
        break;
      case 0x1c:
        p.serverReference = r.text();
        break;
      case 0x1f:
        p.reasonString = r.text();
        break;
      case 0x21:
        p.receiveMaximum = nonZero(r.twoBytes(), at, "receive_maximum_zero");
        break;
      case 0x22:
        p.topicAliasMaximum = r.twoBytes();
        break;
      case 0x23:
        p.topicAlias = nonZero(r.twoBytes(), at, "topic_alias_zero", 0x94);
        break;
      case 0x24:
        p.maximumQoS = zeroOrOne(at, "maximum_qos_out_of_range");
        break;
      case 0x25:
        p.retainAvailable = flag(at);
        break;
      case 0x27:
        p.maximumPacketSize = nonZero(r.fourBytes(), at, "maximum_packet_size_zero");
        break;
      case 0x28:
        p.wildcardSubscriptionAvailable = flag(at);
        break;
      case 0x29:
        p.subscriptionIdentifierAvailable = flag(at);
        break;
      default:
        p.sharedSubscriptionAvailable = flag(at);
    }
  }
  if ((seen & AUTHENTICATION) === AUTHENTICATION_DATA) r.fail("authentication_data_alone", blockAt, 0x82);
  r.leaveBlock();
  return p;
}

const AUTHENTICATION_DATA = 1 << 0x16;
const AUTHENTICATION = AUTHENTICATION_DATA | (1 << 0x15);

function nonZero(value: number, at: number, code: DecodeErrorCode, reason = 0x82): number {
  if (value === 0) r.fail(code, at, reason);
  return value;
}

function flag(at: number): boolean {
  return zeroOrOne(at, "property_not_boolean") === 1;
}

function zeroOrOne(at: number, code: DecodeErrorCode): 0 | 1 {
  const value = r.byte();
  if (value > 1) r.fail(code, at, 0x82);
  return value as 0 | 1;
}
