// Retained messages, their topic tree, and the tap.

import { body, like } from "./recorded.mjs";
import { refuse } from "./refusal.mjs";

const [MESSAGE] = body("GET /v1/retained").messages;
const [LEVEL] = body("GET /v1/topics").levels;
const TAPPED = body("GET /v1/tap (message)");

export function makeRetained() {
  const messages = new Map();
  const put = (topic, payload, more = {}) => messages.set(topic, { ...like(MESSAGE, { topic, content_type: null, contract: null, ...more }), payload: Buffer.from(payload) });
  for (let site = 0; site < 150; site += 1) {
    put(`power/${site}/kwh`, JSON.stringify({ kwh: site * 1.5 }), { content_type: "application/json", contract: "power" });
    put(`power/${site}/state`, "on");
  }
  put("firmware/image", [0, 1, 255, 65]);
  put("/leading/slash", "an empty level in front");
  return messages;
}

export const MESSAGE_ROUTES = [
  ["GET", /^\/v1\/topics$/, topics],
  ["GET", /^\/v1\/topic-metrics$/, topicMetrics],
  ["GET", /^\/v1\/retained$/, list],
  ["DELETE", /^\/v1\/retained$/, remove, "operate"],
  ["GET", /^\/v1\/retained\/(.+)$/, show, "read", true],
  ["GET", /^\/v1\/tap$/, tap, "read", true],
];

/** Whether a filter matches, without the rules for topics that begin with `$`. */
export function matches(filter, topic) {
  const [filters, levels] = [filter.split("/"), topic.split("/")];
  const rest = filters.indexOf("#");
  if (rest >= 0 ? levels.length < rest : levels.length !== filters.length) return false;
  return levels.every((level, at) => (rest >= 0 && at >= rest) || filters[at] === "+" || filters[at] === level);
}

function topics(state, _match, { query }) {
  const parent = query.get("parent");
  const prefix = parent === null ? "" : `${parent}/`;
  const levels = new Map();
  for (const topic of state.retained.keys()) {
    if (!topic.startsWith(prefix)) continue;
    const [level, ...rest] = topic.slice(prefix.length).split("/");
    const known = levels.get(level) ?? like(LEVEL, { level, topic: prefix + level, retained: false, descendants: 0 });
    levels.set(level, rest.length === 0 ? { ...known, retained: true } : { ...known, descendants: known.descendants + 1 });
  }
  return paged([...levels.values()], (level) => level.level, query, "levels");
}

function topicMetrics() {
  const recorded = body("GET /v1/topic-metrics");
  const totals = (filter, received, delivered) =>
    like(recorded.topics[0], {
      filter,
      messages_received: received,
      messages_received_by_qos: [received - 3, 2, 1],
      bytes_received: received * 512,
      messages_delivered: delivered,
      bytes_delivered: delivered * 512,
      messages_dropped: 4,
    });
  return like(recorded, { topics: [totals("power/+/kwh", 12_345, 24_690), totals("firmware/#", 7, 0)] });
}

function list(state, _match, { query }) {
  const found = [...state.retained.values()].filter(({ topic }) => matches(query.get("filter") ?? "#", topic));
  return { matched: found.length, ...paged(found.map(described), (message) => message.topic, query, "messages") };
}

function paged(all, key, query, name) {
  const [after, limit] = [query.get("after"), Number(query.get("limit") ?? "100")];
  const sorted = all.toSorted((one, other) => (key(one) < key(other) ? -1 : 1)).filter((item) => after === null || key(item) > after);
  const page = sorted.slice(0, limit);
  return { [name]: page, next: page.length === limit ? key(page.at(-1)) : null };
}

function described({ payload, ...message }) {
  return { ...message, payload_bytes: payload.length };
}

function show(state, [, path]) {
  const message = state.retained.get(decodeURIComponent(path));
  if (message === undefined) return refuse(404, "not_found", "no retained message on that topic");
  const text = message.payload.toString();
  const readable = message.contract !== null ? { decoded: JSON.parse(text) } : Buffer.from(text).equals(message.payload) ? { text } : {};
  return { ...described(message), payload_base64: message.payload.toString("base64"), ...readable };
}

/** The maximum per request. */
const DELETED_MAX = 100;

function remove(state, _match, { query }) {
  const found = [...state.retained.keys()].filter((topic) => matches(query.get("filter"), topic));
  const deleted = found.slice(0, DELETED_MAX);
  for (const topic of deleted) state.retained.delete(topic);
  return like(body("DELETE /v1/retained?filter=power/3/kwh"), { deleted: deleted.length, more: found.length > deleted.length });
}

/** Three messages at once, so that no test waits, one of them split in two. */
function tap(state, _match, { query, response }) {
  const filter = query.get("filter");
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store", Connection: "close" });
  const event = (name, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  const undecoded = Object.fromEntries(Object.entries(TAPPED).filter(([name]) => name !== "decoded"));
  const message = (topic, more) => event("message", { ...like(undecoded, { at_ms: Date.now(), topic, client_id: "meter-00001", payload_bytes: 14, contract: null }), ...more });
  response.write(": open\n\n");
  const split = message("power/1/kwh", { decoded: { kwh: 1.5 }, contract: "power" });
  response.write(split.slice(0, 40));
  setTimeout(() => {
    response.write(split.slice(40));
    response.write(message("power/2/state", { text: "on" }));
    response.write(message("power/3/raw", { payload_base64: "AAH/QQ==" }));
    response.write(event("skipped", { count: 1_200 }));
  }, 50);
  state.taps.push({ filter, rate: Number(query.get("rate")), response });
  return undefined;
}
