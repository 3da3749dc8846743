// The store for browsers in a real browser, with the real broker. Tabs are closed abruptly.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { connect } from "@tautwire/client";
import { CHANGES, plain, SESSION } from "../dist/test/support/changes.js";
import { temporaryFolder } from "../dist/test/support/folder.js";
import { MortalBroker } from "../dist/test/support/mortal-broker.js";
import { startChromium } from "./chromium.mjs";
import { startSite } from "./site.mjs";
import { Tab } from "./tab.mjs";

const FAST = { minDelayMs: 5, maxDelayMs: 20 };

const folder = temporaryFolder();
let browser;
let site;

before(async () => {
  site = await startSite();
  browser = await startChromium();
});

after(async () => {
  await browser?.stop();
  site?.stop();
});

const open = () => Tab.open(browser.context, site.url);

/** Loads the session of that name in the page, with plain arrays. */
function sessionIn(tab, name) {
  return tab.run(async (name) => {
    const store = await globalThis.IndexedDbStore.open(name);
    const { outgoing, ...session } = store.load();
    await store.close();
    return { ...session, outgoing: outgoing.map((each) => ({ ...each, packet: each.packet && Array.from(each.packet) })) };
  }, name);
}

test("recorded changes are restored when the session is opened again", async () => {
  const tab = await open();
  try {
    const changes = CHANGES.map((change) => ("packet" in change ? { ...change, packet: Array.from(change.packet) } : change));
    await tab.run(async (changes) => {
      // In one transaction, and in one for each change.
      for (const name of ["at once", "one by one"]) {
        const store = await globalThis.IndexedDbStore.open(name);
        store.load();
        for (const change of changes) {
          store.record(change.packet === undefined ? change : { ...change, packet: Uint8Array.from(change.packet) });
          if (name === "one by one") await store.sync();
        }
        await store.close();
      }
    }, changes);
    assert.deepEqual(await sessionIn(tab, "at once"), plain(SESSION));
    assert.deepEqual(await sessionIn(tab, "one by one"), plain(SESSION));
    assert.deepEqual(await sessionIn(tab, "another"), { clientId: null, outgoing: [], received: [] });
  } finally {
    await tab.close();
  }
});

test("one tab at a time can open a session, and its end releases it", async () => {
  const [first, second] = [await open(), await open()];
  try {
    const attempt = () => globalThis.IndexedDbStore.open("shared").then(() => "open", ({ code }) => code);
    assert.equal(await first.run(attempt), "open");
    assert.equal(await second.run(attempt), "store_in_use");
    await first.close();
    let found;
    // The browser releases locks a moment later.
    for (let n = 0; n < 1_000 && found !== "open"; n++) found = await second.run(attempt);
    assert.equal(found, "open");
  } finally {
    await second.close();
  }
});

test("nothing is lost and QoS 2 arrives once, while tabs are closed and the broker is killed", async () => {
  const LIVES = 6;
  const broker = await MortalBroker.start(join(folder, "data"), ["ws://127.0.0.1:0/mqtt", "127.0.0.1:0"]);
  const peer = await connect(broker.urls[1], { clientId: "witness", sessionExpiryS: 600, reconnect: FAST });
  const arrived = [];
  let last;
  const complete = new Promise((resolve) => (last = resolve));
  try {
    await peer.subscribe("numbers", { qos: 2 }, (message) => {
      arrived.push(message.text());
      if (message.text() === "last") last();
    }).ready;
    const safe = new Set();
    for (let life = 0; life < LIVES; life++) {
      const tab = await open();
      await tab.run(
        async ({ url, life, reconnect }) => {
          const { tautwire, IndexedDbStore, tell } = globalThis;
          let store;
          while (store === undefined) store = await IndexedDbStore.open("publisher").catch(() => undefined);
          const client = tautwire.createClient(url, { clientId: "page", store, reconnect });
          globalThis.client = client;
          for (let n = 0; n < 200; n++) {
            const name = `${life} ${n}`;
            void client.publish("numbers", name, { qos: 1 + (n % 2) }).then(() => tell(`acknowledged ${name}`));
            void store.sync().then(() => tell(name));
            if (n % 7 === 0) await new Promise((resolve) => globalThis.setTimeout(resolve));
          }
        },
        { url: broker.url, life, reconnect: FAST },
      );
      await tab.told(`${life} ${life * 30}`);
      if (life % 2 === 1) {
        await broker.kill();
        // The tab outlives the broker.
        await tab.told(`acknowledged ${life} 199`);
      }
      await tab.close();
      for (const line of tab.lines) safe.add(line.replace("acknowledged ", ""));
    }
    const tab = await open();
    const left = await tab.run(async (url) => {
      const { tautwire, IndexedDbStore } = globalThis;
      let store;
      while (store === undefined) store = await IndexedDbStore.open("publisher").catch(() => undefined);
      const client = tautwire.createClient(url, { clientId: "page", store });
      await client.publish("numbers", "last", { qos: 2 });
      await client.close();
      return client.pending;
    }, broker.url);
    await complete;
    await tab.close();
    assert.deepEqual(left, { queued: 0, inflight: 0 });
    assert.deepEqual([...safe].filter((name) => !arrived.includes(name)), []);
    // Odd numbers have QoS 2.
    const twice = arrived.filter((name, at) => /[13579]$/.test(name) && arrived.indexOf(name) !== at);
    assert.deepEqual(twice, []);
    assert.ok(safe.size > LIVES * 30);
  } finally {
    await peer.close({ drainMs: 0 });
    await broker.stop();
  }
});
