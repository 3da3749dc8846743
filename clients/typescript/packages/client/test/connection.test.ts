import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type ClientOptions, type DiagnosticEvent } from "@tautwire/client";
import { connectOn } from "#esm/client/open.js";
import { connect, createClient } from "./support/clients.js";
import { FakeBroker, obedient } from "./support/fake-broker.js";
import { FakeClock } from "./support/fake-clock.js";
import { event, failure, settled, within } from "./support/waiting.js";

const NOBODY = "mqtt://broker.example";

function setup(options: ClientOptions = {}) {
  const broker = new FakeBroker();
  const clock = new FakeClock();
  const client = createClient(NOBODY, { transport: broker.transport, clock, ...options });
  return { broker, clock, client };
}

describe("reconnecting", () => {
  test("delays double up to the maximum, with jitter", async () => {
    const { broker, clock, client } = setup({ reconnect: { minDelayMs: 100, maxDelayMs: 1_000 } });
    broker.onConnection = () => false;
    const delays: number[] = [];
    client.on("reconnecting", ({ delayMs }) => delays.push(delayMs));
    for (let n = 0; n < 8; n++) await clock.advance(delays.at(-1) ?? 0);
    assert.ok(delays.length >= 8);
    for (const [n, delay] of delays.entries()) {
      const bound = Math.min(1_000, 100 * 2 ** n);
      assert.ok(delay >= bound / 2 && delay <= bound, `${delay} of ${bound}`);
    }
    await client.close();
    assert.equal(clock.pending, 0);
  });

  test("a stable connection resets the delay, a short one does not", async () => {
    const { broker, clock, client } = setup({ reconnect: { minDelayMs: 100, maxDelayMs: 100_000 } });
    const delays: number[] = [];
    client.on("reconnecting", ({ delayMs }) => delays.push(delayMs));
    for (let n = 0; n < 3; n++) {
      (await broker.accept()).drop();
      await settled();
      await clock.advance(delays.at(-1)!);
    }
    assert.ok(delays[2]! >= 200);
    const link = await broker.accept();
    await settled();
    await clock.advance(11_000);
    link.drop();
    await settled();
    assert.ok(delays[3]! <= 100);
    await client.close();
  });

  test("the client is never stuck: no response, no CONNACK, a truncated CONNACK, a refusal, a closed connection", async () => {
    const { broker, clock, client } = setup({ reconnect: { minDelayMs: 1, maxDelayMs: 1 }, connectTimeoutMs: 5_000 });
    const errors: string[] = [];
    client.on("reconnecting", ({ error }) => errors.push(error.code));
    let script = 0;
    broker.onConnection = (connection) => {
      switch (script++) {
        case 0:
          return false;
        case 1:
          // Neither opens nor fails.
          connection.open = () => undefined;
          return true;
        case 2:
          connection.onPacket = () => undefined;
          return true;
        case 3:
          connection.onPacket = () => {
            connection.giveBytes(Uint8Array.of(0x20, 0x03, 0x00));
          };
          return true;
        case 4:
          connection.onPacket = () => {
            connection.give({ type: "connack", reason: 0x89 });
          };
          return true;
        case 5:
          connection.onPacket = () => {
            connection.drop();
          };
          return true;
        case 6:
          connection.onPacket = () => {
            connection.giveBytes(Uint8Array.of(0x00, 0x00));
          };
          return true;
        default:
          obedient(connection);
          return true;
      }
    };
    for (let n = 0; n < 20; n++) await clock.advance(2_000);
    assert.equal(client.state, "connected");
    assert.deepEqual(errors, [
      "unreachable",
      "connect_timeout",
      "connect_timeout",
      "connect_timeout",
      "connection_refused",
      "handshake_failed",
      "handshake_failed",
    ]);
    await client.close();
    assert.equal(clock.pending, 0);
    assert.equal(broker.open, 0);
  });

  for (const [name, packet, code] of [
    ["session taken over", { type: "disconnect", reason: 0x8e }, "session_taken_over"],
    ["server moved", { type: "disconnect", reason: 0x9d, properties: { serverReference: "b.example" } }, "redirected"],
    ["not authorised", { type: "disconnect", reason: 0x87 }, "server_disconnected"],
  ] as const) {
    test(`${name}: the client ends and says why`, async () => {
      const { broker, client } = setup();
      const link = await broker.accept();
      await client.connected();
      const closed = event<{ error: { code: string; serverReference?: string | undefined } | null }>((l) =>
        client.on("closed", l),
      );
      link.give(packet);
      const { error } = await closed;
      assert.equal(error?.code, code);
      if (code === "redirected") assert.equal(error.serverReference, "b.example");
      assert.equal((await failure(client.publish("t", "x"))).code, "closed");
      await client.close();
    });
  }

  test("a session that is present despite clean start is a protocol error", async () => {
    const { broker, client } = setup();
    const reconnecting = event<{ error: { code: string } }>((l) => client.on("reconnecting", l));
    await broker.accept({ sessionPresent: true });
    assert.equal((await reconnecting).error.code, "protocol_error");
    await client.close();
  });

  test("shouldRetry overrides the client, and maxAttempts ends it", async () => {
    const seen: [string, boolean][] = [];
    const { broker, clock, client } = setup({
      reconnect: {
        minDelayMs: 1,
        maxDelayMs: 1,
        maxAttempts: 2,
        shouldRetry: (error, isPermanent) => {
          seen.push([error.code, isPermanent]);
          return true;
        },
      },
    });
    broker.onConnection = (connection) => {
      connection.onPacket = () => {
        connection.give({ type: "connack", reason: 0x86 });
      };
      return true;
    };
    for (let n = 0; n < 5; n++) await clock.advance(10);
    assert.equal(client.state, "closed");
    assert.deepEqual(seen, Array(3).fill(["connection_refused", true]));
  });

  test("reconnect: false ends the client with its connection", async () => {
    const { broker, client } = setup({ reconnect: false });
    const link = await broker.accept();
    await client.connected();
    link.drop();
    await settled();
    assert.equal(client.state, "closed");
  });

  test("connect() rejects when the first attempt fails, and leaves nothing behind", async () => {
    const broker = new FakeBroker();
    broker.onConnection = () => false;
    const clock = new FakeClock();
    const rejected = await failure(connect(NOBODY, { transport: broker.transport, clock }));
    assert.equal(rejected.code, "unreachable");
    assert.equal(clock.pending, 0);
    for (const url of ["http://x", "nonsense", "mqtt://user:secret@x"]) {
      const wrong = await failure(connect(url));
      assert.equal(wrong.code, "invalid_options");
      assert.ok(!wrong.message.includes("secret"));
    }
    assert.equal((await failure(connect(NOBODY, { keepAliveS: 70_000 }))).code, "invalid_options");
  });
});

describe("versions", () => {
  test("auto: after a 5.0 refusal in the format of 3.1.1, the client uses 3.1.1 at once", async () => {
    for (const refusal of ["v3", "v3 in pieces", "v5", "silence"]) {
      const { broker, client } = setup({ protocolVersion: "auto" });
      const first = await broker.next();
      const connect = await first.expect("connect");
      assert.equal(connect.protocolVersion, 5);
      if (refusal.startsWith("v3")) {
        if (refusal === "v3 in pieces") first.pieceBytes = 1;
        first.giveBytes(Uint8Array.of(0x20, 2, 0, 1));
      }
      else if (refusal === "v5") first.give({ type: "connack", reason: 0x84 });
      else first.drop();
      const second = await broker.next();
      assert.equal((await second.accept()).protocolVersion, 4);
      await client.connected();
      assert.equal(client.protocolVersion, 4);
      await client.close();
    }
  });

  test("5 alone: the error says what to do", async () => {
    const { broker, client } = setup();
    const link = await broker.next();
    await link.expect("connect");
    link.giveBytes(Uint8Array.of(0x20, 2, 0, 1));
    assert.equal((await failure(client.connected())).code, "unsupported_protocol_version");
    assert.equal(client.state, "closed");
  });

  test("a wrong password in the format of 3.1.1 does not change the version", async () => {
    const { broker, client } = setup({ protocolVersion: "auto" });
    const link = await broker.next();
    await link.expect("connect");
    link.pieceBytes = 2;
    link.giveBytes(Uint8Array.of(0x20, 2, 0, 4));
    const error = await failure(client.connected());
    assert.deepEqual([error.code, error.reason], ["connection_refused", 0x86]);
  });
});

describe("keep alive", () => {
  test("sends PINGREQ when idle, and drops the connection without a PINGRESP", async () => {
    const { broker, clock, client } = setup({ keepAliveS: 60, pingTimeoutMs: 5_000 });
    const link = await broker.accept();
    await client.connected();
    await clock.advance(26_000);
    await link.fence();
    await clock.advance(28_000);
    await link.expect("pingreq");
    link.give({ type: "pingresp" });
    await settled();
    await clock.advance(28_000);
    await link.expect("pingreq");
    const lost = event<{ error: { code: string } }>((l) => client.on("disconnected", l));
    await clock.advance(5_500);
    assert.equal((await lost).error.code, "keep_alive_timeout");
    await client.close();
  });

  test("a client that only sends detects a dead server", async () => {
    const { broker, clock, client } = setup({ keepAliveS: 60, pingTimeoutMs: 5_000 });
    await broker.accept();
    await client.connected();
    const lost = event<{ error: { code: string } }>((l) => client.on("disconnected", l));
    for (let n = 0; n < 60 && client.state === "connected"; n++) {
      client.send("t", "x");
      await clock.advance(1_000);
    }
    assert.equal((await lost).error.code, "keep_alive_timeout");
    await client.close();
  });

  test("with a keep alive shorter than the ping timeout, PINGREQ is always sent in time", async () => {
    const { broker, clock, client } = setup({ keepAliveS: 2, pingTimeoutMs: 10_000 });
    const link = await broker.accept();
    await client.connected();
    let last = clock.time;
    link.onPacket = (packet) => {
      assert.ok(clock.time - last <= 2_000, `silent for ${clock.time - last} ms`);
      last = clock.time;
      if (packet.type === "pingreq") link.give({ type: "pingresp" });
    };
    for (let n = 0; n < 60; n++) await clock.advance(500);
    assert.ok(clock.time - last <= 2_000);
    assert.equal(client.counters.connections, 1);
    await client.close();
  });

  test("0 disables PINGREQ", async () => {
    const { broker, clock, client } = setup({ keepAliveS: 0 });
    const link = await broker.accept();
    await client.connected();
    await clock.advance(10_000_000);
    await link.fence();
    await client.close();
  });

  test("a tab whose timers fire once a minute stays connected with the default keep alive", async () => {
    const { broker, clock, client } = setup();
    clock.granularityMs = 60_000;
    broker.onConnection = () => true;
    const link = await broker.accept();
    await client.connected();
    let last = clock.time;
    link.onPacket = (packet) => {
      // Like a server: close the connection after one and a half times the keep alive without a packet [MQTT-3.1.2-22].
      assert.ok(clock.time - last <= 90_000, `silent for ${clock.time - last} ms`);
      last = clock.time;
      if (packet.type === "pingreq") link.give({ type: "pingresp" });
    };
    await clock.advance(3_600_000);
    // It may also send something shortly after a timer has fired.
    for (let n = 0; n < 60; n++) {
      await clock.advance(20_000);
      client.send("t", "x");
      await clock.advance(100_000);
    }
    assert.equal(client.state, "connected");
    assert.equal(client.counters.connections, 1);
    assert.ok(clock.time - last <= 90_000);
    await client.close();
  });

  test("if timers do not fire, arriving bytes make the client check the clock", async () => {
    const { broker, clock, client } = setup({ keepAliveS: 60 });
    const link = await broker.accept();
    await client.connected();
    clock.time += 50_000;
    link.give({ type: "publish", topic: "t" });
    await settled();
    await link.expect("pingreq");
    link.give({ type: "pingresp" });
    await client.close();
  });

  test("after a suspend, the client pings once more before it drops the connection", async () => {
    const { broker, clock, client } = setup({ keepAliveS: 60, pingTimeoutMs: 5_000 });
    const link = await broker.accept();
    await client.connected();
    await clock.advance(28_000);
    await link.expect("pingreq");
    // The PINGRESP is unread in the socket while the machine is suspended.
    await clock.sleep(3_600_000);
    assert.equal(client.state, "connected");
    await link.expect("pingreq");
    link.give({ type: "pingresp" });
    await settled();
    await clock.advance(10_000);
    assert.equal(client.state, "connected");
    // The server no longer answers.
    await clock.sleep(3_600_000);
    const lost = event<{ error: { code: string } }>((l) => client.on("disconnected", l));
    await clock.advance(6_000);
    assert.equal((await lost).error.code, "keep_alive_timeout");
    await client.close();
  });

  test("tolerates a clock that is set back", async () => {
    const { broker, clock, client } = setup({ keepAliveS: 60 });
    const link = await broker.accept();
    await client.connected();
    await clock.advance(10_000);
    clock.time -= 86_400_000;
    link.give({ type: "publish", topic: "t" });
    await settled();
    await clock.advance(30_000);
    assert.equal(link.received[0]?.type, "pingreq");
    await client.close();
  });
});

test("a page that becomes visible or online reconnects at once", async () => {
  const broker = new FakeBroker();
  const clock = new FakeClock();
  let wake = (): void => undefined;
  let isListening = true;
  const open = connectOn({
    transports: { "ws:": broker.transport },
    defer: (callback) => {
      queueMicrotask(callback);
    },
    onWake: (callback) => {
      wake = callback;
      return () => {
        isListening = false;
      };
    },
  });
  const connecting = open("ws://x", { clock, reconnect: { minDelayMs: 20_000, maxDelayMs: 20_000 } });
  const link = await broker.accept();
  const client = await connecting;
  link.drop();
  await settled();
  assert.equal(client.state, "waiting");
  wake();
  await broker.accept();
  await client.connected();
  await client.close();
  assert.equal(isListening, false);
});

describe("diagnostics and events", () => {
  test("diagnostics get summaries of packets, states and attempts, without payloads and passwords", async () => {
    const events: DiagnosticEvent[] = [];
    const { broker, client } = setup({
      password: "pa55word",
      userName: "someone",
      diagnostics: (each) => {
        events.push(each);
        throw new Error("diagnostics that fail break nothing");
      },
    });
    const link = await broker.accept();
    await client.connected();
    await client.publish("t", "p4yload");
    await link.expect("publish");
    const closing = client.close();
    await closing;
    const all = JSON.stringify(events);
    assert.ok(!all.includes("pa55word") && !all.includes("p4yload"));
    const packets = events.flatMap((each) => (each.type === "packet" ? [`${each.direction} ${each.packet.type}`] : []));
    assert.deepEqual(packets, ["sent connect", "received connack", "sent publish", "sent disconnect"]);
    const states = events.flatMap((each) => (each.type === "state" ? [each.to] : []));
    assert.deepEqual(states, ["connecting", "connected", "closing", "closed"]);
  });

  test("listeners that throw are reported, and do not break the client", async () => {
    const { broker, client } = setup();
    const errors: unknown[] = [];
    client.on("connected", () => {
      throw new Error("mine");
    });
    const off = client.on("error", (error) => errors.push(error.code));
    const link = await broker.accept();
    await client.connected();
    await settled();
    assert.deepEqual(errors, ["callback_failed"]);
    off();
    link.give({ type: "publish", topic: "t" });
    await settled();
    assert.equal(client.counters.unhandled, 1);
    await client.close();
  });
});

describe("closing", () => {
  test("waits for pending messages, at most for drainMs", async () => {
    const { broker, clock, client } = setup();
    const link = await broker.accept();
    await client.connected();
    const published = client.publish("t", "x", { qos: 1 });
    const { packetId } = await link.expect("publish");
    const closing = client.close();
    await settled();
    assert.equal(client.state, "closing");
    assert.equal((await failure(client.publish("t", "late"))).code, "closed");
    link.give({ type: "puback", packetId: packetId! });
    await published;
    await closing;
    await link.expect("disconnect");

    const second = setup();
    await second.broker.accept();
    await second.client.connected();
    const lost = second.client.publish("t", "x", { qos: 1 });
    const ending = second.client.close({ drainMs: 3_000 });
    await second.clock.advance(3_000);
    await ending;
    assert.equal((await failure(lost)).code, "closed");
    assert.equal(clock.pending + second.clock.pending, 0);
  });

  test("a server that does not close its side does not block it", async () => {
    const { broker, clock, client } = setup();
    const link = await broker.accept();
    await client.connected();
    link.end = () => undefined;
    const closing = client.close();
    await clock.advance(1_000);
    await within(closing, "end");
    assert.equal(link.isEnded, true);
    assert.equal(clock.pending, 0);
  });

  test("twice, while connecting, while waiting, by a signal", async () => {
    const { client } = setup();
    await Promise.all([client.close(), client.close()]);
    await client.close();
    const waiting = setup();
    waiting.broker.onConnection = () => false;
    await settled();
    assert.equal(waiting.client.state, "waiting");
    await waiting.client.close();
    assert.equal(waiting.clock.pending, 0);

    const abort = new AbortController();
    const third = setup({ signal: abort.signal });
    await third.broker.accept();
    await third.client.connected();
    const lost = third.client.publish("t", "x", { qos: 2 });
    abort.abort();
    assert.equal(third.client.state, "closed");
    assert.equal((await failure(lost)).code, "closed");
    const already = setup({ signal: AbortSignal.abort() });
    assert.equal(already.client.state, "closed");
    assert.equal((await failure(already.client.connected())).code, "canceled");
  });

  test("await using closes the client", async () => {
    const { broker, client } = setup();
    await broker.accept();
    await client.connected();
    const dispose = Object.getOwnPropertySymbols(Object.getPrototypeOf(client)).find(
      (symbol) => symbol === (Symbol as { asyncDispose?: symbol }).asyncDispose,
    );
    assert.ok(dispose !== undefined);
    await (client as unknown as Record<symbol, () => Promise<void>>)[dispose]!();
    assert.equal(client.state, "closed");
  });
});
