// What the pages show of a real broker, compared with what the test has sent, not with what the API returns.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { logIn, openTab, startChromium } from "./support/browser.mjs";
import { BINARY, Scenario, SENT, TOKEN } from "./support/scenario.mjs";

const skip = BINARY === undefined && "set TAUTWIRE to a binary";
let scenario;
let browser;
let tab;

before(async () => {
  if (skip !== false) return;
  scenario = await Scenario.start();
  await scenario.run();
  browser = await startChromium();
  tab = await openTab(browser, scenario.url);
  // Before the login, /session returns 401.
  tab.allow(/status of 401/);
  await logIn(tab.page, TOKEN);
});

after(async () => {
  await browser?.close();
  await scenario?.stop();
});

/** A test of the page at one address. */
function shows(title, at, look) {
  test(title, { skip }, async () => {
    const { page, faults } = tab;
    await page.evaluate((to) => (location.hash = to), `#/${at}`);
    await look(page);
    assert.deepEqual(faults, []);
  });
}

/** The value beside a name. */
const fact = (page, name) => page.locator("dl.facts > div").filter({ has: page.getByText(name, { exact: true }) }).locator("dd");

async function factIs(page, name, value) {
  await fact(page, name).waitFor();
  assert.equal(await fact(page, name).innerText(), String(value), name);
}

/** The cells of the row that begins with `head`. */
async function cells(page, table, head) {
  const row = page.getByRole("table", { name: table }).getByRole("row").filter({ has: page.getByRole("rowheader", { name: head, exact: true }) });
  await row.waitFor();
  return (await row.getByRole("cell").allInnerTexts()).map((text) => text.trim());
}

const powerViolations = SENT.powerWrong + SENT.powerMissing;

shows("sessions, subscriptions and drops match the traffic", "overview", async (page) => {
  // away, reader, slow and two workers; the reader subscribes twice.
  await factIs(page, "Sessions", 5);
  await factIs(page, "Subscriptions", 6);
  assert.equal((await cells(page, /Dropped messages since/, "Queue full"))[0], String(SENT.dropped));
  assert.equal((await cells(page, /Dropped messages since/, "Untranscodable"))[0], String(SENT.lax));
  assert.equal(await page.getByRole("table", { name: /Dropped messages since/ }).getByRole("rowheader").count(), 2);
});

shows("the list of clients marks one with a backlog", "clients?sort=queued_messages&descending=true", async (page) => {
  const [state, queued, , inFlight, subscriptions] = await cells(page, "Clients", "slow");
  assert.deepEqual([state, queued, inFlight, subscriptions], ["connected, behind", String(SENT.queue), String(SENT.window), "1"]);
  const away = await cells(page, "Clients", "away");
  assert.deepEqual(away.slice(0, 2), ["offline", "1"]);
  assert.deepEqual((await cells(page, "Clients", "reader")).slice(0, 2), ["connected", "0"]);
});

shows("a client with a full window is not just connected", "clients/slow", async (page) => {
  await factIs(page, "State", "connected, window full");
  await page.getByText(`${SENT.window} of ${SENT.window} messages are in flight, and ${SENT.queue} are queued`).waitFor();
  await factIs(page, "In flight to the client", `${SENT.window} of ${SENT.window}`);
  assert.match(await fact(page, "Queue").innerText(), new RegExp(`^${SENT.queue} messages, `));
  assert.deepEqual((await cells(page, /^Undelivered/, "slow/1")).slice(0, 2), ["Queue full", String(SENT.dropped)]);
  // By a rule for everyone.
  await factIs(page, "Roles", "all");
});

shows("undelivered messages are shown for a 3.1.1 client that requests a format", "clients/reader", async (page) => {
  await factIs(page, "MQTT", "3.1.1");
  assert.deepEqual((await cells(page, /^Undelivered/, "lax/1")).slice(0, 2), ["Untranscodable", String(SENT.lax)]);
  await factIs(page, "State", "connected");
});

shows("contracts are listed with their policies and violations", "contracts", async (page) => {
  const policyAndCount = async (name) => (await cells(page, "Contracts", name)).slice(2);
  assert.deepEqual(await policyAndCount("power"), ["reject", String(powerViolations)]);
  assert.deepEqual(await policyAndCount("lax"), ["observe: delivers", String(SENT.lax)]);
  assert.deepEqual(await policyAndCount("state"), ["quarantine", "1"]);
});

shows("a contract shows each reason for its violations", "contracts/power", async (page) => {
  await factIs(page, "Violations since startup", powerViolations);
  const rows = await page.getByRole("table", { name: /^Violations by reason/ }).getByRole("row").allInnerTexts();
  const found = rows.slice(1).map((row) => row.split("\t").slice(2, 5).join(" "));
  assert.deepEqual(found.sort(), [`required power/2/kwh ${SENT.powerMissing}`, `type power/1/kwh ${SENT.powerWrong}`]);
});

shows("a contract that only observes says so", "contracts/lax", async (page) => {
  await factIs(page, "On violation", "observe: delivers");
  await factIs(page, "Violations since startup", SENT.lax);
});

shows("messages are counted by topic filters, and retained ones listed", "topics?filter=power/%23", async (page) => {
  const totals = async (filter) => (await cells(page, /Messages by topic filter/, filter)).filter((_cell, at) => at === 0 || at === 3 || at === 5);
  await page.getByText(`1 to ${SENT.retained} of ${SENT.retained}`).waitFor();
  await page.evaluate(() => (location.hash = "#/topics"));
  assert.deepEqual(await totals("power/+/kwh"), [SENT.powerGood, SENT.powerGood, 0].map(String));
  const slow = SENT.window + SENT.queue;
  assert.deepEqual(await totals("slow/#"), [slow + SENT.dropped, slow, SENT.dropped].map(String));
});

shows("the ban and the rules match the configuration", "bans", async (page) => {
  await page.getByText("a flood of connections").waitFor();
  await page.evaluate(() => (location.hash = "#/rules"));
  await page.getByText("1 to 2 of 2").waitFor();
});
