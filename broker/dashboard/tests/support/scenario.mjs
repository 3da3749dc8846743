// A real broker with traffic that violates contracts, fills a window and drops messages. This file counts what it publishes.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

export const BINARY = process.env.TAUTWIRE;
export const TOKEN = "a-token-for-these-tests-alone-0123456789";
const START_MS = 60_000;

const SCHEMA = '{\n  "type": "object",\n  "required": ["kwh"],\n  "properties": { "kwh": { "type": "number" } }\n}\n';
const contract = (name, topics, rest) => `[[contract]]\nname = "${name}"\ntopics = "${topics}"\nschema = "power.json"\n${rest}\n`;
const CONTRACTS = [
  contract("power", "power/{site}/kwh", 'format = ["json", "messagepack"]'),
  contract("lax", "lax/#", 'format = "json"\non_violation = "observe"'),
  contract("state", "state/#", 'format = "json"\non_violation = "quarantine"'),
].join("\n");
const RULES = `[[role]]
name = "all"
rules = [
    { deny = "publish", topics = "secret/#" },
    { allow = ["publish", "subscribe"], topics = "#" },
]

[[assign]]
everyone = true
roles = "all"
`;

/** The totals of the sent traffic. */
export const SENT = {
  /** Payloads that violate the contract `power`, in two ways. */
  powerWrong: 3,
  powerMissing: 2,
  powerGood: 4,
  /** Payloads that violate a contract that only observes; a 3.1.1 client requests them in another format. */
  lax: 6,
  /** The client's Receive Maximum, of which it acknowledges none; the limit of its queue; and the dropped rest. */
  window: 2,
  queue: 5,
  dropped: 4,
  retained: 4,
  jobs: 3,
};

/** Sends a request to an admin API: returns status and body. */
export async function answerOf(url, token, method, body) {
  const isText = body === undefined || typeof body === "string";
  const headers = { Authorization: `Bearer ${token}`, ...(isText ? {} : { "Content-Type": "application/json" }) };
  const answer = await fetch(url, { method, headers, body: isText ? body : JSON.stringify(body) });
  const text = await answer.text();
  const isJson = answer.headers.get("Content-Type")?.startsWith("application/json") === true && text !== "";
  return { status: answer.status, body: isJson ? JSON.parse(text) : text };
}

/** Waits for a condition that stays true. */
export async function until(holds, what) {
  const deadline = Date.now() + START_MS;
  while (!(await holds())) assert.ok(Date.now() < deadline, `not within ${START_MS} ms: ${what}`);
}

export class Scenario {
  #folder;
  #child;
  #clients = [];
  /** The tables of bridges. */
  #bridges = "";

  static async start({ memory = false } = {}) {
    const scenario = new Scenario();
    await scenario.#serve(memory);
    return scenario;
  }

  async #serve(memory) {
    this.#folder = await mkdtemp(join(tmpdir(), "tautwire-dashboard-"));
    const at = (name) => join(this.#folder, name);
    await mkdir(at("contracts"));
    await writeFile(at("contracts/contracts.toml"), CONTRACTS);
    await writeFile(at("contracts/power.json"), SCHEMA);
    await writeFile(at("access.toml"), RULES);
    await writeFile(at("token"), TOKEN, { mode: 0o600 });
    await promisify(execFile)(resolve(BINARY), ["cert", "--dir", at("tls"), "localhost"]);
    await this.configure("");
    const where = memory ? ["--memory"] : ["--set", `data.path=${at("data")}`];
    this.#child = spawn(resolve(BINARY), ["serve", "--config", at("tautwire.toml"), ...where], { stdio: ["ignore", "pipe", "pipe"] });
    await this.#ready();
  }

  get folder() {
    return this.#folder;
  }

  /** Writes the configuration, which the broker reads on reload. */
  async configure(more, threads = 1) {
    const at = (name) => join(this.#folder, name);
    const lines = [
      `listen = ["127.0.0.1:0", "mqtts://127.0.0.1:0"]\nthreads = ${threads}`,
      more,
      `[admin]\nlisten = "127.0.0.1:0"\ntoken_file = "${at("token")}"`,
      `[tls]\ncertificate = "${at("tls/server.pem")}"\nkey = "${at("tls/server.key")}"`,
      `[contracts]\npath = "${at("contracts")}"`,
      `[acl]\nfile = "${at("access.toml")}"`,
      `[limits]\nsession_queue_messages = ${SENT.queue}\nslow_consumer = "drop_new"`,
      '[metrics]\ntopics = ["power/+/kwh", "slow/#"]',
      this.#bridges,
    ];
    await writeFile(at("tautwire.toml"), `${lines.join("\n\n")}\n`);
  }

  async #ready() {
    let said = "";
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream.setEncoding("utf8").on("data", (chunk) => (said += chunk));
    const deadline = Date.now() + START_MS;
    const found = (scheme) => new RegExp(`listening on (${scheme}://127\\.0\\.0\\.1:(\\d+))`).exec(said);
    while (found("http") === null || found("mqtt") === null) {
      assert.ok(Date.now() < deadline && this.#child.exitCode === null, `the broker does not start: ${said}`);
      await new Promise((done) => this.#child.stdout.once("data", done));
    }
    this.url = found("http")[1];
    this.port = found("mqtt")[2];
  }

  /** Sends a request to the admin API: returns status and body. */
  ask(method, path, body) {
    return answerOf(this.url + path, TOKEN, method, body);
  }

  /** Publishes through the admin API; the status is the result. */
  async publish(topic, payload, { times = 1, retain = false, status = 200 } = {}) {
    for (let time = 0; time < times; time += 1) {
      const answer = await this.ask("POST", `/v1/messages/${topic}?qos=1&retain=${retain}`, payload);
      assert.equal(answer.status, status, `${topic}: ${JSON.stringify(answer.body)}`);
    }
  }

  /** A client that stays connected, returned once it has subscribed. */
  async subscribe(clientId, filters, options = []) {
    const child = spawn(resolve(BINARY), ["sub", "-p", this.port, "-i", clientId, "-q", "1", ...options, ...filters], { stdio: "ignore" });
    this.#clients.push(child);
    const isThere = ({ status, body }) => status === 200 && body.subscriptions === filters.length;
    await until(async () => isThere(await this.ask("GET", `/v1/clients/${clientId}`)), `${clientId} subscribes`);
    return child;
  }

  /** The first message in the tap after `publish` has been called. */
  async tapped(filter, publish) {
    const answer = await fetch(`${this.url}/v1/tap?filter=${encodeURIComponent(filter)}`, { headers: { Authorization: `Bearer ${TOKEN}` } });
    await publish();
    let text = "";
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const event = /event: message\ndata: (.+)\n/.exec(text);
      if (event !== null) return JSON.parse(event[1]);
    }
    throw new Error(`the tap has ended: ${text}`);
  }

  /** Sends all of `SENT`. */
  async run() {
    await this.subscribe("reader", ["power/#", "$as/json/lax/#"], ["-V", "3.1.1"]);
    await this.publish("power/1/kwh", '{"kwh":"much"}', { times: SENT.powerWrong, status: 422 });
    await this.publish("power/2/kwh", "{}", { times: SENT.powerMissing, status: 422 });
    for (let site = 0; site < SENT.powerGood; site += 1) await this.publish(`power/${site}/kwh`, `{"kwh":${site * 1.5}}`, { retain: true });
    assert.equal(SENT.powerGood, SENT.retained);
    await this.publish("lax/1", "no JSON", { times: SENT.lax });
    await this.publish("state/1", "{}");

    // It is stopped before anything is published, so it never acknowledges.
    const slow = await this.subscribe("slow", ["slow/#"], ["-D", "connect", "receive-maximum", String(SENT.window)]);
    slow.kill("SIGSTOP");
    await this.publish("slow/1", "x", { times: SENT.window + SENT.queue + SENT.dropped });

    await this.subscribe("worker-1", ["$share/jobs/jobs/#"]);
    await this.subscribe("worker-2", ["$share/jobs/jobs/#"]);
    await this.publish("jobs/1", "a job", { times: SENT.jobs });

    const away = await this.subscribe("away", ["away/#"], ["-c", "-x", "3600"]);
    away.kill("SIGINT");
    await until(async () => (await this.ask("GET", "/v1/clients/away")).body.connected === false, "away leaves");
    await this.publish("away/1", "for later");
    await this.ask("POST", "/v1/bans", { network: "198.51.100.0/24", seconds: 86_400, reason: "a flood of connections" });
  }

  /** Starts a bridge from the broker to itself, and one to an address where nothing listens; `retained`: the messages that are forwarded first. */
  async bridge(retained) {
    const table = (name, port, rules) => `[[bridge]]\nname = "${name}"\naddresses = ["mqtt://127.0.0.1:${port}"]\nclient_id = "${name}"\nretry_min_s = 3600\nretry_max_s = 3600\nrules = [${rules}]`;
    const out = '{ filter = "power/#", direction = "out", remote_prefix = "copy/", rate = 100 }';
    const quiet = '{ filter = "silence", direction = "both", qos = 0 }';
    this.#bridges = `${table("cloud", this.port, `${out}, ${quiet}`)}\n\n${table("plant", 1, quiet)}`;
    await this.configure("");
    assert.equal((await this.ask("POST", "/v1/config/reload")).status, 200);
    const isDone = ({ name, state, failures, messages_out: out, queued_messages: queued }) =>
      name === "cloud" ? state === "connected" && out === retained && queued === 0 : failures === 1;
    await until(async () => (await this.ask("GET", "/v1/bridges")).body.bridges.every(isDone), "both bridges have tried to connect");
  }

  async stop() {
    for (const client of this.#clients) client.kill("SIGKILL");
    const ended = new Promise((done) => this.#child.once("exit", done));
    this.#child.kill();
    if (this.#child.exitCode === null) await ended;
    await rm(this.#folder, { recursive: true, force: true });
  }
}
