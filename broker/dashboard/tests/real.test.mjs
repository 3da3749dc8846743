// The same pages with a real broker with 100,000 sessions, if TAUTWIRE names its binary. A broker without dashboard or sessions is put
// behind the mock server, which provides both; what it does not support is skipped.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { MockServer } from "./mock/server.mjs";
import { findings, logIn, openTab, startChromium } from "./support/browser.mjs";
import { BUSY_MESSAGES, busy, FLEET, makeFleet, nameOf } from "./support/fleet.mjs";

const BINARY = process.env.TAUTWIRE;
const TOKEN = "a-token-for-these-tests-alone-0123456789";
const START_MS = 30_000;

/** As formatted by the pages: the offline ones, and one that is connected. */
const SESSIONS = (FLEET + 1).toLocaleString("en-GB");

const SCHEMA = '{"type":"object","required":["kwh"],"properties":{"kwh":{"type":"number"}}}';
const CONTRACTS = '[[contract]]\nname = "power"\ntopics = "power/+/kwh"\nformat = "json"\nschema = "power.json"\non_violation = "reject"\n';
const RULES = '[[role]]\nname = "all"\nrules = [{ allow = ["publish", "subscribe"], topics = "power/#" }]\n\n[[assign]]\neveryone = true\nroles = "all"\n';

class Broker {
  #folder;
  #child;

  static async start() {
    const broker = new Broker();
    broker.#folder = await mkdtemp(join(tmpdir(), "tautwire-dashboard-"));
    const at = (name) => join(broker.#folder, name);
    await mkdir(at("contracts"));
    await writeFile(at("contracts/contracts.toml"), CONTRACTS);
    await writeFile(at("contracts/power.json"), SCHEMA);
    await writeFile(at("access.toml"), RULES);
    await writeFile(at("token"), TOKEN, { mode: 0o600 });
    await makeFleet(resolve(BINARY), at("mosquitto.db"), at("data"));
    const settings = ['listen=["127.0.0.1:0"]', "admin.listen=0", `admin.token_file=${at("token")}`, `contracts.path=${at("contracts")}`, `acl.file=${at("access.toml")}`, `data.path=${at("data")}`];
    broker.#child = spawn(resolve(BINARY), ["serve", ...settings.flatMap((setting) => ["--set", setting])], { stdio: ["ignore", "pipe", "pipe"] });
    await broker.#ready();
    return broker;
  }

  async #ready() {
    let said = "";
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream.setEncoding("utf8").on("data", (chunk) => (said += chunk));
    const deadline = Date.now() + START_MS;
    const found = (scheme) => new RegExp(`listening on (${scheme}://127\\.0\\.0\\.1:(\\d+))`).exec(said);
    while (found("http") === null || found("mqtt") === null) {
      assert.ok(Date.now() < deadline && this.#child.exitCode === null, `the broker does not start: ${said}`);
      await new Promise((resolve_) => this.#child.stdout.once("data", resolve_));
    }
    this.url = found("http")[1];
    this.port = found("mqtt")[2];
  }

  /** A client that stays connected until `stop`, after it has subscribed. */
  async subscribe(clientId, filter) {
    const child = spawn(resolve(BINARY), ["sub", "-p", this.port, "-i", clientId, filter], { stdio: "ignore" });
    while ((await this.get(`/v1/clients/${clientId}`)).subscriptions !== 1) assert.equal(child.exitCode, null);
    return { stop: () => child.kill() };
  }

  async publish(topic, payload) {
    const sent = await fetch(`${this.url}/messages/${topic}?qos=1&retain=true`, { method: "POST", headers: { Authorization: `Bearer ${TOKEN}` }, body: payload });
    return sent.status;
  }

  async get(path) {
    return (await fetch(this.url + path, { headers: { Authorization: `Bearer ${TOKEN}` } })).json();
  }

  /** Whether it supports a path. */
  async has(path) {
    const answer = await fetch(this.url + path, { headers: { Authorization: `Bearer ${TOKEN}` } });
    await answer.arrayBuffer();
    return answer.ok;
  }

  async stop() {
    const ended = new Promise((resolve_) => this.#child.once("exit", resolve_));
    this.#child.kill();
    await ended;
    await rm(this.#folder, { recursive: true, force: true });
  }
}

test("the pages with a real broker", { skip: BINARY === undefined && "set TAUTWIRE to a binary" }, async (context) => {
  const broker = await Broker.start();
  const front = (await broker.has("/session")) && (await broker.has("/")) ? undefined : await MockServer.start({ upstream: { url: broker.url, token: TOKEN } });
  const browser = await startChromium();
  const client = await broker.subscribe("meter-1", "power/#");
  try {
    assert.equal(await broker.publish("power/1/kwh", '{"kwh":1.5}'), 200);
    assert.equal(await broker.publish("power/1/kwh", '{"kwh":"much"}'), 422);
    const tab = await openTab(browser, front?.url ?? `${broker.url}/`);
    const { page } = tab;
    tab.allow(/status of 401/);
    // The first page requests paths that an older broker does not have.
    if (front !== undefined) tab.allow(/status of 404/);
    await logIn(page, TOKEN);
    const open = (at) => page.evaluate((to) => (location.hash = to), `#/${at}`);
    const shows = (text) => page.getByText(text).first().waitFor();

    const steps = [
      ["overview", "/v1/overview", async () => (await shows("Messages in"), await shows("writing"))],
      ["clients?search=METER", null, async () => (await shows("1 to 1 of 1"), await page.getByRole("link", { name: "meter-1" }).waitFor())],
      ["clients", null, () => shows(`1 to 100 of ${SESSIONS}`)],
      ["clients?search=AWAY-0777", null, async () => (await shows("1 to 100 of 100"), await page.getByRole("link", { name: nameOf(77_700) }).waitFor())],
      [`clients/${busy()}`, null, async () => (await shows("fleet/+"), await shows("offline"))],
      ["clients/meter-1", null, async () => (await shows("127.0.0.1:"), await page.getByRole("rowheader", { name: "power/#" }).waitFor())],
      ["why?client=meter-1&topic=power/1/kwh", null, () => shows("The client gets the message at once.")],
      ["topics?filter=power/%23&topic=power/1/kwh", "/v1/retained", () => shows('"kwh": 1.5')],
      ["topics", "/v1/topics", () => page.getByRole("button", { name: "power" }).waitFor()],
      ["contracts/power", null, () => shows('"required":["kwh"]')],
      ["rules", "/v1/rules", () => shows("1 to 1 of 1")],
      ["listeners", null, () => page.getByRole("cell", { name: `127.0.0.1:${broker.port}` }).waitFor()],
      ["config", null, async () => (await shows("No changes: the files match the current configuration."), await shows("maximum_packet_size = "))],
      ["bans", null, () => shows("There are no bans.")],
      ["bridges", "/v1/bridges", () => shows("There are no bridges.")],
      ["cluster", null, async () => (tab.allow(/status of 404/), await shows("This broker is not in a cluster."))],
    ];
    for (const [at, needs, look] of steps) {
      if (needs !== null && !(await broker.has(needs))) {
        context.diagnostic(`left out, since the broker does not answer at ${needs}: ${at}`);
        continue;
      }
      await open(at);
      await look();
      assert.deepEqual(await findings(page), [], at);
    }

    await open("clients");
    await shows(`1 to 100 of ${SESSIONS}`);
    await page.getByRole("link", { name: "Next" }).click();
    await shows(`101 to 200 of ${SESSIONS}`);
    await page.getByRole("button", { name: "Queued", exact: true }).click();
    await shows(`1 to 100 of ${SESSIONS}`);
    const first = page.getByRole("table", { name: "Clients" }).getByRole("row").nth(1);
    await first.getByRole("link", { name: busy() }).waitFor();
    assert.match(await first.innerText(), new RegExp(`\\b${BUSY_MESSAGES}\\b`));

    if (front === undefined) {
      await open("rules");
      await page.getByLabel("Client Identifier").fill("meter-1");
      await page.getByLabel("Topic", { exact: true }).fill("water/1");
      await page.getByRole("button", { name: "Explain" }).click();
      await page.getByText("denied", { exact: true }).waitFor();
    }

    if (await broker.has("/v1/topics")) {
      await open("tap?filter=power/%23");
      await page.getByRole("button", { name: "Start" }).click();
      await shows("The tap is open.");
      assert.equal(await broker.publish("power/2/kwh", '{"kwh":2.5}'), 200);
      await page.getByRole("button", { name: /power\/2\/kwh/ }).waitFor();
    }

    await open("clients/meter-1");
    // Its session ends with its connection, so its page is not found afterwards.
    tab.allow(/status of 404/);
    await page.getByRole("button", { name: "Ban…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Ban", exact: true }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    assert.equal((await broker.get("/bans")).bans[0].client_id, "meter-1");
    await open("bans");
    await page.getByRole("button", { name: "Lift the ban of meter-1" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Lift" }).click();
    await shows("There are no bans.");
    assert.deepEqual(tab.faults, []);
  } finally {
    client.stop();
    await browser.close();
    await front?.stop();
    await broker.stop();
  }
});
