import type * as ours from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";
import { asBuffer } from "./bytes.js";
import type { LoosePacket, LooseProperties } from "./loose.js";
import type { Packet, UserProperties } from "./types.js";

/**
 * Converts a decoded packet to one of `mqtt-packet`. `length`: the remaining length in bytes. `isBridge`: whether the connection
 * started with the CONNECT of a bridge. Before MQTT 5.0, the reason of a CONNACK is its return code here.
 */
export function fromPacket(packet: ours.Packet, length: number, isV5: boolean, isBridge: boolean): Packet {
  const out: LoosePacket = {
    cmd: packet.type,
    retain: false,
    qos: HAS_FLAG_BIT_1.has(packet.type) ? 1 : 0,
    dup: false,
    length,
    topic: null,
    payload: null,
  };
  if ("packetId" in packet && packet.packetId !== null) out["messageId"] = packet.packetId;
  switch (packet.type) {
    case "connect":
      fromConnect(out, packet, isBridge);
      break;
    case "publish":
      fromPublish(out, packet);
      break;
    case "connack":
      out["sessionPresent"] = packet.sessionPresent;
      out[isV5 ? "reasonCode" : "returnCode"] = packet.reason;
      break;
    case "subscribe":
      out["subscriptions"] = packet.requests.map(({ filter, qos, noLocal, retainAsPublished, retainHandling }) => {
        if (isV5) return { topic: filter, qos, nl: noLocal, rap: retainAsPublished, rh: retainHandling };
        // A bridge forwards messages unchanged, and must not receive its own.
        return isBridge ? { topic: filter, qos, nl: true, rap: true, rh: 0 } : { topic: filter, qos };
      });
      break;
    case "unsubscribe":
      out["unsubscriptions"] = packet.filters;
      break;
    case "suback":
      out["granted"] = packet.reasons;
      break;
    case "unsuback":
      if (isV5) out["granted"] = packet.reasons;
      break;
    case "pingreq":
    case "pingresp":
      return out as Packet;
    default:
      if (isV5) out["reasonCode"] = packet.reason;
  }
  const properties = fromProperties(packet.properties);
  if (properties !== undefined) out.properties = properties;
  return out as Packet;
}

/** The types whose first byte has a flag at the position of the QoS of PUBLISH. */
const HAS_FLAG_BIT_1: ReadonlySet<ours.PacketType> = /* @__PURE__ */ new Set<ours.PacketType>([
  "pubrel",
  "subscribe",
  "unsubscribe",
]);

function fromConnect(out: LoosePacket, packet: ours.Connect, isBridge: boolean): void {
  out["protocolId"] = packet.protocolVersion === 3 ? "MQIsdp" : "MQTT";
  out["protocolVersion"] = packet.protocolVersion;
  if (isBridge) out["bridgeMode"] = true;
  out["clean"] = packet.cleanStart;
  out["keepalive"] = packet.keepAliveS;
  out["clientId"] = packet.clientId;
  const { will, userName, password } = packet;
  if (will !== null) {
    const properties = fromProperties(will.properties);
    const { topic, payload, qos, retain } = will;
    out["will"] = { retain, qos, ...(properties && { properties }), topic, payload: asBuffer(payload) };
  }
  if (userName !== null) out["username"] = userName;
  if (password !== null) out["password"] = asBuffer(password);
}

function fromPublish(out: LoosePacket, packet: ours.Publish): void {
  out["retain"] = packet.retain;
  out["qos"] = packet.qos;
  out["dup"] = packet.dup;
  out["topic"] = packet.topic;
  out["payload"] = asBuffer(packet.payload);
}

/** Converts properties to the names and types of `mqtt-packet`. */
function fromProperties(properties: object): LooseProperties | undefined {
  if (properties === NO_PROPERTIES) return undefined;
  const given = properties as Record<string, unknown>;
  const out: LooseProperties = {};
  for (const key of Object.keys(given)) {
    const value = given[key];
    if (key === "userProperties") out[key] = fromUserProperties(value as [string, string][]);
    else if (key === "payloadFormatIndicator") out[key] = value === 1;
    else if (key === "subscriptionIdentifiers") out["subscriptionIdentifier"] = oneOrAll(value as number[]);
    else if (key === "subscriptionIdentifierAvailable") out["subscriptionIdentifiersAvailable"] = value;
    else out[key] = value instanceof Uint8Array ? asBuffer(value) : value;
  }
  return out;
}

function oneOrAll(values: readonly number[]): number | readonly number[] {
  return values.length === 1 ? values[0]! : values;
}

/** Converts user properties to an object without a prototype, because the sender chooses the names. */
function fromUserProperties(pairs: readonly (readonly [string, string])[]): UserProperties {
  const out = Object.create(null) as UserProperties;
  for (const [name, value] of pairs) {
    const before = out[name];
    if (before === undefined) out[name] = value;
    else if (Array.isArray(before)) before.push(value);
    else out[name] = [before, value];
  }
  return out;
}
