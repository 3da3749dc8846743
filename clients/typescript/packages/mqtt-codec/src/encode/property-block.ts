// Writes a property block in the order of the object's keys, and checks what decoding would refuse.

import { IN_PUBLISH, IN_SUBSCRIBE, PROPERTY_PLACES } from "../property-places.js";
import type { Writer } from "./writer.js";

/** Writes the property length and the block. `place`: the bit of where it stands. */
export function writeProperties(w: Writer, properties: object, place: number): void {
  const start = w.beginBlock();
  let hasMethod = false;
  let hasData = false;
  for (const key in properties) {
    const value = (properties as Record<string, unknown>)[key];
    if (value === undefined) continue;
    switch (key) {
      case "userProperties":
        userProperties(w, value);
        break;
      case "payloadFormatIndicator":
        byte(w, 0x01, key, value, place);
        break;
      case "messageExpiryInterval":
        fourBytes(w, 0x02, key, value, 0, place);
        break;
      case "contentType":
        text(w, 0x03, key, value, place);
        break;
      case "responseTopic":
        identifier(w, 0x08, key, place);
        if (value === "") w.fail("topic_wildcard", key);
        w.topic(value as string, key);
        break;
      case "correlationData":
        binary(w, 0x09, key, value, place);
        break;
      case "topicAlias":
        twoBytes(w, 0x23, key, value, 1, place);
        break;
      case "subscriptionIdentifiers":
        if (!Array.isArray(value)) w.fail("wrong_type", key);
        for (let at = 0; at < value.length; at++) subscriptionIdentifier(w, key, value[at], place & IN_PUBLISH);
        break;
      case "subscriptionIdentifier":
        subscriptionIdentifier(w, key, value, place & IN_SUBSCRIBE);
        break;
      case "reasonString":
        text(w, 0x1f, key, value, place);
        break;
      case "sessionExpiryInterval":
        fourBytes(w, 0x11, key, value, 0, place);
        break;
      case "receiveMaximum":
        twoBytes(w, 0x21, key, value, 1, place);
        break;
      case "maximumPacketSize":
        fourBytes(w, 0x27, key, value, 1, place);
        break;
      case "topicAliasMaximum":
        twoBytes(w, 0x22, key, value, 0, place);
        break;
      case "authenticationMethod":
        text(w, 0x15, key, value, place);
        hasMethod = true;
        break;
      case "authenticationData":
        binary(w, 0x16, key, value, place);
        hasData = true;
        break;
      case "requestProblemInformation":
        flag(w, 0x17, key, value, place);
        break;
      case "requestResponseInformation":
        flag(w, 0x19, key, value, place);
        break;
      case "willDelayInterval":
        fourBytes(w, 0x18, key, value, 0, place);
        break;
      case "assignedClientIdentifier":
        text(w, 0x12, key, value, place);
        break;
      case "serverKeepAlive":
        twoBytes(w, 0x13, key, value, 0, place);
        break;
      case "responseInformation":
        text(w, 0x1a, key, value, place);
        break;
      case "serverReference":
        text(w, 0x1c, key, value, place);
        break;
      case "maximumQoS":
        byte(w, 0x24, key, value, place);
        break;
      case "retainAvailable":
        flag(w, 0x25, key, value, place);
        break;
      case "wildcardSubscriptionAvailable":
        flag(w, 0x28, key, value, place);
        break;
      case "subscriptionIdentifierAvailable":
        flag(w, 0x29, key, value, place);
        break;
      case "sharedSubscriptionAvailable":
        flag(w, 0x2a, key, value, place);
        break;
      default:
        w.fail("property_not_allowed", key);
    }
  }
  if (hasData && !hasMethod) w.fail("authentication_method_missing", "authenticationMethod");
  w.endBlock(start);
}

/** Whether any property has a value. */
export function hasProperties(properties: object): boolean {
  for (const key in properties) {
    const value = (properties as Record<string, unknown>)[key];
    if (value !== undefined && !(Array.isArray(value) && value.length === 0)) return true;
  }
  return false;
}

function userProperties(w: Writer, pairs: unknown): void {
  if (!Array.isArray(pairs)) return w.fail("wrong_type", "userProperties");
  for (let at = 0; at < pairs.length; at++) {
    const pair: unknown = pairs[at];
    if (!Array.isArray(pair) || pair.length !== 2) return w.fail("wrong_type", "userProperties");
    w.byte(0x26);
    w.text(pair[0] as string, "userProperties");
    w.text(pair[1] as string, "userProperties");
  }
}

function identifier(w: Writer, id: number, key: string, place: number): void {
  if ((PROPERTY_PLACES[id]! & place) === 0) w.fail("property_not_allowed", key);
  w.byte(id);
}

function flag(w: Writer, id: number, key: string, value: unknown, place: number): void {
  identifier(w, id, key, place);
  if (typeof value !== "boolean") w.fail("wrong_type", key);
  w.byte(value ? 1 : 0);
}

function byte(w: Writer, id: number, key: string, value: unknown, place: number): void {
  identifier(w, id, key, place);
  w.byte(integer(w, key, value, 0, 1));
}

function twoBytes(w: Writer, id: number, key: string, value: unknown, low: number, place: number): void {
  identifier(w, id, key, place);
  w.twoBytes(integer(w, key, value, low, 0xffff));
}

function fourBytes(w: Writer, id: number, key: string, value: unknown, low: number, place: number): void {
  identifier(w, id, key, place);
  w.fourBytes(integer(w, key, value, low, 0xffff_ffff));
}

function subscriptionIdentifier(w: Writer, key: string, value: unknown, place: number): void {
  identifier(w, 0x0b, key, place);
  w.variableByteInteger(integer(w, key, value, 1, 0xfff_ffff));
}

function text(w: Writer, id: number, key: string, value: unknown, place: number): void {
  identifier(w, id, key, place);
  w.text(value as string, key);
}

function binary(w: Writer, id: number, key: string, value: unknown, place: number): void {
  identifier(w, id, key, place);
  w.binary(value as Uint8Array, key);
}

/** The value, if it is a whole number in that range. */
export function integer(w: Writer, field: string, value: unknown, low: number, high: number): number {
  if (typeof value !== "number") return w.fail("wrong_type", field);
  if (!(value >= low && value <= high) || Math.floor(value) !== value) w.fail("out_of_range", field);
  return value;
}
