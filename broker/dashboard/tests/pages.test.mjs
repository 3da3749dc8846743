// Each page in a real browser, with 100,000 mock sessions.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { makeClusterWithoutNats } from "./mock/cluster.mjs";
import { MockServer } from "./mock/server.mjs";
import { findings, logIn, openTab, startChromium } from "./support/browser.mjs";

const ADMINISTRATOR = "the-administrators-token";
const CLOSED_MS = 20_000;
const READER = "the-readers-token";

let browser;

before(async () => {
  browser = await startChromium();
});

after(() => browser?.close());

/** A test with its own server and tab. It fails on any unexpected error. */
function onPage(title, at, { token = ADMINISTRATOR, ...options }, body) {
  test(title, async () => {
    const server = await MockServer.start();
    try {
      const tab = await openTab(browser, `${server.url}${at}`, options);
      // Without a session, /session returns 401, which the console logs.
      tab.allow(/status of 401/);
      if (token !== null) await logIn(tab.page, token);
      await body({ ...tab, server });
      assert.deepEqual(tab.faults, []);
      assert.deepEqual(server.faults, [], "the mock server has returned responses that no broker does");
      await tab.context.close();
    } finally {
      await server.stop();
    }
  });
}

onPage("a wrong token gives an error, and a valid one opens the requested page", "#/bans", { token: null }, async ({ page }) => {
  await page.getByRole("heading", { name: "Log in to Tautwire" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByLabel("Token", { exact: false }).last().fill("not it");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").getByText("are not right").waitFor();
  assert.deepEqual(await findings(page), []);
  await logIn(page, ADMINISTRATOR);
  await page.getByRole("heading", { name: "Bans", level: 1 }).waitFor();
});

onPage("a user logs in and out with the keyboard only", "", { token: null }, async ({ page, server }) => {
  await page.getByLabel("a user name").focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("Tab");
  await page.keyboard.type("ann");
  await page.keyboard.press("Tab");
  await page.keyboard.type("ann's secret");
  await page.keyboard.press("Enter");
  await page.getByText("role operate").first().waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("heading", { name: "Log in to Tautwire" }).waitFor();
  assert.ok(server.asked.includes("DELETE /session"));
});

onPage("an expired session leads to the login, and back to the page", "#/clients", {}, async ({ page, server }) => {
  await page.getByRole("table", { name: "Clients" }).waitFor();
  server.endSessions();
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText("Your session has ended").waitFor();
  await logIn(page, ADMINISTRATOR);
  await page.getByRole("table", { name: "Clients" }).waitFor();
});

onPage("the overview shows rates, limits, drops and the last hour", "", {}, async ({ page }) => {
  await page.getByText("12,400/s").first().waitFor();
  await page.getByText("near the limit").waitFor();
  const drops = page.getByRole("table", { name: /Dropped messages/ }).last();
  assert.match(await drops.innerText(), /Queue full\s+1,204/);
  assert.equal(await page.locator(".chart canvas").count(), 6);
  assert.deepEqual(await findings(page), []);
});

onPage("each line of a chart has its own colour", "", {}, async ({ page }) => {
  await page.getByText("journal write", { exact: true }).waitFor();
  const charts = await page.locator(".chart").evaluateAll((all) => all.map((chart) => [...chart.querySelectorAll(".key")].map((key) => getComputedStyle(key).backgroundColor)));
  assert.equal(Math.max(...charts.map((colours) => colours.length)), 3);
  for (const colours of charts) assert.equal(new Set(colours).size, colours.length, colours.join(" "));
});

onPage("the heading receives the focus without an outline", "#/bans", {}, async ({ page }) => {
  await page.locator("main h1:focus").waitFor();
  await page.reload();
  await page.locator("main h1:focus").waitFor();
  assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
});

onPage("the sorted column is visible on a screen of 1280 px", "#/clients", {}, async ({ page }) => {
  const box = page.getByRole("group", { name: "Clients" });
  for (const name of ["Queued", "Queued bytes", "In flight", "Subscriptions", "Memory"]) {
    await page.getByRole("button", { name, exact: true }).click();
    const header = page.getByRole("columnheader", { name, exact: true }).and(page.locator("[aria-sort=descending]"));
    await header.waitFor();
    const [outer, inner] = [await box.boundingBox(), await header.boundingBox()];
    assert.ok(inner.x >= outer.x && inner.x + inner.width <= outer.x + outer.width, name);
  }
});

onPage("no name of a fact overlaps its value", "#/clients/meter-00001", {}, async ({ page }) => {
  await page.getByText("Pending acknowledgements").waitFor();
  const wide = await page.locator("dl.facts dt").evaluateAll((all) => all.filter((name) => name.scrollWidth > name.clientWidth).map((name) => name.textContent));
  assert.deepEqual(wide, []);
});

onPage("the overview says what to do when the broker does not answer, and recovers automatically", "", {}, async ({ page, server, allow }) => {
  allow(/ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/);
  await page.getByText("Messages in").waitFor();
  await server.stop();
  await page.getByText("The broker does not answer.").first().waitFor();
  assert.deepEqual(await findings(page), []);
  await server.listen(server.port);
  await page.getByText("The broker does not answer.").first().waitFor({ state: "hidden" });
});

onPage("100,000 clients are searched, sorted and paged", "#/clients", {}, async ({ page }) => {
  const table = page.getByRole("table", { name: "Clients" });
  await page.getByText("1 to 100 of 100,001").waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("link", { name: "Next" }).click();
  await page.getByText("101 to 200 of 100,001").waitFor();
  await page.getByRole("link", { name: "Next" }).click();
  await page.getByText("201 to 300 of 100,001").waitFor();
  await page.getByRole("link", { name: "Previous" }).click();
  await page.getByText("101 to 200 of 100,001").waitFor();
  await page.goBack();
  await page.getByText("201 to 300 of 100,001").waitFor();

  // While a response is pending, the page is labelled with the current data, not with the requested.
  let answer;
  const mayAnswer = new Promise((resolve) => (answer = resolve));
  await page.route("**/v1/clients?*", async (route) => {
    await mayAnswer;
    await route.fallback();
  });
  await page.getByRole("button", { name: "Queued", exact: true }).click();
  await page.locator(".answer[aria-busy=true]").waitFor();
  assert.equal(await page.getByText("201 to 300 of 100,001").count(), 1);
  assert.equal(await page.locator("[aria-sort=descending]").count(), 0);
  answer();
  await page.getByText("1 to 100 of 100,001").waitFor();
  await table.getByRole("columnheader", { name: "Queued", exact: true }).and(page.locator("[aria-sort=descending]")).waitFor();
  assert.match(await table.getByRole("row").nth(1).innerText(), /1,000/);
  await page.getByLabel("Client or user").fill("METER-0777");
  await page.getByText("1 to 10 of 10").waitFor();
  await page.getByLabel("State").selectOption("offline");
  await page.getByText("No client matches.").or(page.getByText(/^1 to \d of \d$/)).waitFor();
  await page.getByLabel("Client or user").fill("no such name");
  await page.getByText("No client matches.").waitFor();
  await page.getByRole("link", { name: "Show all clients" }).click();
  await page.getByText("1 to 100 of 100,001").waitFor();

  // Input just before following a link does not navigate back, however late the page is redrawn.
  await page.getByLabel("Client or user").fill("no such name");
  await page.getByText("No client matches.").waitFor();
  await page.evaluate(() => {
    window.requestAnimationFrame = () => 0;
    const field = document.querySelector("input[type=search]");
    field.value = "no such name either";
    field.dispatchEvent(new window.Event("input", { bubbles: true }));
    const link = [...document.querySelectorAll("a")].find(({ textContent }) => textContent === "Show all clients");
    setTimeout(() => link.click(), 245);
  });
  await page.getByText("1 to 100 of 100,001").waitFor();
});

onPage("a client is shown, and disconnected after confirmation", "#/clients/meter-00001", {}, async ({ page, server }) => {
  await page.getByRole("heading", { name: "Client meter-00001" }).waitFor();
  await page.getByRole("table", { name: "Subscriptions" }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Disconnect…" }).click();
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.ok(!server.asked.some((line) => line.startsWith("DELETE /v1")));
  await page.getByRole("button", { name: "Disconnect…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Disconnect" }).click();
  await page.getByText("The client is not connected.").waitFor();
  assert.ok(server.asked.includes("DELETE /v1/clients/meter-00001/connection"));
});

onPage("a client behind a mount point, with a name that must be escaped, is banned, and the ban is lifted", "#/clients?search=gr%C3%B6%C3%9Fe", {}, async ({ page, server }) => {
  await page.getByRole("link", { name: "größe/7 #?%" }).click();
  await page.getByRole("heading", { name: "Client größe/7 #?%" }).waitFor();
  await page.getByRole("button", { name: "Ban…" }).click();
  await page.getByLabel(/the user site-7/).check();
  await page.getByLabel("For how long").selectOption("one day");
  await page.getByLabel(/Reason/).fill("a test");
  assert.deepEqual(await findings(page), []);
  await page.getByRole("dialog").getByRole("button", { name: "Ban", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.equal(server.state.bans[1].user, "site-7");
  await page.getByRole("link", { name: "Bans" }).click();
  await page.getByText("a test").waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Lift the ban of site-7" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Lift" }).click();
  await page.getByText("a test").waitFor({ state: "hidden" });
  assert.equal(server.state.bans.length, 1);
});

onPage("a session is ended, and its page says so", "#/clients/meter-00002", {}, async ({ page, allow }) => {
  allow(/status of 404/);
  await page.getByRole("button", { name: "End session…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "End session" }).click();
  await page.getByText("or its session has ended").waitFor();
});

onPage("a read-only user sees no actions", "#/clients/meter-00001", { token: READER }, async ({ page }) => {
  await page.getByRole("table", { name: "Subscriptions" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /…$/ }).count(), 0);
});

onPage("why explains the fate of a message, and what to change", "#/clients/meter-00001", {}, async ({ page }) => {
  await page.getByRole("link", { name: "Why?" }).and(page.locator(".button")).click();
  await page.getByText("Nothing is published.").waitFor();
  await page.getByLabel("Topic name").fill("water/1");
  await page.keyboard.press("Enter");
  await page.getByText("nearest: $as/json/lax/#, power/#").waitFor();
  await page.getByText("The client does not get the message.").waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByLabel("Topic name").fill("power/0/kwh");
  await page.getByRole("button", { name: "Ask" }).click();
  await page.getByText("The client gets the message at once.").waitFor();
});

onPage("why sends all properties of the message", "#/why?client=meter-00001&topic=power/1/kwh", {}, async ({ page, server }) => {
  await page.getByText("The client gets the message at once.").waitFor();
  const asked = () => server.asked.filter((line) => line.includes("/why?")).map((line) => Object.fromEntries(new URL(line.split(" ")[1], server.url).searchParams));
  assert.deepEqual(asked(), [{ topic: "power/1/kwh", qos: "1" }]);
  await page.getByLabel("QoS").selectOption("2");
  await page.getByLabel("retained").check();
  await page.getByLabel("of the publisher").fill("meter-00002");
  await page.getByLabel("Payload, if any").fill('{"kwh": 1}');
  assert.ok(await page.getByLabel("Payload length").isDisabled(), "the payload has its own length");
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Ask" }).click();
  await page.waitForURL(/publisher=meter-00002/);
  await page.getByText("The client gets the message at once.").waitFor();
  assert.deepEqual(asked()[1], { topic: "power/1/kwh", qos: "2", retain: "true", payload: '{"kwh": 1}', publisher: "meter-00002" });
  await page.getByLabel("Payload, if any").fill("");
  await page.getByLabel("Payload length").fill("0");
  await page.getByLabel("Mount point").fill("nowhere");
  await page.getByRole("button", { name: "Ask" }).click();
  await page.waitForURL(/mount_point=nowhere/);
  await page.getByText("There is no session").or(page.getByText("there is no session")).first().waitFor();
  assert.deepEqual(asked()[2], { mount_point: "nowhere", topic: "power/1/kwh", qos: "2", retain: "true", payload_bytes: "0", publisher: "meter-00002" });
});

onPage("why shows which member of a group got the last message", "#/why?client=meter-00001&topic=jobs/1", {}, async ({ page }) => {
  await page.getByText("The message goes to one member of a shared subscription.").waitFor();
  await page.getByText("1 for other members, the last for worker-2").waitFor();
  assert.deepEqual(await findings(page), []);
});

onPage("why says when another node must be asked", "#/why?client=elsewhere&topic=a", {}, async ({ page }) => {
  await page.getByText("This node cannot tell: it does not serve the client.").waitFor();
  await page.getByText("To change it: ask the other nodes").waitFor();
  assert.deepEqual(await findings(page), []);
});

onPage("topics are opened level by level, down to a message decoded by its contract", "#/topics", {}, async ({ page }) => {
  await page.getByRole("button", { name: "power", exact: true }).click();
  await page.getByRole("button", { name: "17", exact: true }).click();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("link", { name: "Message on power/17/kwh" }).click();
  await page.getByText('"kwh": 25.5').waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("link", { name: "Show the tree" }).click();
  await page.getByRole("button", { name: "(empty level)" }).click();
  await page.getByRole("button", { name: "leading", exact: true }).click();
  await page.getByRole("link", { name: "Message on /leading/slash" }).click();
  await page.getByText("an empty level in front").waitFor();
  await page.getByRole("textbox", { name: "Topic filter" }).fill("firmware/#");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "firmware/image" }).click();
  await page.getByText("00 01 ff 41").waitFor();
});

onPage("messages are counted by topic filters, and the page says how to add one", "#/topics", {}, async ({ page, server }) => {
  const row = page.getByRole("row", { name: "power/+/kwh" });
  await row.getByText("12,345", { exact: true }).waitFor();
  await row.getByText("12,342 / 2 / 1").waitFor();
  await row.getByText("12.1 MiB").waitFor();
  assert.deepEqual(await findings(page), []);
  server.answerOnce("/v1/topic-metrics", { status: 200, body: { topics: [] } });
  await page.getByRole("region", { name: "Messages by topic filter" }).getByRole("button", { name: "Refresh" }).click();
  await page.getByText("No topic filters are configured.").waitFor();
  await page.getByText("metrics.topics").waitFor();
  assert.deepEqual(await findings(page), []);
});

onPage("retained messages are deleted by a filter, after a confirmation with their number", "#/topics?filter=power/%2B/state", {}, async ({ page, server }) => {
  await page.getByText("1 to 100 of 150").waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("101 to 150 of 150").waitFor();
  await page.getByRole("button", { name: "Delete all 150…" }).click();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("No retained message matches this filter.").waitFor();
  assert.equal(server.state.retained.has("power/1/state"), false);
  assert.equal(server.state.retained.has("power/1/kwh"), true);
});

onPage("messages that the broker could not delete are counted", "#/topics?filter=firmware/%23", {}, async ({ page, server }) => {
  await page.getByRole("button", { name: "Delete all 1…" }).click();
  server.answerOnce("/v1/retained", { status: 200, body: { deleted: 0, refused: 1, more: false } });
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("1 of the messages could not be deleted.").waitFor();
});

onPage("the tap shows messages, counts skipped ones, and is closed with its page", "#/tap", {}, async ({ page, server }) => {
  await page.getByRole("textbox", { name: "Topic filter" }).fill("power/#");
  await page.getByLabel("Maximum per second").fill("20");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("3 messages shown, 1,200 skipped").waitFor();
  assert.equal(server.state.taps[0].filter, "power/#");
  assert.equal(server.state.taps[0].rate, 20);
  await page.getByRole("button", { name: "Show the message on power/1/kwh" }).click();
  await page.getByText('"kwh": 1.5').waitFor();
  assert.deepEqual(await findings(page), []);
  const closed = once(server.state.taps[0].response, "close", { signal: AbortSignal.timeout(CLOSED_MS) });
  await page.getByRole("link", { name: "Overview" }).click();
  await closed;
});

onPage("the tap says why it was refused", "#/tap?filter=power/%23", {}, async ({ page, server, allow }) => {
  allow(/status of 503/);
  server.answerOnce("/v1/tap", { status: 503, body: { code: "busy", message: "the limit of 4 open taps is reached; close one" } });
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("the limit of 4 open taps is reached; close one.").waitFor();
});

onPage("a user without the permission to see payloads gets a notice", "#/tap", { token: READER }, async ({ page, server }) => {
  await page.getByText("You are not allowed to see payloads.").waitFor();
  await page.getByRole("link", { name: "Topics" }).click();
  await page.getByRole("textbox", { name: "Topic filter" }).fill("firmware/image");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "firmware/image" }).click();
  await page.getByText("You are not allowed to see payloads.").waitFor();
  assert.ok(!server.asked.some((line) => /\/v1\/(tap|retained\/)/.test(line)));
});

onPage("contracts show their violations, and the reasons", "#/contracts", {}, async ({ page }) => {
  const row = page.getByRole("row", { name: /^power / });
  assert.match(await row.innerText(), /reject\s+5/);
  assert.match(await page.getByRole("row", { name: /^lax / }).innerText(), /observe: delivers\s+6/);
  assert.deepEqual(await findings(page), []);
  await page.getByRole("link", { name: "power", exact: true }).click();
  await page.getByRole("cell", { name: "a number" }).waitFor();
  await page.getByText('"required": ["kwh"]').waitFor();
  assert.deepEqual(await findings(page), []);
});

onPage("the rules are listed, and decisions explained", "#/rules", {}, async ({ page }) => {
  await page.getByText("1 to 100 of 114").waitFor();
  const second = page.getByRole("row", { name: /^2 / });
  assert.match(await second.innerText(), /device\s+deny\s+publish\s+site\/2\/#\s+all others\s+access\.toml:10/);
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("101 to 114 of 114").waitFor();
  await page.getByRole("cell", { name: "wss" }).first().waitFor();
  await page.getByRole("button", { name: "Previous" }).click();
  await page.getByText("1 to 100 of 114").waitFor();
  await page.getByLabel("Client Identifier").fill("sensor-7");
  await page.getByLabel("Topic", { exact: true }).fill("secret/x");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("denied", { exact: true }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByLabel("Action").selectOption("subscribe to");
  await page.getByRole("textbox", { name: "Topic filter" }).fill("devices/#");
  await page.keyboard.press("Enter");
  await page.getByText("allowed", { exact: true }).waitFor();
  await page.getByText(/role all, .*access.toml:5/).waitFor();
});

onPage("listeners show their certificates, the first to expire on top", "#/listeners", {}, async ({ page }) => {
  const certificates = page.getByRole("table", { name: /^Certificates/ }).getByRole("row");
  await page.getByText("has expired or will soon").waitFor();
  assert.match(await certificates.nth(1).innerText(), /old\.example\.org.*expired 2 days/s);
  assert.match(await certificates.nth(2).innerText(), /live\.example\.org.*8 days/s);
  assert.deepEqual(await findings(page), []);
});

onPage("bridges show their state, rates and errors, and are paused, resumed and tested", "#/bridges", {}, async ({ page, server }) => {
  const row = (name) => page.getByRole("table", { name: "Bridges" }).getByRole("row", { name: new RegExp(`^${name} `) });
  await row("plant").getByText("cannot connect to the server").waitFor();
  assert.match(await row("cloud").innerText(), /connected\s+mqtts:\/\/mqtt\.example\.com:8883/);
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Refresh" }).click();
  await row("cloud").getByText(/^[1-9][\d,.]*\/s$/).waitFor();
  await page.getByRole("button", { name: "Test cloud" }).click();
  await page.getByText("mqtts://backup.example.com:8883 accepts the bridge.").waitFor();
  await page.getByRole("button", { name: "Test plant" }).click();
  await page.getByText(/^mqtt:\/\/192\.0\.2\.7:1883: cannot connect/).waitFor();
  await page.getByRole("button", { name: "Resume north" }).click();
  await page.getByRole("button", { name: "Pause north" }).waitFor();
  await page.getByRole("button", { name: "Pause cloud" }).click();
  await page.getByRole("dialog", { name: "Pause cloud?" }).getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume cloud" }).waitFor();
  assert.ok(server.asked.includes("POST /v1/bridges/cloud/pause") && server.asked.includes("POST /v1/bridges/north/resume"));
  assert.deepEqual(await findings(page), []);
});

onPage("a bridge shows its rules, and which a broker has refused", "#/bridges/cloud", {}, async ({ page }) => {
  const rules = page.getByRole("table", { name: "Rules" }).getByRole("row");
  assert.match(await rules.nth(1).innerText(), /power\/#\s+out\s+1\s+–\s+copy\/\s+keep\s+100\/s\s+accepted/);
  assert.match(await rules.nth(2).innerText(), /silence\s+both\s+0.*the other broker: Not authorized/s);
  await page.getByRole("link", { name: "bridge/cloud" }).waitFor();
  assert.deepEqual(await findings(page), []);
});

onPage("a read-only user sees no commands for bridges", "#/bridges", { token: null }, async ({ page }) => {
  await logIn(page, READER);
  await page.getByRole("link", { name: "cloud" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /Pause|Resume|Test/ }).count(), 0);
});

onPage("a broker without bridges says how to add one", "#/bridges", { token: null }, async ({ page, server }) => {
  server.state.bridges = [];
  await logIn(page, ADMINISTRATOR);
  await page.getByText("There are no bridges.").waitFor();
  assert.deepEqual(await findings(page), []);
});

onPage("the configuration is compared and reloaded", "#/config", {}, async ({ page, server }) => {
  await page.getByText("sys.interval_s", { exact: true }).waitFor();
  await page.getByText("maximum_packet_size = 16777216").waitFor();
  assert.equal(await page.getByText("Highest QoS served").count(), 0);
  await page.getByLabel("with explanations").check();
  await page.getByText("Highest QoS served").waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("button", { name: "Reload…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reload" }).click();
  await page.getByText("No changes: the files match the current configuration.").waitFor();
  assert.equal(server.state.reloads, 1);
});

onPage("errors of the configuration are shown line by line", "#/config", { token: null }, async ({ page, server, allow }) => {
  allow(/status of 422/);
  server.state.isDiffWrong = true;
  await logIn(page, ADMINISTRATOR);
  await page.getByText("did you mean mqtt.max_qos?").waitFor();
  assert.deepEqual(await findings(page), []);
});

onPage("a cluster shows its nodes, and any of them is drained after confirmation", "#/cluster", {}, async ({ page, server }) => {
  const nodes = page.getByRole("table", { name: "Nodes" });
  await nodes.getByRole("row", { name: /broker-1 \(this one\).*accepts clients/ }).waitFor();
  await nodes.getByRole("row", { name: /broker-3.*being released/ }).waitFor();
  assert.deepEqual(await findings(page), []);
  assert.ok(await page.getByRole("button", { name: "Drain broker-3" }).isDisabled());
  await page.getByRole("button", { name: "Drain broker-1" }).click();
  assert.deepEqual(await findings(page), []);
  await page.getByRole("dialog", { name: "Drain broker-1?" }).getByRole("button", { name: "Drain" }).click();
  await page.getByText("is being drained").waitFor();
  assert.ok(server.asked.includes("POST /v1/cluster/drain?node=broker-1"));
});

onPage("a node without a connection to NATS says so, and a read-only user sees no commands", "#/cluster", { token: null }, async ({ page, server }) => {
  server.state.cluster = makeClusterWithoutNats();
  await logIn(page, READER);
  await page.getByText("This node cannot reach NATS.").waitFor();
  await page.getByText("serves no clients").waitFor();
  assert.equal(await page.getByRole("button", { name: /Drain|Rebalance/ }).count(), 0);
  assert.deepEqual(await findings(page), []);
});

onPage("a broker without a cluster says how to form one", "#/cluster", { token: null }, async ({ page, server, allow }) => {
  allow(/status of 404/);
  server.state.cluster = null;
  await logIn(page, ADMINISTRATOR);
  await page.getByText("This broker is not in a cluster.").waitFor();
  assert.deepEqual(await findings(page), []);
});

const PAGES = ["overview", "clients", "clients/meter-00001", "why", "topics", "tap", "contracts", "contracts/power", "rules", "bans", "listeners", "bridges", "bridges/cloud", "cluster", "config"];

for (const [title, options] of [
  ["in the dark", { dark: true }],
  ["on a phone", { width: 360, height: 720 }],
]) {
  onPage(`every page conforms to the accessibility rules ${title}, and is not wider than the screen`, "", options, async ({ page }) => {
    for (const name of PAGES) {
      await page.evaluate((to) => (location.hash = to), `#/${name}`);
      await page.locator("main table, main form, main pre").first().waitFor();
      await page.locator("main h1:focus").waitFor();
      assert.deepEqual(await findings(page), [], name);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), name);
    }
  });
}

onPage("on a phone the menu opens and closes with the keyboard, and closes on selection", "", { width: 360, height: 720 }, async ({ page }) => {
  await page.getByText("Menu", { exact: true }).focus();
  await page.keyboard.press("Enter");
  assert.deepEqual(await findings(page), []);
  await page.getByRole("link", { name: "Bans" }).click();
  await page.getByRole("heading", { name: "Bans", level: 1 }).waitFor();
  await page.getByRole("link", { name: "Bans" }).waitFor({ state: "hidden" });
});

onPage("an unknown address links to the overview", "#/nowhere", {}, async ({ page }) => {
  await page.getByRole("main").getByRole("link", { name: "overview" }).click();
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
});
