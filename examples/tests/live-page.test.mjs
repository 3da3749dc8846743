// The page in Chromium, with two sensors. SCREENSHOTS=FOLDER saves screenshots.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startChromium } from "../../clients/typescript/packages/client/browser/chromium.mjs";
import { RealBroker } from "../../clients/typescript/packages/client/dist/test/support/real-broker.js";
import { command, Program } from "./support.mjs";

const { SCREENSHOTS } = process.env;
const WAIT = { timeout: 15_000 };
/** The browser's own message when a connection fails. */
const CONNECTION_FAILED = /^WebSocket connection to \S+ failed/;

test("the page shows the readings of the sensors, on large and small screens, light and dark, over an outage", async () => {
  let broker = await RealBroker.start(["ws://127.0.0.1:0/mqtt", "127.0.0.1:0"]);
  const [ws, mqtt] = broker.urls;
  const sensors = ["sensor.mjs greenhouse", "sensor.mjs cellar"].map(
    (part) => new Program(command("live-page", part), { TAUTWIRE_URL: mqtt }),
  );
  const server = new Program(command("live-page", "serve.mjs"), { PORT: "0" });
  const browser = await startChromium();
  try {
    const page = await browser.context.newPage();
    const faults = [];
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error") faults.push(message.text());
    });
    const [, url] = await server.printed(/^open (\S+)$/m);
    await page.setViewportSize({ width: 1100, height: 720 });
    await page.goto(`${url}?broker=${encodeURIComponent(ws)}`);

    // Three points in each of two lines.
    const lines = page.locator("#chart path.series");
    await page.locator("#chart path.series:nth-of-type(2)[d*=L]").waitFor(WAIT);
    await page.waitForFunction(hasPoints, 3, WAIT);
    assert.equal(await lines.count(), 2);
    assert.deepEqual((await page.locator(".name").allTextContents()).sort(), ["cellar", "greenhouse"]);
    assert.equal(await page.locator("#connection").textContent(), "● connected");
    assert.equal(await page.locator("#empty").isVisible(), false);

    // The page shows what a sensor has published.
    for (const [at, name] of (await page.locator(".name").allTextContents()).entries()) {
      const sensor = sensors.find(({ line }) => line.endsWith(name));
      const celsius = (await page.locator(".celsius").nth(at).textContent()).replace(" °C", "");
      await sensor.printed(new RegExp(`^${name}: ${Number(celsius)} °C`, "m"));
    }

    await page.mouse.move(1000, 500);
    await page.locator("#chart .pointer").waitFor({ ...WAIT, state: "attached" });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const [name, width, height] of [
        ["desktop", 1100, 720],
        ["phone", 360, 740],
      ]) {
        await page.setViewportSize({ width, height });
        assert.equal(await page.evaluate(overflow), 0, `${name} scrolls sideways`);
        if (SCREENSHOTS) await page.screenshot({ path: `${SCREENSHOTS}/${colorScheme}-${name}.png` });
      }
    }
    assert.deepEqual(faults, []);

    await broker.stop();
    broker = null;
    await page.locator("#connection", { hasText: "○ no connection" }).waitFor(WAIT);
    broker = await RealBroker.start([ws, new URL(mqtt).host]);
    await page.locator("#connection", { hasText: "● connected" }).waitFor(WAIT);
    assert.deepEqual(faults.filter((fault) => !CONNECTION_FAILED.test(fault)), []);
  } finally {
    await browser.stop();
    await Promise.all([server, ...sensors].map((program) => program.stop("SIGKILL")));
    await broker?.stop();
  }
});

/** Runs in the page: whether two lines have so many points each. */
function hasPoints(count) {
  const paths = [...globalThis.document.querySelectorAll("#chart path.series")];
  return paths.length === 2 && paths.every((path) => path.getAttribute("d").split(/[ML]/).length > count);
}

/** Runs in the page: by how many pixels it is wider than the screen. */
function overflow() {
  const { scrollWidth, clientWidth } = globalThis.document.documentElement;
  return scrollWidth - clientWidth;
}
