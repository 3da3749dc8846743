// Recorded responses of a real broker, with values that vary between runs replaced.

import { readFile } from "node:fs/promises";
import { clusterAnswers } from "./cluster.mjs";
import { Scenario, SENT, TOKEN, until } from "./scenario.mjs";

export const RECORDED = new URL("../recorded/answers.json", import.meta.url);
export const RECORDED_CLUSTER = new URL("../recorded/cluster.json", import.meta.url);

/** The requests after the traffic of the scenario, in order. */
const REQUESTS = [
  ["GET", "/v1/overview"],
  ["GET", "/v1/overview/history"],
  ["GET", "/v1/clients"],
  ["GET", "/v1/clients/slow"],
  ["GET", "/v1/clients/away"],
  ["GET", "/v1/clients/reader"],
  ["GET", "/v1/clients/nobody"],
  ["GET", "/v1/clients/reader/subscriptions"],
  ["GET", "/v1/clients/reader/why?topic=power/1/kwh"],
  ["GET", "/v1/clients/reader/why?topic=water/1"],
  ["GET", "/v1/clients/worker-1/why?topic=jobs/1"],
  ["GET", "/v1/clients/nobody/why?topic=power/1/kwh"],
  ["GET", "/v1/bans"],
  ["GET", "/v1/listeners"],
  ["GET", "/v1/topics"],
  ["GET", "/v1/topic-metrics"],
  ["GET", "/v1/retained"],
  ["GET", "/v1/retained/power/1/kwh"],
  ["GET", "/v1/contracts"],
  ["GET", "/v1/contracts/power"],
  ["GET", "/v1/contracts/lax"],
  ["GET", "/v1/contracts/none"],
  ["GET", "/v1/rules"],
  ["POST", "/v1/explain", { client_id: "a", action: "publish", topic: "power/1" }],
  ["POST", "/v1/explain", { client_id: "a", action: "publish", topic: "secret/1" }],
  ["GET", "/v1/config"],
  ["GET", "/v1/cluster"],
  ["DELETE", "/v1/retained?filter=power/3/kwh"],
];

/** The requests after the bridges of the scenario have started. */
const BRIDGE_REQUESTS = [
  ["GET", "/v1/bridges"],
  ["GET", "/v1/bridges/cloud"],
  ["GET", "/v1/bridges/nothing"],
  ["POST", "/v1/bridges/cloud/test"],
  ["POST", "/v1/bridges/plant/test"],
  ["POST", "/v1/bridges/cloud/pause"],
];

/** Runs the scenario and returns the responses, by method and path. */
export async function record() {
  const scenario = await Scenario.start();
  try {
    await scenario.run();
    // The first value of the last hour.
    await until(async () => (await scenario.ask("GET", "/v1/overview/history")).body.end_ms !== null, "a value of the last hour");
    const answers = {};
    const ask = async (method, path, body, name = path) => {
      const said = body === undefined ? "" : ` ${JSON.stringify(body)}`;
      answers[`${method} ${name}${said}`] = normalised(await scenario.ask(method, path, body), scenario.folder);
    };
    for (const [method, path, body] of REQUESTS) await ask(method, path, body);
    const good = await scenario.tapped("power/#", () => scenario.publish("power/1/kwh", '{"kwh":1.5}'));
    answers["GET /v1/tap (message)"] = normalised({ status: 200, body: good }, scenario.folder);
    answers["POST /session"] = normalised(await scenario.ask("POST", "/session", { token: TOKEN }), scenario.folder);
    await scenario.configure("mqtt.receive_maximum = 64\nsys.interval_s = 5", 2);
    await ask("GET", "/v1/config/diff", undefined, "/v1/config/diff (changed)");
    await scenario.configure("mqtt.max_qoss = 1");
    await ask("GET", "/v1/config/diff", undefined, "/v1/config/diff (wrong)");
    await scenario.configure("");
    await ask("GET", "/v1/config/diff", undefined, "/v1/config/diff (same)");
    await ask("POST", "/v1/config/reload");
    // One has been removed.
    await scenario.bridge(SENT.retained - 1);
    for (const [method, path] of BRIDGE_REQUESTS) await ask(method, path);
    return answers;
  } finally {
    await scenario.stop();
  }
}

/** The responses of a cluster node, by method and path. */
export function recordCluster() {
  return clusterAnswers((answer) => normalised(answer));
}

/** The time of everything in a recording. */
export const RECORDED_MS = 1_790_000_000_000;
/** Values that depend on the machine and the time. */
const MEASURED = /^(age_ms|position|end|memory_bytes|memory_limit_bytes|disk_bytes|disk_limit_bytes|memory_bytes|connection_bytes|output_bytes|queued_bytes|retained_bytes|bytes_received|bytes_sent|bytes_delivered|sync_p50_us|sync_p99_us|(delivery|acknowledgement)_p(50|99)_us)$/;

function normalised(value, folder, key = "") {
  if (Array.isArray(value)) return value.map((item) => normalised(item, folder));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, member(name, item, value, folder)]));
  }
  if (typeof value === "string") {
    if (key === "csrf") return "0";
    const moved = folder === undefined ? value : value.replaceAll(folder, "/etc/tautwire");
    return moved.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "2026-09-21T14:13:20Z").replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:1883");
  }
  if (typeof value !== "number") return value;
  if (/_ms$/.test(key) && value > 1e12) return RECORDED_MS;
  if (/_unix_s$/.test(key)) return RECORDED_MS / 1_000;
  return MEASURED.test(key) ? 4_096 : value;
}

function member(name, item, owner, folder) {
  if (name === "series") return seriesOf(item);
  // A random number for each start of a node.
  if (name === "incarnation") return `incarnation-of-${owner.name}`;
  return normalised(item, folder, name);
}

/** One value of each series, so that its name is present. */
function seriesOf(series) {
  return Object.fromEntries(Object.keys(series).map((name) => [name, [0]]));
}

/** The recorded responses. */
export async function recorded(file) {
  return JSON.parse(await readFile(file, "utf8"));
}

/** Names and types, without values: of a list, those of all its items together. */
export function shapeOf(value) {
  if (Array.isArray(value)) return [...new Set(value.map((item) => JSON.stringify(shapeOf(item))))].sort();
  if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shapeOf(item)]));
}
