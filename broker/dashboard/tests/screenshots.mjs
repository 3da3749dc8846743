// Takes the screenshots of docs/operating/dashboard.md. They differ only in the time of day.

import { fileURLToPath } from "node:url";
import { MockServer } from "./mock/server.mjs";
import { logIn, openTab, startChromium } from "./support/browser.mjs";

const FOLDER = fileURLToPath(new URL("../../../docs/images/", import.meta.url));

/** Each page, and the text to wait for. */
const PICTURES = [
  { name: "overview", at: "#/overview", ready: "12,400/s" },
  { name: "overview-dark", at: "#/overview", ready: "12,400/s", options: { dark: true } },
  { name: "clients", at: "#/clients?sort=queued_messages&descending=true", ready: "1 to 100 of 100,001" },
  { name: "why", at: "#/why?client=meter-00001&topic=water/1", ready: "nearest: $as/json/lax/#, power/#", options: { height: 520 } },
  { name: "contract", at: "#/contracts/power", ready: "Recent violations", options: { height: 720 } },
  { name: "cluster", at: "#/cluster", ready: "broker-2", options: { width: 1280, height: 660 } },
  { name: "phone", at: "#/listeners", ready: "has expired or will soon", options: { width: 390, height: 720 } },
];

const server = await MockServer.start();
const browser = await startChromium();
try {
  for (const { name, at, ready, options } of PICTURES) {
    const { page, context } = await openTab(browser, server.url + at, { width: 1100, height: 720, ...options });
    await logIn(page, "the-administrators-token");
    await page.getByText(ready).first().waitFor();
    await page.screenshot({ path: `${FOLDER}dashboard-${name}.png` });
    await context.close();
  }
} finally {
  await browser.close();
  await server.stop();
}
