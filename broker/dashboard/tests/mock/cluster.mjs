// A recorded cluster of three nodes: one drains, and one has just died.

import { answer, body, like } from "./recorded.mjs";

/** The states of the nodes. They are transient, so they are not recorded. */
const NODES = {
  "broker-1": { state: "alive", age_ms: 0 },
  "broker-2": { state: "left", age_ms: 840 },
  "broker-3": { state: "failed", age_ms: 8_120 },
};

export function makeCluster() {
  const joined = body("GET /v1/cluster (joined)");
  const node = (known) =>
    like(known, { ...NODES[known.name], sessions: 33_001, reference: known.name === "broker-2" ? "" : `${known.name}.example.org:1883` });
  return like(joined, {
    nodes: joined.nodes.map(node),
    log: like(joined.log, { messages_waiting: 412, bytes_waiting: 96_000, slowest_ms: 14 }),
    sessions: like(joined.sessions, { active: 33_001, dormant: 3 }),
    retained: like(joined.retained, { position: 48_000, end: 48_123, complete: false }),
    configuration: like(joined.configuration, { current: 7, latest: 7 }),
    sessions_freed: 12_004,
    sessions_taken_over_for_wills: 17,
    messages_timed_out: 3,
    clients_migrated: 120,
  });
}

/** A node that has lost its NATS server. */
export function makeClusterWithoutNats() {
  return body("GET /v1/cluster (without NATS)");
}

export const CLUSTER_ROUTES = [
  ["GET", /^\/v1\/cluster$/, ({ cluster }) => cluster ?? answer("GET /v1/cluster")],
  ["POST", /^\/v1\/cluster\/drain$/, ({ cluster }, _match, { query }) => drain(cluster, query.get("node")), "operate"],
  ["POST", /^\/v1\/cluster\/rebalance$/, () => answer("POST /v1/cluster/rebalance"), "operate"],
];

function drain(cluster, name) {
  const node = cluster.nodes.find((known) => known.name === name && known.state === "alive");
  if (node === undefined) return answer("POST /v1/cluster/drain?node=broker-9");
  node.state = "left";
  cluster.draining ||= node.self;
  return answer("POST /v1/cluster/drain?node=broker-2");
}
