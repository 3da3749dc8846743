// Contracts, access rules and the configuration.

import { refuse } from "./refusal.mjs";

const POWER = {
  name: "power",
  topics: "power/{site}/kwh",
  filter: "power/+/kwh",
  formats: ["json", "messagepack"],
  schemaSha256: "6ab8d97fbf243115bcd48511b6d2a21fc6ee85f64144a9b85dc6a732a0c5dcff",
  onViolation: "quarantine",
  unacknowledged: "drop",
  unknownFields: "allow",
  violations: 31,
  samples: [
    { path: "unit", expected: "one of kWh, Wh", rule: "enum", topic: "power/9/kwh", count: 1, last_ms: Date.now() - 4_000_000 },
    { path: "kwh", expected: "a number", rule: "type", topic: "power/3/kwh", count: 30, last_ms: Date.now() - 70_000 },
  ],
};
const STATE = { ...POWER, name: "state", topics: "power/+/state", filter: "power/+/state", formats: ["json"], onViolation: "reject", violations: 0, samples: [] };
const SCHEMA = { sha256: POWER.schemaSha256, file: "power.json", language: "json-schema", source: '{\n  "type": "object",\n  "required": ["kwh"],\n  "properties": { "kwh": { "type": "number" } }\n}\n' };

const CONFIG = `# Addresses and ports on which MQTT is served.
listen = ["127.0.0.1:1883"]

# What the server offers and accepts in the protocol.
[mqtt]

# Largest packet accepted from a client.
maximum_packet_size = 16777216

# Highest QoS served.
max_qos = 2

[limits]

# Connections at once.
connections = 100000
`;

const DIFF = {
  applied: ["limits.connections: 100000 becomes 120000"],
  new_connections: ["mqtt.receive_maximum: 1024 becomes 64"],
  after_restart: ["threads: 0 becomes 2"],
  listeners_added: ["wss"],
  listeners_removed: [],
  addresses: {},
  contracts: 2,
  rules: 14,
};

export const SETTING_ROUTES = [
  ["GET", /^\/v1\/contracts$/, () => ({ contracts: [POWER, STATE] })],
  ["GET", /^\/v1\/contracts\/([^/]+)$/, (_state, [, name]) => contract(decodeURIComponent(name))],
  ["GET", /^\/v1\/config$/, () => ({ status: 200, body: undefined, text: CONFIG, headers: { "Content-Type": "application/toml" } })],
  ["GET", /^\/v1\/config\/diff$/, (state) => diff(state)],
  ["POST", /^\/v1\/config\/reload$/, reload, "operate"],
  ["GET", /^\/v1\/rules$/, (_state, _match, { query }) => rules(query)],
  ["POST", /^\/v1\/explain$/, (_state, _match, { body }) => explain(body)],
];

function contract(name) {
  const found = [POWER, STATE].find((known) => known.name === name);
  return found === undefined ? refuse(404, "not_found", "there is no contract of that name") : { contracts: [found], schemas: [SCHEMA] };
}

function diff(state) {
  if (state.isDiffWrong) {
    return refuse(422, "config_wrong", "nothing has changed: see errors", ["tautwire.toml:3: mqtt.max_qoss: there is no key mqtt.max_qoss; did you mean mqtt.max_qos?"]);
  }
  return state.reloads === 0 ? DIFF : { ...DIFF, applied: [], new_connections: [], after_restart: [], listeners_added: [] };
}

function reload(state) {
  const answer = diff(state);
  state.reloads += answer.status === undefined ? 1 : 0;
  return answer;
}

function rules(query) {
  const all = 114;
  const after = Number(query.get("after") ?? 0);
  const limit = Number(query.get("limit") ?? 100);
  const rule = (number) => {
    const effect = number === 2 ? "deny" : "allow";
    const filter = number === 1 ? "devices/#" : `site/${number}/#`;
    return { number, listener: number > 110 ? "wss" : null, file: "access.toml", line: number + 8, role: "device", effect, actions: ["publish"], filter, text: `{ ${effect} = "publish", topics = "${filter}" }` };
  };
  const last = Math.min(all, after + limit);
  return { open: false, all, rules: Array.from({ length: last - after }, (_, at) => rule(after + at + 1)), next: last < all ? String(last) : null };
}

function explain({ client_id, action, topic, filter }) {
  const wanted = action === "publish" ? topic : filter;
  if (wanted === undefined) {
    return refuse(422, "explain_value", 'action: expected "publish" with topic, or "subscribe" with filter');
  }
  const allowed = wanted.startsWith("devices/");
  return {
    allowed,
    verdict: allowed ? "allowed" : "no_rule",
    request: `${client_id}, ${action} to ${wanted} with QoS 0`,
    rule: allowed ? { file: "access.toml", line: 9, role: "device", text: '{ allow = "publish", topics = "devices/#" }' } : null,
    example: null,
    reason: allowed ? "this is the first rule of the client's roles that matches" : "no rule of the client's roles matches",
    roles: [{ role: "device", because: '[[assign]] at line 39, client_id = "sensor-*"' }],
    notes: [],
  };
}
