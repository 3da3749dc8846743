// Responses of the admin API, by path: recorded ones, with some values changed.

import { answer, body, like } from "./recorded.mjs";
import { BRIDGE_ROUTES, makeBridges } from "./bridges.mjs";
import { CLUSTER_ROUTES, makeCluster } from "./cluster.mjs";
import { NOW_MS, detailed, disconnected, makeFleet, page, scrambled } from "./fleet.mjs";
import { MESSAGE_ROUTES, makeRetained } from "./messages.mjs";
import { refuse } from "./refusal.mjs";
import { SETTING_ROUTES } from "./settings.mjs";

const HISTORY_LENGTH = 360;

export function makeState() {
  return {
    fleet: makeFleet(),
    bans: body("GET /v1/bans").bans.map((ban) => like(ban, { until_unix_s: Math.floor(NOW_MS / 1_000) + 86_400 })),
    retained: makeRetained(),
    overviews: 0,
    bridges: makeBridges(),
    cluster: makeCluster(),
    isDiffWrong: false,
    reloads: 0,
    /** Each with its open response. */
    taps: [],
  };
}

/** Returns `null` for no content, a value, or `{ status, body }` by `refuse`. */
export const ROUTES = [
  ["GET", /^\/v1\/overview$/, (state) => overview(state)],
  ["GET", /^\/v1\/overview\/history$/, () => history()],
  ["GET", /^\/v1\/clients$/, (state, _match, { query }) => page(state.fleet, query)],
  ["GET", /^\/v1\/clients\/([^/]+)$/, (state, [, id], { query }) => withClient(state, id, query, detailed)],
  ["GET", /^\/v1\/clients\/([^/]+)\/subscriptions$/, (state, [, id], { query }) => withClient(state, id, query, subscriptions)],
  ["GET", /^\/v1\/clients\/([^/]+)\/why$/, (state, [, id], { query }) => why(state, id, query)],
  ["DELETE", /^\/v1\/clients\/([^/]+)\/connection$/, disconnect, "operate"],
  ["DELETE", /^\/v1\/clients\/([^/]+)\/session$/, endSession, "operate"],
  ["GET", /^\/v1\/bans$/, (state) => ({ bans: state.bans })],
  ["POST", /^\/v1\/bans$/, ban, "operate"],
  ["DELETE", /^\/v1\/bans$/, lift, "operate"],
  ["GET", /^\/v1\/listeners$/, (state) => listeners(state)],
  ...BRIDGE_ROUTES,
  ...CLUSTER_ROUTES,
  ...MESSAGE_ROUTES,
  ...SETTING_ROUTES,
];

function overview(state) {
  state.overviews += 1;
  const passed = state.overviews * 3_000;
  const recorded = body("GET /v1/overview");
  return like(recorded, {
    started_ms: NOW_MS - 266_400_000,
    now_ms: NOW_MS + passed,
    threads: 3,
    connections: 95_012,
    connections_limit: 100_000,
    sessions: 100_001,
    subscriptions: 402_118,
    retained_messages: state.retained.size,
    retained_bytes: 48_123,
    messages_received: 90_000_000 + passed * 12.4,
    messages_sent: 180_000_000 + passed * 31,
    bytes_received: 9e9 + passed * 1_500,
    bytes_sent: 2e10 + passed * 4_100,
    memory_bytes: 612 * 2 ** 20,
    memory_limit_bytes: 2 ** 30,
    disk_bytes: 3 * 2 ** 30,
    disk_limit_bytes: 20 * 2 ** 30,
    log: like(recorded.log, { sync_p50_us: 410, sync_p99_us: 2_900 }),
    latency: like(recorded.latency, { delivery_p50_us: 63, delivery_p99_us: 319, acknowledgement_p50_us: 511, acknowledgement_p99_us: 3_071 }),
    drops: like(recorded.drops, { queue_full: 1_204, output_full: 88, untranscodable: 0 }),
  });
}

/** Base, amplitude and an offset, by series. */
const SERIES = {
  connections: [94_000, 900, 1],
  messages_received: [12_400, 1_900, 2],
  messages_sent: [31_000, 5_200, 3],
  bytes_received: [1_500_000, 200_000, 4],
  bytes_sent: [4_100_000, 600_000, 5],
  memory_bytes: [612 * 2 ** 20, 2e7, 6],
  disk_bytes: [3.1 * 2 ** 30, 1e8, 7],
  dropped: [0, 14, 8],
  log_sync_p99_us: [2_900, 700, 9],
  delivery_p99_us: [319, 60, 10],
  acknowledgement_p99_us: [3_071, 700, 11],
};

function history() {
  const made = ([base, swing, seed]) =>
    Array.from({ length: HISTORY_LENGTH }, (_, at) => {
      const wave = Math.sin(at / 40 + seed) * swing;
      const noise = ((scrambled(at * 31 + seed) % 1_000) / 1_000 - 0.5) * swing * 0.4;
      // The broker was down for two minutes.
      return at > 60 && at < 72 ? null : Math.max(0, Math.round(base + wave + noise));
    });
  const recorded = body("GET /v1/overview/history");
  const series = Object.fromEntries(Object.entries(SERIES).map(([name, shape]) => [name, made(shape)]));
  return like(recorded, { end_ms: NOW_MS, series: like(recorded.series, series) });
}

function find(state, id, query) {
  const mountPoint = query.get("mount_point");
  return state.fleet.find((client) => client.client_id === decodeURIComponent(id) && client.mount_point === mountPoint);
}

function withClient(state, id, query, shown) {
  const client = find(state, id, query);
  return client === undefined ? answer("GET /v1/clients/nobody") : shown(client, query);
}

function subscriptions(client, query) {
  const recorded = body("GET /v1/clients/reader/subscriptions");
  const all = Array.from({ length: client.subscriptions }, (_, at) =>
    like(recorded.subscriptions[0], {
      filter: `power/${at}/${at % 2 === 0 ? "+" : "#"}`,
      qos: at % 3,
      no_local: at === 1,
      identifier: at === 2 ? 17 : null,
      format: at === 3 ? "json" : null,
    }),
  );
  const after = query.get("after") ?? "";
  return like(recorded, { subscriptions: all.filter(({ filter }) => filter > after) });
}

function why(state, id, query) {
  if (id === "elsewhere") return body("GET /v1/clients/nobody/why?topic=power/1/kwh (another node)");
  const client = find(state, id, query);
  const topic = query.get("topic");
  if (client === undefined) return body("GET /v1/clients/nobody/why?topic=power/1/kwh");
  if (topic.startsWith("jobs/")) return body("GET /v1/clients/worker-1/why?topic=jobs/1");
  if (!topic.startsWith("power/")) return body("GET /v1/clients/reader/why?topic=water/1");
  const recorded = body("GET /v1/clients/reader/why?topic=power/1/kwh");
  return client.connected ? recorded : like(recorded, { outcome: "queued" });
}

function disconnect(state, [, id], { query }) {
  return withClient(state, id, query, (client) => {
    if (!client.connected) {
      return refuse(404, "not_found", "no such client is connected");
    }
    state.fleet[state.fleet.indexOf(client)] = disconnected(client);
    return null;
  });
}

function endSession(state, [, id], { query }) {
  return withClient(state, id, query, (client) => {
    state.fleet.splice(state.fleet.indexOf(client), 1);
    return null;
  });
}

function ban(state, _match, { body }) {
  const { client_id, user, network, seconds, reason } = body;
  state.bans.push({ client_id, user, network, until_unix_s: seconds === undefined ? null : Math.floor(Date.now() / 1_000) + seconds, reason });
  return { status: 201, body: {} };
}

function lift(state, _match, { body }) {
  const at = state.bans.findIndex((known) => known.client_id === body.client_id && known.user === body.user && known.network === body.network);
  if (at < 0) {
    return refuse(404, "not_found", "no such ban");
  }
  state.bans.splice(at, 1);
  return null;
}

function listeners(state) {
  const open = (name) => state.fleet.reduce((sum, client) => sum + (client.listener === name ? 1 : 0), 0);
  const recorded = body("GET /v1/listeners");
  const [plain, secured] = recorded.listeners;
  const certificate = (name, days) => like(secured.tls.certificates[0], { names: [name, `*.${name}`], not_after_ms: Date.now() + days * 86_400_000 });
  const tls = (...certificates) => like(secured.tls, { certificates });
  return like(recorded, {
    listeners: [
      like(plain, { name: "mqtt", address: "192.0.2.1:1883", connections: open("mqtt"), accepted: 120_000, refused: 12 }),
      like(secured, { name: "mqtts", address: "192.0.2.1:8883", connections: open("mqtts"), accepted: 90_000, refused: 0, tls: tls(certificate("mqtt.example.org", 61)) }),
      like(secured, {
        name: "wss",
        address: "192.0.2.1:443",
        connections: open("wss"),
        accepted: 91_000,
        refused: 3,
        tls: tls(certificate("live.example.org", 9), certificate("old.example.org", -2)),
      }),
    ],
  });
}
