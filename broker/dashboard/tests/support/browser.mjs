// Chromium, tabs that notice whatever should not be, and axe.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** Generous: other tests may share the machine. */
const WAIT_MS = 60_000;

const axeSource = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function startChromium() {
  assert.ok(existsSync(CHROMIUM), `there is no ${CHROMIUM}: run \`apt-get install -y chromium\`, or set CHROMIUM to its path`);
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
}

/** A page with its own cookies. `allowed`: what the console may say, because the test brings it about. */
export async function openTab(browser, url, { width = 1280, height = 900, dark = false } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
    locale: "en-GB",
    timezoneId: "UTC",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const faults = [];
  const allowed = [];
  const fault = (text) => {
    if (!allowed.some((pattern) => pattern.test(text))) faults.push(text);
  };
  page.on("pageerror", (error) => fault(`not handled: ${error.message}`));
  // Violations of the content security policy are reported there, too.
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) fault(`console: ${message.text()}`);
  });
  const origin = new URL(url).origin;
  page.on("request", (request) => {
    const to = new URL(request.url());
    if (to.protocol !== "data:" && to.origin !== origin) faults.push(`a request left for ${to.origin}`);
  });
  await page.goto(url);
  return { page, context, faults, allow: (pattern) => allowed.push(pattern) };
}

export async function logIn(page, token) {
  await page.getByLabel("Token", { exact: false }).last().fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation", { name: "Dashboard" }).waitFor();
}

/** The findings of axe, by WCAG 2.2 AA and its own best practices; a line each. */
export async function findings(page) {
  await page.evaluate(`if (!window.axe) { ${axeSource} }`);
  const violations = await page.evaluate(async () => {
    const { violations: found } = await window.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    });
    return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target.join(" ")} ${failureSummary}`).join("; ")}`);
  });
  return violations;
}
