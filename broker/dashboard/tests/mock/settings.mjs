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

/** It happened a minute before somebody looks. */
function lately(samples) {
  return samples.map((sample) => like(sample, { last_ms: Date.now() - 70_000 }));
}

function contracts() {
  const told = body("GET /v1/contracts");
  return like(told, { contracts: told.contracts.map((each) => like(each, { samples: lately(each.samples) })) });
}

function contract(name) {
  if (!CONTRACTS.includes(name)) return answer("GET /v1/contracts/none");
  const told = body(`GET /v1/contracts/${name}`);
  return like(told, { samples: lately(told.samples) });
}

function diff(state) {
  if (state.isDiffWrong) return answer("GET /v1/config/diff (wrong)");
  return body(state.reloads === 0 ? "GET /v1/config/diff (changed)" : "GET /v1/config/diff (same)");
}

function reload(state) {
  const said = diff(state);
  state.reloads += said.status === undefined ? 1 : 0;
  return said;
}

function rules(query) {
  const all = 114;
  const after = Number(query.get("after") ?? 0);
  const limit = Number(query.get("limit") ?? 100);
  const told = body("GET /v1/rules");
  const rule = (number) => {
    const effect = number === 2 ? "deny" : "allow";
    const filter = number === 1 ? "devices/#" : `site/${number}/#`;
    const text = `{ ${effect} = "publish", topics = "${filter}" }`;
    return like(told.rules[0], { number, listener: number > 110 ? "wss" : null, file: "access.toml", line: number + 8, role: "device", effect, actions: ["publish"], filter, text });
  };
  const last = Math.min(all, after + limit);
  return like(told, { all, rules: Array.from({ length: last - after }, (_, at) => rule(after + at + 1)), next: last < all ? String(last) : null });
}

/** What begins with `secret/` is denied, as in the recorded rules. */
function explain({ client_id: clientId, action, topic, filter }) {
  const wanted = topic ?? filter;
  const told = wanted.startsWith("secret/") ? "secret/1" : "power/1";
  const said = body(`POST /v1/explain {"client_id":"a","action":"publish","topic":"${told}"}`);
  return like(said, { request: `${clientId}: ${action} to ${wanted}` });
}
