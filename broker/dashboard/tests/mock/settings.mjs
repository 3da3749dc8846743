// Contracts, access rules and the configuration.

import { answer, body, like } from "./recorded.mjs";

const CONTRACTS = ["power", "lax"];

export const SETTING_ROUTES = [
  ["GET", /^\/v1\/contracts$/, () => contracts()],
  ["GET", /^\/v1\/contracts\/([^/]+)$/, (_state, [, name]) => contract(decodeURIComponent(name))],
  ["GET", /^\/v1\/config$/, () => ({ status: 200, body: undefined, text: body("GET /v1/config"), headers: { "Content-Type": "application/toml" } })],
  ["GET", /^\/v1\/config\/diff$/, (state) => diff(state)],
  ["POST", /^\/v1\/config\/reload$/, reload, "operate"],
  ["GET", /^\/v1\/rules$/, (_state, _match, { query }) => rules(query)],
  ["POST", /^\/v1\/explain$/, (_state, _match, { body: asked }) => explain(asked)],
];

/** Dates them a minute ago. */
function lately(samples) {
  return samples.map((sample) => like(sample, { last_ms: Date.now() - 70_000 }));
}

function contracts() {
  const original = body("GET /v1/contracts");
  return like(original, { contracts: original.contracts.map((each) => like(each, { samples: lately(each.samples) })) });
}

function contract(name) {
  if (!CONTRACTS.includes(name)) return answer("GET /v1/contracts/none");
  const original = body(`GET /v1/contracts/${name}`);
  return like(original, { samples: lately(original.samples) });
}

function diff(state) {
  if (state.isDiffWrong) return answer("GET /v1/config/diff (wrong)");
  return body(state.reloads === 0 ? "GET /v1/config/diff (changed)" : "GET /v1/config/diff (same)");
}

function reload(state) {
  const response = diff(state);
  state.reloads += response.status === undefined ? 1 : 0;
  return response;
}

function rules(query) {
  const total = 114;
  const after = Number(query.get("after") ?? 0);
  const limit = Number(query.get("limit") ?? 100);
  const original = body("GET /v1/rules");
  const rule = (number) => {
    const effect = number === 2 ? "deny" : "allow";
    const filter = number === 1 ? "devices/#" : `site/${number}/#`;
    const text = `{ ${effect} = "publish", topics = "${filter}" }`;
    return like(original.rules[0], { number, listener: number > 110 ? "wss" : null, file: "access.toml", line: number + 8, role: "device", effect, actions: ["publish"], filter, text });
  };
  const last = Math.min(total, after + limit);
  return like(original, { total, rules: Array.from({ length: last - after }, (_, at) => rule(after + at + 1)), next: last < total ? String(last) : null });
}

/** Topics below `secret/` are denied, as in the recorded rules. */
function explain({ client_id: clientId, action, topic, filter }) {
  const wanted = topic ?? filter;
  const original = wanted.startsWith("secret/") ? "secret/1" : "power/1";
  const response = body(`POST /v1/explain {"client_id":"a","action":"publish","topic":"${original}"}`);
  return like(response, { request: `${clientId}: ${action} to ${wanted}` });
}
