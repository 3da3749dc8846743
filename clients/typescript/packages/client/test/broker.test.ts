// Tests with the broker of this repository, over every transport.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect as connectTcp, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, before, describe, test } from "node:test";
import { createServer as createTlsServer } from "node:tls";
import { json, request, respond, type Client } from "@tautwire/client";
import * as web from "@tautwire/client/web";
import { WebSocket } from "ws";
import { connect, createClient } from "./support/clients.js";
import { noBroker, RealBroker } from "./support/real-broker.js";
import { event, failure, within } from "./support/waiting.js";

const fixture = (name: string): string => readFileSync(new URL(`../../test/fixtures/${name}`, import.meta.url), "utf8");
const certificate = fixture("test-only-certificate.pem");
const key = fixture("test-only-key.pem");

const FAST = { minDelayMs: 10, maxDelayMs: 50 };

/** Listens on a port that the kernel chooses, and returns it. */
async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

function pipeTo(port: number): (socket: Socket) => void {
  return (socket) => {
    const upstream = connectTcp(port, "127.0.0.1");
    socket.pipe(upstream).pipe(socket);
    socket.on("error", () => upstream.destroy()).on("close", () => upstream.destroy());
    upstream.on("error", () => socket.destroy()).on("close", () => socket.destroy());
  };
}

/** Exercises a transport: publishing, subscribing, large payloads. */
async function exercise(client: Client): Promise<void> {
  const id = Math.random().toString(36).slice(2);
  const subscription = client.subscribe(`t/${id}/#`, { qos: 2 });
  assert.equal(await within(subscription.ready, "SUBACK"), 2);
  const big = new Uint8Array(300_000).map((_, n) => n * 31);
  for (const qos of [0, 1, 2] as const) {
    await within(client.publish(`t/${id}/small`, `QoS ${qos}`, { qos }), "acknowledgement");
    await within(client.publish(`t/${id}/big`, big.slice(), { qos }), "acknowledgement");
  }
  for (let n = 0; n < 500; n++) void client.publish(`t/${id}/n`, String(n));
  let count = 0;
  for await (const message of subscription) {
    if (count < 6) {
      assert.equal(message.qos, Math.floor(count / 2));
      if (count % 2 === 0) assert.equal(message.text(), `QoS ${message.qos}`);
      else assert.deepEqual(Buffer.from(message.payload), Buffer.from(big));
    } else {
      assert.equal(message.text(), String(count - 6));
    }
    if (++count === 506) break;
  }
}

describe("over every transport", { skip: noBroker }, () => {
  let broker: RealBroker;
  let secure: Server;
  let secureWebSocket: Server;
  let urls: Record<string, string>;
  const tls = { ca: certificate };

  before(async () => {
    broker = await RealBroker.start(["127.0.0.1:0", "ws://127.0.0.1:0/mqtt"]);
    const [tcp, ws] = broker.urls as [string, string];
    secure = createTlsServer({ key, cert: certificate }, pipeTo(Number(new URL(tcp).port)));
    secureWebSocket = createTlsServer({ key, cert: certificate }, pipeTo(Number(new URL(ws).port)));
    urls = {
      mqtt: tcp,
      ws,
      mqtts: `mqtts://localhost:${await listen(secure)}`,
      wss: `wss://localhost:${await listen(secureWebSocket)}/mqtt`,
    };
  });
  after(async () => {
    secure.close();
    secureWebSocket.close();
    await broker.stop();
  });

  for (const protocol of ["mqtt", "mqtts", "ws", "wss"]) {
    for (const protocolVersion of [5, 4] as const) {
      test(`${protocol}, version ${protocolVersion}`, async () => {
        const client = await connect(urls[protocol]!, { ...(["mqtts", "wss"].includes(protocol) && { tls }), protocolVersion });
        await exercise(client);
        client.cut();
        await within(client.connected(), "second connection");
        await exercise(client);
        await client.close();
      });
    }
  }

  test("the entry for browsers, on a WebSocket that is like theirs", async () => {
    const globals = globalThis as { WebSocket?: unknown };
    const native = globals.WebSocket;
    globals.WebSocket = WebSocket;
    try {
      const client = await web.connect(urls["ws"]!);
      await exercise(client);
      client.cut();
      await within(client.connected(), "second connection");
      await exercise(client);
      await client.close();
      const refused = await failure(web.connect("mqtt://127.0.0.1:1"));
      assert.equal(refused.code, "invalid_options");
      assert.equal((await failure(web.connect("ws://127.0.0.1:1"))).code, "unreachable");
    } finally {
      globals.WebSocket = native;
    }
  });

  test("TLS refuses an untrusted certificate, or one for another name", async () => {
    assert.equal((await failure(connect(urls["mqtts"]!))).code, "tls_self_signed");
    const named = { tls: { ca: certificate, servername: "other.example" } };
    assert.equal((await failure(connect(urls["mqtts"]!, named))).code, "tls_name_mismatch");
    const blind = await connect(urls["mqtts"]!, { tls: { rejectUnauthorized: false } });
    await blind.close();
  });

  test("20,000 messages through a queue of 100 arrive exactly once", async () => {
    const [sender, receiver] = await Promise.all([connect(urls["mqtt"]!), connect(urls["mqtt"]!)]);
    const subscription = receiver.subscribe("flood", { qos: 1, maxQueueMessages: 100 });
    await subscription.ready;
    const count = 20_000;
    const sending = (async () => {
      for (let n = 0; n < count; n++) {
        const sent = sender.publish("flood", String(n), { qos: 1 });
        if (n % 1_000 === 0) await sent;
      }
    })();
    const receiving = (async () => {
      let next = 0;
      for await (const message of subscription) {
        assert.equal(message.text(), String(next));
        if (++next === count) break;
      }
    })();
    await within(Promise.all([sending, receiving]), "all messages", 30_000);
  });
});

describe("failures of the broker", { skip: noBroker }, () => {
  test("after a restart the client reconnects and resubscribes, and no queued message is lost", async () => {
    const first = await RealBroker.start();
    const client = await connect(first.url, { reconnect: FAST });
    const loop = client.subscribe("t", { qos: 1 })[Symbol.asyncIterator]();
    await client.publish("t", "before", { qos: 1 });
    await loop.next();
    const disconnected = event((l) => client.on("disconnected", l));
    await first.stop();
    await disconnected;
    const waiting = client.publish("t", "meanwhile", { qos: 2 });
    const second = await RealBroker.start([`127.0.0.1:${first.port}`]);
    await within(client.connected(), "connection");
    await within(waiting, "acknowledgement");
    const next = await within(loop.next(), "message");
    assert.equal(next.done === true ? "" : next.value.text(), "meanwhile");
    await client.close();
    await second.stop();
  });

  test("a connection lost during QoS 2 exchanges delivers each message once", async () => {
    const broker = await RealBroker.start();
    const sockets = new Set<Socket>();
    const pipe = pipeTo(broker.port);
    const proxy = createServer((socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      pipe(socket);
    });
    const url = `mqtt://127.0.0.1:${await listen(proxy)}`;
    const [sender, receiver] = await Promise.all([
      connect(url, { reconnect: FAST, sessionExpiryS: 60 }),
      connect(url, { reconnect: FAST, sessionExpiryS: 60 }),
    ]);
    const got: number[] = [];
    const all = new Promise<void>((resolve) => {
      receiver.subscribe("once", { qos: 2 }, (message) => {
        if (got.push(Number(message.text())) === 3_000) resolve();
      });
    });
    const published: Promise<unknown>[] = [];
    for (let n = 0; n < 3_000; n++) {
      published.push(sender.publish("once", String(n), { qos: 2 }));
      if (n % 300 === 150) {
        await published[n - 100];
        for (const socket of sockets) socket.destroy();
      }
    }
    await within(Promise.all(published), "all PUBCOMP", 20_000);
    await within(all, "all messages", 20_000);
    assert.deepEqual(got, Array.from({ length: 3_000 }, (_, n) => n));
    assert.ok(sender.counters.connections > 3);
    await Promise.all([sender.close(), receiver.close()]);
    proxy.close();
    await broker.stop();
  });

  test("a client whose session is taken over ends with an error", async () => {
    const broker = await RealBroker.start();
    const one = await connect(broker.url, { clientId: "same" });
    const closed = event<{ error: { code: string } | null }>((l) => one.on("closed", l));
    const two = await connect(broker.url, { clientId: "same" });
    assert.equal((await closed).error?.code, "session_taken_over");
    await two.close();
    await broker.stop();
  });

  test("a session outlives the program: queued messages arrive if it subscribes before it is connected", async () => {
    const broker = await RealBroker.start();
    const options = { clientId: "durable", sessionExpiryS: 60 };
    const first = await connect(broker.url, options);
    await first.subscribe("jobs", { qos: 1 }).ready;
    await first.close();
    const other = await connect(broker.url);
    await other.publish("jobs", "one", { qos: 1 });
    const second = createClient(broker.url, { ...options, cleanStart: false });
    const loop = second.subscribe("jobs", { qos: 1 })[Symbol.asyncIterator]();
    const next = await within(loop.next(), "message");
    assert.equal(next.done === true ? "" : next.value.text(), "one");
    await broker.stop();
  });

  test("requests and responses", async () => {
    const broker = await RealBroker.start();
    const [asker, responder] = await Promise.all([connect(broker.url), connect(broker.url)]);
    const add = { codec: json<number[]>(), responseCodec: json<number>() };
    await respond(responder, "add", ({ value }) => value.reduce((a, b) => a + b, 0), add).ready;
    const sums = await Promise.all(
      Array.from({ length: 200 }, (_, n) => request(asker, "add", [n, n], { codec: json(), responseCodec: json<number>() })),
    );
    assert.deepEqual(sums.map((sum) => sum.value), Array.from({ length: 200 }, (_, n) => 2 * n));
    await broker.stop();
  });

  test("without a subscriber, the promise resolves with 0x10 at once", async () => {
    const server = createServer();
    const port = await listen(server);
    await new Promise((resolve) => server.close(resolve));
    for (const protocol of ["mqtt", "mqtts", "ws", "wss"]) {
      assert.equal((await failure(connect(`${protocol}://127.0.0.1:${port}`))).code, "unreachable");
    }
  });

  test("the will is published when the connection is cut, and not after close()", async () => {
    const broker = await RealBroker.start();
    const watcher = await connect(broker.url);
    const loop = watcher.subscribe("will")[Symbol.asyncIterator]();
    const will = { topic: "will", payload: "gone" };
    const quiet = await connect(broker.url, { will: { ...will, payload: "wrong" } });
    await quiet.close();
    const cut = await connect(broker.url, { will, reconnect: false, sessionExpiryS: 0 });
    cut.cut();
    const next = await within(loop.next(), "will");
    assert.equal(next.done === true ? "" : next.value.text(), "gone");
    await broker.stop();
  });
});
