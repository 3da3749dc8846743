import { MqttEncodeError } from "../encode-error.js";
import type { PacketInit, ProtocolVersion } from "../packets.js";
import { CONNACK_V3_REASONS } from "../reason-codes.js";
import { INDICATOR, RENAMED_BACK } from "./names.js";
import type { AnyPacket, PropertiesMap } from "./types.js";

const decoder = /* @__PURE__ */ new TextDecoder();

/** The version to write a packet in: CONNECT brings its own. */
export function versionOf(packet: AnyPacket, version: number | undefined): ProtocolVersion {
  const wanted = packet.cmd === "connect" ? packet["protocolVersion"] : version;
  return wanted === 5 ? 5 : wanted === 3 ? 3 : 4;
}

/** A packet of `mqtt-packet` to encode. What it says wrongly is found out by the encoder. */
export function toPacket(packet: AnyPacket, version: ProtocolVersion): PacketInit {
  const isV5 = version === 5;
  const type = packet.cmd;
  const packetId = packet.messageId;
  const reason = isV5 ? (packet["reasonCode"] ?? 0) : 0;
  const properties = isV5 ? toProperties(packet.properties, type) : {};
  return fields() as PacketInit;

  function fields(): object {
    switch (type) {
      case "connect":
        return { ...connectFields(packet, version), properties };
      case "connack":
        return { type, sessionPresent: packet["sessionPresent"] === true, reason: connackReason(packet, isV5), properties };
      case "publish":
        return { ...publishFields(packet), properties };
      case "subscribe":
        return { type, packetId, properties, requests: requests(packet["subscriptions"], isV5) };
      case "unsubscribe":
        return { type, packetId, properties, filters: packet["unsubscriptions"] };
      case "suback":
        return { type, packetId, properties, reasons: packet["granted"] };
      case "unsuback":
        return { type, packetId, properties, reasons: isV5 ? packet["granted"] : [] };
      default:
        return { type, packetId, reason, properties };
    }
  }
}

function connectFields(packet: AnyPacket, protocolVersion: ProtocolVersion): object {
  if (packet["bridgeMode"] === true) throw new MqttEncodeError("not_in_version", "bridgeMode");
  const will = packet["will"] as AnyPacket | null | undefined;
  return {
    type: "connect",
    protocolVersion,
    cleanStart: packet["clean"] !== false,
    keepAliveS: packet["keepalive"] ?? 0,
    clientId: text(packet["clientId"] ?? ""),
    userName: packet["username"] == null ? null : text(packet["username"]),
    password: packet["password"] ?? null,
    will: will == null ? null : willFields(will, protocolVersion),
  };
}

function willFields(will: AnyPacket, version: ProtocolVersion): object {
  return {
    topic: will["topic"],
    payload: will["payload"] ?? "",
    qos: will["qos"] ?? 0,
    retain: will["retain"] === true,
    properties: version === 5 ? toProperties(will.properties, "will") : {},
  };
}

function publishFields(packet: AnyPacket): object {
  const qos = packet["qos"] ?? 0;
  return {
    type: "publish",
    topic: text(packet["topic"]),
    payload: packet["payload"] ?? "",
    qos,
    dup: qos !== 0 && Boolean(packet["dup"]),
    retain: Boolean(packet["retain"]),
    packetId: qos === 0 ? null : packet.messageId,
  };
}

function connackReason(packet: AnyPacket, isV5: boolean): unknown {
  return isV5 ? packet["reasonCode"] : CONNACK_V3_REASONS[packet["returnCode"] as number];
}

function requests(subscriptions: unknown, isV5: boolean): object[] {
  if (!Array.isArray(subscriptions)) return [];
  return subscriptions.map(({ topic, qos, nl, rap, rh }: Record<string, unknown>) => ({
    filter: topic,
    qos,
    ...(isV5 && { noLocal: nl === true, retainAsPublished: rap === true, retainHandling: rh ?? 0 }),
  }));
}

/** Texts may come as bytes. */
function text(value: unknown): unknown {
  return value instanceof Uint8Array ? decoder.decode(value) : value;
}

function toProperties(given: PropertiesMap | null | undefined, type: string): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [key, value] of Object.entries((given ?? {}) as Record<string, unknown>)) {
    if (value == null) continue;
    if (key === "userProperties") out[key] = toUserProperties(value as Record<string, unknown>);
    else if (key === INDICATOR) out[key] = Number(value);
    else if (key === "subscriptionIdentifier" && type === "publish") out["subscriptionIdentifiers"] = [value].flat();
    else out[RENAMED_BACK[key] ?? key] = value;
  }
  return out;
}

function toUserProperties(given: Record<string, unknown>): [string, string][] {
  return Object.entries(given).flatMap(([name, value]) =>
    [value].flat().map((one): [string, string] => [name, String(one)]),
  );
}
