// Reads the shared test vectors and converts their packets to those of this package.

import { readdirSync, readFileSync } from "node:fs";
import type { Packet, ProtocolVersion } from "@tautwire/mqtt-codec";

type Part = { hex: string } | { repeat: string; count: number };
type Json = Record<string, unknown>;

export interface Vector {
  id: string;
  version: "3.1" | "3.1.1" | "5.0";
  hex?: string;
  hex_parts?: Part[];
  rest_hex?: string;
  max_packet_size?: number;
  result: "valid" | "malformed" | "protocol_error" | "too_large" | "incomplete";
  reason?: number;
  packet?: Json;
  encode?: boolean;
}

const folder = new URL("../../../../../../spec/vectors/mqtt/", import.meta.url);

export const VERSIONS = { "3.1": 3, "3.1.1": 4, "5.0": 5 } as const satisfies Record<string, ProtocolVersion>;

export function readVectors(): Vector[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .flatMap((name) => (JSON.parse(readFileSync(new URL(name, folder), "utf8")) as { vectors: Vector[] }).vectors);
}

/** Whether it is a CONNECT that decoders accept, because the server must refuse it, and that encoders refuse [MQTT-3.1.3-7]. */
export function isNotWritten({ version, packet }: Vector): boolean {
  const isAlike = packet?.["type"] === "connect" && packet["client_id"] === "" && packet["clean_start"] === false;
  return isAlike && version !== "5.0";
}

export function bytesOf(vector: Vector): Uint8Array {
  return new Uint8Array(vector.hex_parts ? joined(vector.hex_parts) : Buffer.from(vector.hex ?? "", "hex"));
}

function joined(parts: Part[]): Buffer {
  return Buffer.concat(
    parts.map((part) => ("hex" in part ? Buffer.from(part.hex, "hex") : Buffer.from(part.repeat.repeat(part.count), "hex"))),
  );
}

const NAMES: Record<string, string> = { maximum_qos: "maximumQoS" };
const BOOLEAN = new Set([
  "request_problem_information",
  "request_response_information",
  "retain_available",
  "wildcard_subscription_available",
  "subscription_identifier_available",
  "shared_subscription_available",
]);

function camel(name: string): string {
  return NAMES[name] ?? name.replace(/_(\w)/g, (_match, letter: string) => letter.toUpperCase());
}

/** Converts the packet of a vector. */
export function packetOf(vector: Vector): Packet {
  const packet = converted(vector.packet ?? {}) as Json & { type: string };
  if (packet.type === "connect") packet["protocolVersion"] = VERSIONS[vector.version];
  if (packet.type === "publish") {
    packet["topic"] ??= "";
    const properties = packet["properties"] as Json;
    const identifier = properties["subscriptionIdentifier"];
    if (identifier !== undefined) {
      packet["properties"] = Object.fromEntries(
        Object.entries(properties).map(([key, value]) =>
          key === "subscriptionIdentifier" ? ["subscriptionIdentifiers", [value].flat()] : [key, value],
        ),
      );
    }
  }
  return packet as unknown as Packet;
}

function converted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => converted(item));
  if (value === null || typeof value !== "object") return value;
  const object: Json = {};
  for (const [name, field] of Object.entries(value)) {
    if (name.endsWith("_hex")) object[camel(name.slice(0, -4))] = field === null ? null : binary(Buffer.from(field as string, "hex"));
    else if (name === "payload_parts" || name === "password_parts") object[camel(name.slice(0, -6))] = binary(joined(field as Part[]));
    else if (name.endsWith("_parts")) object[camel(name.slice(0, -6))] = joined(field as Part[]).toString("utf8");
    else if (name === "properties") object["properties"] = propertiesOf(field as { name: string; value: unknown }[]);
    else if (name === "filters") object["filters"] = (field as unknown[]).map(textOf);
    else object[camel(name)] = converted(field);
  }
  return object;
}

/** Converts repeated properties to an array at the position of the first. */
function propertiesOf(list: { name: string; value: unknown }[]): Json {
  const properties: Json = {};
  for (const { name, value } of list) {
    const key = camel(name);
    if (name === "user_property") {
      const pairs = (properties["userProperties"] ??= []) as unknown[];
      pairs.push((value as unknown[]).map(textOf));
    } else if (key in properties) {
      properties[key] = [properties[key], value].flat();
    } else if (BOOLEAN.has(name)) {
      properties[key] = value === 1;
    } else if (name === "correlation_data" || name === "authentication_data") {
      properties[key] = binary(bytesOfValue(value));
    } else {
      properties[key] = typeof value === "number" ? value : textOf(value);
    }
  }
  return properties;
}

function bytesOfValue(value: unknown): Buffer {
  const { hex, parts } = value as { hex?: string; parts?: Part[] };
  return parts ? joined(parts) : Buffer.from(hex ?? "", "hex");
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return joined((value as { parts: Part[] }).parts).toString("utf8");
}

function binary(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes);
}
