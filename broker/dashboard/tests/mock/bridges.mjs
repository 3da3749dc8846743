// Bridges: recorded ones, in all states that need attention.

import { answer, body, like } from "./recorded.mjs";
import { NOW_MS } from "./fleet.mjs";

const NOW_S = Math.floor(NOW_MS / 1_000);

export function makeBridges() {
  const [cloud, plant] = body("GET /v1/bridges").bridges;
  const address = "mqtts://mqtt.example.com:8883";
  const backup = "mqtts://backup.example.com:8883";
  return [
    like(cloud, { address, addresses: [address, backup], since_unix_s: NOW_S - 90_000, messages_out: 48_000, messages_in: 1_200, queued_messages: 17, queued_bytes: 4_100 }),
    like(cloud, { name: "north", session: "bridge/north", state: "paused", since_unix_s: NOW_S - 600, address: "mqtt://192.0.2.9:1883", addresses: ["mqtt://192.0.2.9:1883"], protocol: "3.1.1" }),
    like(plant, { address: "mqtt://192.0.2.7:1883", addresses: ["mqtt://192.0.2.7:1883"], since_unix_s: NOW_S - 400, next_attempt_unix_s: NOW_S + 30 }),
  ];
}

export const BRIDGE_ROUTES = [
  ["GET", /^\/v1\/bridges$/, (state) => list(state)],
  ["GET", /^\/v1\/bridges\/([^/]+)$/, withBridge((bridge) => detailed(bridge))],
  ["POST", /^\/v1\/bridges\/([^/]+)\/pause$/, withBridge((bridge) => changed(bridge, "paused")), "operate"],
  ["POST", /^\/v1\/bridges\/([^/]+)\/resume$/, withBridge((bridge) => changed(bridge, "connected")), "operate"],
  ["POST", /^\/v1\/bridges\/([^/]+)\/test$/, withBridge((bridge) => tested(bridge)), "operate"],
];

function withBridge(shown) {
  return (state, [, name]) => {
    const bridge = state.bridges.find((known) => known.name === name);
    return bridge === undefined ? answer("GET /v1/bridges/nothing") : shown(bridge);
  };
}

/** Each request finds more messages. */
function list(state) {
  state.bridges.filter((bridge) => bridge.state === "connected").forEach((bridge) => (bridge.messages_out += 500));
  return like(body("GET /v1/bridges"), { bridges: state.bridges });
}

/** The second rule has been refused. */
function detailed(bridge) {
  const { rules, ...rest } = body("GET /v1/bridges/cloud");
  const refused = { by: "remote", reason_code: 0x87, reason: "Not authorized" };
  return { ...like(rest, bridge), rules: [rules[0], like(rules[1], { refused })] };
}

function changed(bridge, state) {
  bridge.state = state;
  return null;
}

function tested(bridge) {
  const name = bridge.state === "connecting" ? "plant" : "cloud";
  const response = body(`POST /v1/bridges/${name}/test`);
  return like(response, { addresses: bridge.addresses.map((address) => like(response.addresses[0], { address })) });
}
