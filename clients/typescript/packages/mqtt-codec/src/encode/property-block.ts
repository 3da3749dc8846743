// Writes a property block in the order of the object's keys, with the checks that decoding makes.

import { NO_PROPERTIES } from "../properties.js";
import { IN_PUBLISH, IN_SUBSCRIBE, PROPERTY_PLACES } from "../property-places.js";
import * as w from "./writer.js";

/**
 * Writes the property length and the block. Returns whether it contains an authentication method. `place`: the bit of the packet
 * type or the will.
 */
export function writeProperties(given: object, place: number): boolean {
  const start = w.beginBlock();
  let hasMethod = false;
  let hasData = false;
  for (const key in given) {
    const value = (given as Record<string, unknown>)[key];
    if (value === undefined) continue;
    switch (key) {
      case "userProperties":
        userProperties(value);
        break;
      case "reasonString":
        text(0x1f, value, key, place);
        break;
      case "payloadFormatIndicator":
        zeroOrOne(0x01, value, key, place);
        break;
      case "messageExpiryInterval":
        fourBytes(0x02, value, key, place, 0);
        break;
      case "topicAlias":
        twoBytes(0x23, value, key, place, 1);
        break;
      case "responseTopic":
        topic(0x08, value, key, place);
        break;
      case "correlationData":
        binary(0x09, value, key, place);
        break;
      case "subscriptionIdentifiers":
        subscriptionIdentifiers(value, key, place & IN_PUBLISH);
        break;
      case "contentType":
        text(0x03, value, key, place);
        break;
      case "sessionExpiryInterval":
        fourBytes(0x11, value, key, place, 0);
        break;
      case "receiveMaximum":
        twoBytes(0x21, value, key, place, 1);
        break;
      case "maximumPacketSize":
        fourBytes(0x27, value, key, place, 1);
        break;
      case "topicAliasMaximum":
        twoBytes(0x22, value, key, place, 0);
        break;
      case "authenticationMethod":
        text(0x15, value, key, place);
        hasMethod = true;
        break;
      case "authenticationData":
        binary(0x16, value, key, place);
        hasData = true;
        break;
      case "subscriptionIdentifier":
        subscriptionIdentifier(value, key, place & IN_SUBSCRIBE);
        break;
      case "requestProblemInformation":
        flag(0x17, value, key, place);
        break;
      case "requestResponseInformation":
        flag(0x19, value, key, place);
        break;
      case "willDelayInterval":
        fourBytes(0x18, value, key, place, 0);
        break;
      case "assignedClientIdentifier":
        text(0x12, value, key, place);
        break;
      case "serverKeepAlive":
        twoBytes(0x13, value, key, place, 0);
        break;
      case "responseInformation":
        text(0x1a, value, key, place);
        break;
      case "serverReference":
        text(0x1c, value, key, place);
        break;
      case "maximumQoS":
        zeroOrOne(0x24, value, key, place);
        break;
      case "retainAvailable":
        flag(0x25, value, key, place);
        break;
      case "wildcardSubscriptionAvailable":
        flag(0x28, value, key, place);
        break;
      case "subscriptionIdentifierAvailable":
        flag(0x29, value, key, place);
        break;
      case "sharedSubscriptionAvailable":
        flag(0x2a, value, key, place);
        break;
      default:
        w.fail("property_not_allowed", key);
    }
  }
  if (hasData && !hasMethod) w.fail("authentication_data_alone", "authenticationData");
  w.endBlock(start);
  return hasMethod;
}

/** Whether any property has a value. */
export function hasProperties(given: object | undefined): boolean {
  if (given === NO_PROPERTIES) return false;
  for (const key in given) {
    const value = (given as Record<string, unknown>)[key];
    if (value !== undefined && !(Array.isArray(value) && value.length === 0)) return true;
  }
  return false;
}

function identifier(id: number, key: string, place: number): void {
  if ((PROPERTY_PLACES[id]! & place) === 0) w.fail("property_not_allowed", key);
  w.byte(id);
}

function text(id: number, value: unknown, key: string, place: number): void {
  identifier(id, key, place);
  w.text(value as string, key);
}

function topic(id: number, value: unknown, key: string, place: number): void {
  identifier(id, key, place);
  w.topic(value as string, key, "response_topic_invalid");
}

function binary(id: number, value: unknown, key: string, place: number): void {
  identifier(id, key, place);
  w.binary(value as Uint8Array, key);
}

function flag(id: number, value: unknown, key: string, place: number): void {
  identifier(id, key, place);
  if (typeof value !== "boolean") w.fail("wrong_type", key);
  w.byte(value ? 1 : 0);
}

function zeroOrOne(id: number, value: unknown, key: string, place: number): void {
  identifier(id, key, place);
  w.byte(w.integer(value, 0, 1, key));
}

function twoBytes(id: number, value: unknown, key: string, place: number, low: number): void {
  identifier(id, key, place);
  w.twoBytes(w.integer(value, low, 0xffff, key));
}

function fourBytes(id: number, value: unknown, key: string, place: number, low: number): void {
  identifier(id, key, place);
  w.fourBytes(w.integer(value, low, 0xffff_ffff, key));
}

function subscriptionIdentifiers(value: unknown, key: string, place: number): void {
  const all = list(value, key);
  for (let at = 0; at < all.length; at++) subscriptionIdentifier(all[at], key, place);
}

function subscriptionIdentifier(value: unknown, key: string, place: number): void {
  identifier(0x0b, key, place);
  w.variableByteInteger(w.integer(value, 1, 0xfff_ffff, key));
}

function userProperties(value: unknown): void {
  const field = "userProperties";
  const all = list(value, field);
  for (let at = 0; at < all.length; at++) {
    const pair = list(all[at], field);
    if (pair.length !== 2) w.fail("wrong_type", field);
    w.byte(0x26);
    w.text(pair[0] as string, field);
    w.text(pair[1] as string, field);
  }
}

function list(value: unknown, field: string): readonly unknown[] {
  return Array.isArray(value) ? value : w.fail("wrong_type", field);
}
