import { MqttEncodeError } from "../encode-error.js";
import type { EncodeErrorCode } from "../error-codes.js";
import type { PacketInit, ProtocolVersion } from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import type { LoosePacket, LooseProperties } from "./loose.js";

/** Returns the version in which to encode a packet: CONNECT has its own. */
export function versionOf(packet: LoosePacket, version: unknown): ProtocolVersion {
  if (packet.cmd !== "connect") return version === 5 || version === 3 ? version : 4;
  const own = packet["protocolVersion"] ?? 4;
  return own === 5 || own === 4 || own === 3 ? own : fail(typeof own === "number" ? "out_of_range" : "wrong_type", "protocolVersion");
}

/** Converts a packet of `mqtt-packet`. Invalid values are detected here or by the encoder. */
export function toPacket(packet: LoosePacket, version: ProtocolVersion): PacketInit {
  return toFields(packet, version) as PacketInit;
}

/** One object literal for each type, because objects of one shape are encoded faster. */
function toFields(packet: LoosePacket, version: ProtocolVersion): object {
  const isV5 = version === 5;
  const type = packet.cmd;
  const packetId = packet["messageId"];
  const properties = isV5 ? toProperties(packet.properties, type === "publish") : NO_PROPERTIES;
  switch (type) {
    case "connect":
      return connect(packet, version, properties);
    case "connack":
      return { type, sessionPresent: Boolean(packet["sessionPresent"]), reason: packet["reasonCode"], properties };
    case "publish":
      return publish(packet, packetId, properties);
    case "subscribe":
      return { type, packetId, properties, requests: requests(packet["subscriptions"], isV5) };
    case "unsubscribe":
      return { type, packetId, properties, filters: packet["unsubscriptions"] };
    case "suback":
      return { type, packetId, properties, reasons: packet["granted"] };
    case "unsuback":
      return { type, packetId, properties, reasons: isV5 ? packet["granted"] : [] };
    default:
      return { type, packetId, reason: isV5 ? (packet["reasonCode"] ?? 0) : 0, properties };
  }
}

/** Encodes a CONNACK before MQTT 5.0. Some servers use undefined return codes, which clients must receive: Aedes sends 6. */
export function connackBeforeV5(packet: LoosePacket): Uint8Array {
  const code = packet["returnCode"];
  if (typeof code !== "number") return fail("wrong_type", "returnCode");
  if (!Number.isInteger(code) || code < 0 || code > 255) fail("out_of_range", "returnCode");
  const sessionPresent = Boolean(packet["sessionPresent"]);
  // [MQTT-3.2.2-4]
  if (sessionPresent && code !== 0) fail("session_present_on_failure", "sessionPresent");
  return Uint8Array.of(0x20, 2, sessionPresent ? 1 : 0, code);
}

/** Sets the bridge bit of the version in an encoded CONNECT. */
export function setBridgeBit(connect: Uint8Array): void {
  let at = 1;
  while (connect[at]! >= 0x80) at++;
  // The protocol name is shorter than 256 bytes.
  connect[at + 3 + connect[at + 2]!]! |= 0x80;
}

function connect(packet: LoosePacket, version: ProtocolVersion, properties: object): object {
  checkProtocolId(packet["protocolId"], version);
  if (packet["bridgeMode"] && version === 5) fail("not_in_version", "bridgeMode");
  const clientId = text(packet["clientId"] ?? "", "clientId");
  // In 3.1 a client identifier has 1 to 23 characters.
  if (clientId === "" && version === 3) fail("out_of_range", "clientId");
  const { clean, username } = packet;
  const will = packet["will"] as LoosePacket | null | undefined;
  return {
    type: "connect",
    protocolVersion: version,
    cleanStart: clean === undefined || Boolean(clean),
    keepAliveS: packet["keepalive"] ?? 0,
    clientId,
    userName: username == null ? null : text(username, "username"),
    password: packet["password"] ?? null,
    will: will ? toWill(will, version) : null,
    properties,
  };
}

/** Checks that the protocol name matches the version [MQTT-3.1.2-1]. */
function checkProtocolId(given: unknown, version: ProtocolVersion): void {
  if (given == null) return;
  const name = text(given, "protocolId");
  if (typeof name !== "string") fail("wrong_type", "protocolId");
  if (name !== (version === 3 ? "MQIsdp" : "MQTT")) fail("out_of_range", "protocolId");
}

function toWill(will: LoosePacket, version: ProtocolVersion): object {
  return {
    topic: will["topic"],
    payload: will["payload"] ?? "",
    qos: will["qos"] ?? 0,
    retain: Boolean(will["retain"]),
    properties: version === 5 ? toProperties(will.properties, false) : NO_PROPERTIES,
  };
}

function publish(packet: LoosePacket, packetId: unknown, properties: object): object {
  const qos = packet["qos"] ?? 0;
  return {
    type: "publish",
    topic: text(packet["topic"], "topic"),
    payload: packet["payload"] ?? "",
    qos,
    dup: qos !== 0 && Boolean(packet["dup"]),
    retain: Boolean(packet["retain"]),
    packetId: qos === 0 ? null : packetId,
    properties,
  };
}

function requests(subscriptions: unknown, isV5: boolean): object[] {
  const out: object[] = [];
  if (!Array.isArray(subscriptions)) return out;
  for (const one of subscriptions as unknown[]) {
    const given = (one ?? {}) as Record<string, unknown>;
    const { qos } = given;
    if (typeof qos !== "number") fail("wrong_type", "subscriptions.qos");
    out.push({
      filter: given["topic"],
      qos,
      noLocal: isV5 && flag(given["nl"], "subscriptions.nl"),
      retainAsPublished: isV5 && flag(given["rap"], "subscriptions.rap"),
      retainHandling: isV5 ? (given["rh"] ?? 0) : 0,
    });
  }
  return out;
}

/** Converts a flag that is false by default. */
function flag(value: unknown, field: string): boolean {
  return typeof (value ?? false) === "boolean" ? Boolean(value) : fail("wrong_type", field);
}

/** Converts a string, which may also be bytes. */
function text(value: unknown, field: string): unknown {
  if (typeof value === "string" || !(value instanceof Uint8Array)) return value;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
  } catch {
    return fail("utf8_invalid", field);
  }
}

/** Converts properties from the names and types of `mqtt-packet`. */
function toProperties(given: LooseProperties | null | undefined, isPublish: boolean): object {
  if (given == null) return NO_PROPERTIES;
  const out: Record<string, unknown> = {};
  for (const key of Object.keys(given)) {
    const value = given[key];
    if (value == null) continue;
    if (key === "userProperties") out[key] = toUserProperties(value);
    else if (key === "payloadFormatIndicator") out[key] = Number(value);
    else if (key === "subscriptionIdentifier" && isPublish) out["subscriptionIdentifiers"] = Array.isArray(value) ? value : [value];
    else if (key === "subscriptionIdentifiersAvailable") out["subscriptionIdentifierAvailable"] = value;
    else out[key] = value;
  }
  return out;
}

function toUserProperties(given: unknown): [string, string][] {
  if (typeof given !== "object" || given === null) return fail("wrong_type", "userProperties");
  const pairs: [string, string][] = [];
  const named = given as Record<string, unknown>;
  for (const name of Object.keys(named)) {
    const value = named[name];
    if (Array.isArray(value)) for (const one of value as unknown[]) pairs.push([name, String(one)]);
    else pairs.push([name, String(value)]);
  }
  return pairs;
}

function fail(code: EncodeErrorCode, field: string): never {
  throw new MqttEncodeError(code, field);
}
