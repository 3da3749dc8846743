// The client in a real browser, with the real broker.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { connect } from "@tautwire/client";
import { RealBroker } from "../dist/test/support/real-broker.js";
import { within } from "../dist/test/support/waiting.js";
import { startChromium } from "./chromium.mjs";
import { startSite } from "./site.mjs";
import { Tab } from "./tab.mjs";

/** The errors that the browser itself logs when a connection fails. */
const CONNECTION_FAILED = /^console: WebSocket connection to \S+ failed/;

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

/** Runs the body with a broker and a tab. Fails if the page has logged an unexpected error. */
function inTab(title, body) {
  test(title, async () => {
    const context = new Context();
    try {
      context.broker = await RealBroker.start(["ws://127.0.0.1:0/mqtt", "127.0.0.1:0"]);
      context.tab = await Tab.open(browser.context, site.url);
      await body(context);
      assert.deepEqual(
        context.tab.faults.filter((fault) => !(context.isCut && CONNECTION_FAILED.test(fault))),
        [],
      );
    } finally {
      await context.stop();
    }
  });
}

class Context {
  /** Whether the test makes the connection of the page fail. */
  isCut = false;
  #peers = [];

  /** A client in Node.js, connected to the same broker. */
  async peer() {
    const peer = await connect(this.broker.urls[1]);
    this.#peers.push(peer);
    return peer;
  }

  /** Stops the broker. The returned function starts it again at the same address. */
  async stopBroker(signal) {
    this.isCut = true;
    const listen = [`ws://127.0.0.1:${this.broker.port}/mqtt`, "127.0.0.1:0"];
    await this.broker.stop(signal);
    this.broker = null;
    return async () => {
      this.broker = await RealBroker.start(listen);
    };
  }

  async stop() {
    await Promise.all(this.#peers.map((peer) => peer.close({ drainMs: 0 })));
    await this.tab?.close();
    await this.broker?.stop();
  }
}

/** In the page: creates a client under `globalThis.client` that reports its events. */
async function connectInPage({ url, options = {}, filter = "page/#" }) {
  const { tautwire, tell } = globalThis;
  const diagnostics = (event) => {
    if (event.type === "packet") tell(`${event.direction} ${event.packet.type}`);
  };
  const client = await tautwire.connect(url, { diagnostics, ...options });
  globalThis.client = client;
  for (const name of ["connected", "disconnected", "closed"]) client.on(name, () => tell(name));
  client.on("error", (error) => tell(`error ${error.message}`));
  const handler = (message) => tell(`${message.topic} ${message.qos} ${message.text()}`);
  const granted = await client.subscribe(filter, { qos: 2 }, handler).ready;
  tell(`subscribed with QoS ${granted}`);
}

/** In the page: closes its client and reports the result. */
async function closeInPage() {
  const { client } = globalThis;
  const { connections } = client.counters;
  await client.close();
  return { connections, state: client.state };
}

inTab("a page publishes and receives with each QoS, and each message once", async (context) => {
  const { tab, broker } = context;
  const node = await context.peer();
  const heard = node.subscribe("page/#", { qos: 2 })[Symbol.asyncIterator]();
  await tab.run(connectInPage, { url: broker.url });
  await tab.run(async () => {
    for (const qos of [0, 1, 2]) await globalThis.client.publish("page/a", `QoS ${qos}`, { qos });
  });
  for (const qos of [0, 1, 2]) {
    const { value: message } = await within(heard.next(), "message from the page");
    assert.deepEqual([message.topic, message.qos, message.text()], ["page/a", qos, `QoS ${qos}`]);
  }
  await node.publish("page/b", "from Node.js", { qos: 2 });
  await tab.told("page/b 2 from Node.js");
  const messages = tab.lines.filter((line) => line.startsWith("page/"));
  assert.deepEqual(messages, ["page/a 0 QoS 0", "page/a 1 QoS 1", "page/a 2 QoS 2", "page/b 2 from Node.js"]);
  assert.deepEqual(await tab.run(closeInPage), { connections: 1, state: "closed" });
});

inTab("payloads of a megabyte and none at all go both ways as they are", async ({ tab, broker }) => {
  await tab.run(connectInPage, { url: broker.url, filter: "none" });
  const result = await tab.run(async () => {
    const { client } = globalThis;
    const large = new Uint8Array(1024 * 1024).map((_, at) => at * 7);
    const loop = client.subscribe("bytes/#", { qos: 2 });
    await loop.ready;
    await Promise.all([client.publish("bytes/a", large, { qos: 2 }), client.publish("bytes/b", "", { qos: 1 })]);
    const lengths = [];
    for await (const { payload } of loop) {
      lengths.push(payload.length);
      if (lengths.length === 1 && !payload.every((byte, at) => byte === large[at])) throw new Error("other bytes");
      if (lengths.length === 2) break;
    }
    return lengths;
  });
  assert.deepEqual(result, [1024 * 1024, 0]);
});

for (const [signal, how] of [
  ["SIGTERM", "a broker that says goodbye"],
  ["SIGKILL", "a broker that dies"],
]) {
  inTab(`${how} and comes back has its page back, with its subscription and what it published meanwhile`, async (context) => {
    const { tab, broker } = context;
    const options = { reconnect: { minDelayMs: 20, maxDelayMs: 100 } };
    await tab.run(connectInPage, { url: broker.url, options });
    const startBroker = await context.stopBroker(signal);
    await tab.told("disconnected");
    const waiting = tab.run(() => globalThis.client.publish("page/c", "waited", { qos: 2 }));
    await startBroker();
    await within(waiting, "publish after the restart");
    await tab.told("page/c 2 waited");
    const node = await context.peer();
    await node.publish("page/d", "as before", { qos: 1 });
    await tab.told("page/d 1 as before");
    const messages = tab.lines.filter((line) => line.startsWith("page/"));
    assert.deepEqual(messages, ["page/c 2 waited", "page/d 1 as before"]);
    assert.deepEqual(await tab.run(closeInPage), { connections: 2, state: "closed" });
  });
}

inTab("a tab in the background keeps its connection with slow timers", async (context) => {
  const { tab, broker } = context;
  // The broker waits for 3 s. Its messages do not count: only the page's own timer, which fires once a second, keeps it connected.
  await tab.run(connectInPage, { url: broker.url, options: { keepAliveS: 2 } });
  await tab.hide();
  await tab.told("received pingresp", 3, 20_000);
  const node = await context.peer();
  await node.publish("page/e", "still there", { qos: 1 });
  await tab.told("page/e 1 still there");
  assert.equal(await tab.run(() => globalThis.document.visibilityState), "hidden");
  assert.deepEqual(await tab.run(closeInPage), { connections: 1, state: "closed" });
});

for (const [title, sleep, wake] of [
  ["a tab that the browser froze", ({ tab }) => tab.setFrozen(true), ({ tab }) => tab.setFrozen(false)],
  ["a machine that slept", () => browser.setAsleep(true), () => browser.setAsleep(false)],
]) {
  inTab(`${title} until the broker gave it up has missed nothing`, async (context) => {
    const { tab, broker } = context;
    const node = await context.peer();
    const wills = node.subscribe("will")[Symbol.asyncIterator]();
    const options = {
      keepAliveS: 1,
      sessionExpiryS: 60,
      will: { topic: "will", payload: "gone" },
      reconnect: { minDelayMs: 20, maxDelayMs: 100 },
    };
    await tab.run(connectInPage, { url: broker.url, options });
    await tab.hide();
    context.isCut = true;
    await sleep(context);
    await within(wills.next(), "will of the page");
    for (const text of ["first", "second"]) await node.publish("page/f", text, { qos: 1 });
    assert.ok(!tab.lines.includes("disconnected"), "the page goes on");
    await wake(context);
    await tab.show();
    await tab.told("page/f 1 second");
    const messages = tab.lines.filter((line) => line.startsWith("page/"));
    assert.deepEqual(messages, ["page/f 1 first", "page/f 1 second"]);
    assert.deepEqual(await tab.run(closeInPage), { connections: 2, state: "closed" });
  });
}

inTab("a tab that is shown again connects at once, however long it was going to wait", async (context) => {
  const { tab, broker } = context;
  await tab.run(connectInPage, { url: broker.url, options: { reconnect: { minDelayMs: 3_600_000, maxDelayMs: 3_600_000 } } });
  await tab.hide();
  const startBroker = await context.stopBroker("SIGKILL");
  await tab.told("disconnected");
  await startBroker();
  await tab.show();
  await tab.told("connected");
  assert.deepEqual(await tab.run(closeInPage), { connections: 2, state: "closed" });
});

inTab("a server that is not there is an error that can be caught, and no fault of the page", async (context) => {
  const { tab, broker } = context;
  const { url } = broker;
  await context.stopBroker("SIGKILL");
  const code = await tab.run(async (url) => {
    const { connect, createClient } = globalThis.tautwire;
    // Drops the references to its promises.
    const abandoned = createClient(url);
    void abandoned.publish("t", "x", { qos: 1 });
    void abandoned.subscribe("t").ready;
    void abandoned.connected();
    await abandoned.close();
    return connect(url).then(
      () => "connected",
      (error) => error.code,
    );
  }, url);
  assert.equal(code, "unreachable");
});

inTab("a worker, which has neither window nor document, works as a page does", async ({ tab, broker }) => {
  const told = await tab.run(
    (url) =>
      new Promise((resolve, reject) => {
        const policy = globalThis.trustedTypes.createPolicy("worker", { createScriptURL: (path) => path });
        const worker = new globalThis.Worker(policy.createScriptURL("/worker.js"), { type: "module" });
        const lines = [];
        worker.onerror = ({ message }) => reject(new Error(message));
        worker.onmessage = ({ data }) => {
          lines.push(data);
          if (data === "closed") resolve(lines);
        };
        worker.postMessage(url);
      }),
    broker.url,
  );
  assert.deepEqual(told, ["worker/a 2 from a worker", "closed"]);
});
