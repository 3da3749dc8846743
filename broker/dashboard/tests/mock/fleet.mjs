// 100,000 clients, always the same ones, listed as the broker does, each based on a recorded one.

import { body, like } from "./recorded.mjs";

export const FLEET = 100_000;
export const NOW_MS = Date.now();

/** Deterministic pseudorandom numbers: SplitMix32. */
export function scrambled(number) {
  let value = (number + 0x9e3779b9) | 0;
  value = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  value = Math.imul(value ^ (value >>> 15), 0x735a2d97);
  return (value ^ (value >>> 15)) >>> 0;
}

const LISTENERS = ["mqtts", "mqtt", "wss"];

const { clients: TOLD } = body("GET /v1/clients");
const OFFLINE = TOLD.find(({ connected }) => !connected);
const CONNECTED = TOLD.find(({ connected }) => connected);

function client(number) {
  const random = scrambled(number);
  const isConnected = random % 20 !== 0;
  const isSlow = random % 997 === 0;
  const queued = isSlow ? 1_000 : isConnected ? 0 : random % 40;
  const common = {
    client_id: `meter-${String(number).padStart(5, "0")}`,
    user: number % 5 === 0 ? null : `site-${number % 40}`,
    session_expiry_s: 3_600,
    subscriptions: 1 + (random % 7),
    queued_messages: queued,
    queued_bytes: queued * 120,
    in_flight: isSlow ? 32 : random % 3,
    memory_bytes: 512 + queued * 120,
  };
  if (!isConnected) return like(OFFLINE, { ...common, expires_at_ms: NOW_MS + (random % 3_600_000) });
  return like(CONNECTED, {
    ...common,
    listener: LISTENERS[random % 3],
    address: `192.0.2.${random % 250}:${10_000 + (random % 50_000)}`,
    encrypted: random % 3 !== 1,
    protocol: random % 4 === 0 ? "3.1.1" : "5.0",
    keep_alive_s: 60,
    connected_ms: NOW_MS - (random % 86_400_000),
    last_received_ms: NOW_MS - (random % 60_000),
    output_bytes: isSlow ? 65_536 : 0,
    connection_bytes: 345,
  });
}

/** The same client after it has disconnected. */
export function disconnected(connected) {
  const lasting = Object.fromEntries(Object.keys(OFFLINE).map((name) => [name, connected[name]]));
  return like(OFFLINE, { ...lasting, connected: false, expires_at_ms: NOW_MS + 3_600_000 });
}

let clients = null;

/** A list for each server; its clients are never modified, only replaced. */
export function makeFleet() {
  clients ??= [
    ...Array.from({ length: FLEET }, (_, number) => client(number)),
    // One with a mount point, whose name has all characters that must be escaped.
    { ...client(7), client_id: "größe/7 #?%", mount_point: "tenant-a/" },
  ];
  return [...clients];
}

const DETAIL = body("GET /v1/clients/slow");
const DETAIL_OFFLINE = body("GET /v1/clients/away");

export function detailed(summary) {
  const isSlow = summary.queued_messages >= 1_000;
  const recorded = summary.connected ? DETAIL : DETAIL_OFFLINE;
  return like(recorded, {
    ...summary,
    resumed: true,
    send_maximum: summary.connected ? 32 : null,
    will_topic: `state/${summary.client_id}`,
    roles: ["device"],
    authenticated_by: summary.user === null ? null : "password",
    paused_for: isSlow ? ["log_behind"] : [],
    drops: isSlow ? DETAIL.drops.map((drop) => like(drop, { topic: "power/3/kwh", count: 12, last_ms: NOW_MS - 90_000 })) : [],
  });
}

const NUMBERS = new Set(["queued_messages", "queued_bytes", "in_flight", "subscriptions", "memory_bytes"]);

/** One page, by the parameters of `GET /v1/clients`. */
export function page(fleet, query) {
  const search = (query.get("search") ?? "").toLowerCase();
  const connected = query.get("connected");
  const listener = query.get("listener");
  const sort = query.get("sort") ?? "client_id";
  const sign = query.get("descending") === "true" ? -1 : 1;
  const limit = Number(query.get("limit") ?? "100");
  const found = fleet.filter(
    (client) =>
      (search === "" || client.client_id.toLowerCase().includes(search) || (client.user ?? "").toLowerCase().includes(search)) &&
      (connected === null || String(client.connected) === connected) &&
      (listener === null || client.listener === listener),
  );
  const value = (client) => (NUMBERS.has(sort) ? client[sort] : (client[sort] ?? ""));
  const order = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
  found.sort((one, other) => sign * order(value(one), value(other)) || order(one.client_id, other.client_id));
  const from = Number(query.get("after") ?? "0");
  const clients = found.slice(from, from + limit);
  return { matched: found.length, clients, next: clients.length === limit ? String(from + limit) : null };
}
