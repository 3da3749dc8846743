// A cluster of three nodes, one of which has just died. Written by hand, since a real one needs NATS servers; the mock server validates it
// against the description of the admin API.

import { answer } from "./recorded.mjs";

export function makeCluster() {
  const node = (number, state, ageMs) => ({
    name: `broker-${number}`,
    life: `3f0c91be77a0d41${number}`,
    this_one: number === 1,
    state,
    reference: number === 2 ? "" : `broker-${number}.example.org:1883`,
    sessions: 33_000 + number,
    age_ms: ageMs,
  });
  return {
    name: "broker-1",
    life: "3f0c91be77a0d411",
    serving: true,
    draining: false,
    nats: { state: "ready", why: null },
    nodes: [node(1, "alive", 0), node(2, "closed", 840), node(3, "dying", 8_120)],
    log: { messages_waiting: 412, bytes_waiting: 96_000, slowest_ms: 14 },
    sessions: { serving: 33_001, resting: 3, claiming: 0, adopting: 0, moving: 0 },
    retained: { position: 48_000, end: 48_123, complete: false, unreadable: 0 },
    configuration: { held: 7, latest: 7, behind: false, why: [], parts: [] },
    members_removed: 0,
    groups_removed: 0,
    patrols_cut_short: 0,
    sessions_freed: 12_004,
    sessions_adopted: 17,
    messages_given_back: 0,
    messages_timed_out: 3,
    clients_moved: 120,
    spreads_unanswered: 0,
  };
}

export const CLUSTER_ROUTES = [
  ["GET", /^\/v1\/cluster$/, ({ cluster }) => cluster ?? answer("GET /v1/cluster")],
  ["POST", /^\/v1\/cluster\/drain$/, ({ cluster }, _match, { query }) => drain(cluster, query.get("node")), "operate"],
  ["POST", /^\/v1\/cluster\/rebalance$/, () => ({ begun: true }), "operate"],
];

function drain(cluster, name) {
  const node = cluster.nodes.find((known) => known.name === name);
  node.state = "closed";
  cluster.draining ||= node.this_one;
  return { begun: true };
}
