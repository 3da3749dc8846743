// In a real browser: a page connects over WebSocket, subscribes, publishes, and comes back after the broker has restarted.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import type { Client } from "@tautwire/client";
import { noBroker, RealBroker } from "./support/real-broker.js";
import { within } from "./support/waiting.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** What the page keeps for the test to look at. */
interface Page {
  tautwire: typeof import("@tautwire/client/web");
  client: Client;
  received: string[];
  errors: string[];
}

async function bundle(): Promise<string> {
  const { outputFiles } = await build({
    stdin: {
      contents: 'import * as tautwire from "@tautwire/client"; globalThis.tautwire = tautwire;',
      resolveDir: fileURLToPath(new URL("../../", import.meta.url)),
    },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false,
  });
  return outputFiles[0]!.text;
}

test("connect, subscribe, publish, and again after a restart of the broker", { skip: noBroker }, async () => {
  assert.ok(existsSync(CHROMIUM), `there is no ${CHROMIUM}: run \`apt-get install -y chromium\`, or set CHROMIUM to its path`);
  const script = await bundle();
  const server = createServer((request, response) => {
    const isScript = request.url === "/client.js";
    // Nothing may be evaluated: the client works under the strictest policy.
    response.setHeader("Content-Security-Policy", "default-src 'self'; connect-src ws://127.0.0.1:*");
    response.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/client.js"></script>');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const listen = (port: number): string[] => [`ws://127.0.0.1:${port}/mqtt`];
  let broker = await RealBroker.start(listen(0));
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  try {
    const page = await browser.newPage();
    const failures: string[] = [];
    page.on("pageerror", (error) => failures.push(error.message));
    await page.goto(origin);
    await within(
      page.evaluate(async (url) => {
        const page = globalThis as unknown as Page;
        page.received = [];
        page.errors = [];
        page.client = await page.tautwire.connect(url, { reconnect: { minDelayMs: 20, maxDelayMs: 100 } });
        page.client.on("error", (error) => page.errors.push(error.message));
        const subscription = page.client.subscribe("page/#", { qos: 2 }, (message) => {
          page.received.push(`${message.topic} ${message.qos} ${message.text()}`);
        });
        await subscription.ready;
        for (const qos of [0, 1, 2] as const) await page.client.publish("page/a", `QoS ${qos}`, { qos });
      }, broker.url),
      "first connection",
    );
    await page.waitForFunction(() => (globalThis as unknown as Page).received.length === 3);

    const { port } = broker;
    await broker.stop();
    await page.waitForFunction(() => (globalThis as unknown as Page).client.state !== "connected");
    const waiting = page.evaluate(async () => {
      const { client } = globalThis as unknown as Page;
      await client.publish("page/b", "waited", { qos: 1 });
    });
    broker = await RealBroker.start(listen(port));
    await within(waiting, "acknowledgement after the restart");
    await page.waitForFunction(() => (globalThis as unknown as Page).received.length === 4);
    const seen = await page.evaluate(async () => {
      const { client, received, errors } = globalThis as unknown as Page;
      const { connections } = client.counters;
      await client.close();
      return { received, errors, connections, state: client.state };
    });
    assert.deepEqual(seen, {
      received: ["page/a 0 QoS 0", "page/a 1 QoS 1", "page/a 2 QoS 2", "page/b 1 waited"],
      errors: [],
      connections: 2,
      state: "closed",
    });
    assert.deepEqual(failures, []);
  } finally {
    await browser.close();
    await broker.stop();
    server.close();
  }
});
