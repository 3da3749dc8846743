// The client in a real browser, with the real broker over wss.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { connect } from "@tautwire/client";
import { binary, RealBroker } from "../dist/test/support/real-broker.js";
import { startChromium } from "./chromium.mjs";
import { startSite } from "./site.mjs";
import { Tab } from "./tab.mjs";

const folder = mkdtempSync(join(tmpdir(), "tautwire-browser-"));
const file = (name) => join(folder, name);
let browser;
let site;

before(async () => {
  for (const name of ["known", "strange"]) {
    const { status, stderr } = spawnSync(binary, ["cert", "--dir", file(name)], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
  }
  site = await startSite();
  browser = await startChromium([], { authority: file("known/ca.pem") });
});

after(async () => {
  await browser?.stop();
  site?.stop();
  rmSync(folder, { recursive: true });
});

/** Starts a broker with a certificate of an authority. Returns its addresses for pages and for programs. */
async function start(name) {
  const settings = [`tls.certificate=${file(`${name}/server.pem`)}`, `tls.key=${file(`${name}/server.key`)}`];
  const broker = await RealBroker.start(["wss://127.0.0.1:0/mqtt", "mqtts://127.0.0.1:0"], settings);
  const [wss, mqtts] = broker.urls.map((url) => url.replace("127.0.0.1", "localhost"));
  return { broker, wss, mqtts };
}

test("messages pass over wss if the browser trusts the broker's authority", async () => {
  const { broker, wss, mqtts } = await start("known");
  const tab = await Tab.open(browser.context, site.url);
  const peer = await connect(mqtts, { tls: { ca: readFileSync(file("known/ca.pem")) } });
  try {
    await tab.run(async (url) => {
      const { tautwire, tell } = globalThis;
      const client = await tautwire.connect(url);
      const subscription = client.subscribe("page", { qos: 1 });
      await subscription.ready;
      void (async () => {
        for await (const message of subscription) tell(message.text());
      })();
    }, wss);
    await peer.publish("page", "by TLS", { qos: 1 });
    await tab.told("by TLS");
    assert.deepEqual(tab.faults, []);
  } finally {
    await peer.close({ drainMs: 0 });
    await tab.close();
    await broker.stop();
  }
});

test("a broker with an unknown authority is refused", async () => {
  const { broker, wss } = await start("strange");
  const tab = await Tab.open(browser.context, site.url);
  try {
    const code = await tab.run((url) => globalThis.tautwire.connect(url).then(() => "connected", (error) => error.code), wss);
    assert.equal(code, "unreachable");
    assert.match(tab.faults.join("\n"), /ERR_CERT_AUTHORITY_INVALID/);
  } finally {
    await tab.close();
    await broker.stop();
  }
});
