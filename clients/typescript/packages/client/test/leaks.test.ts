import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient } from "./support/clients.js";
import { FakeBroker, obedient } from "./support/fake-broker.js";
import { FakeClock } from "./support/fake-clock.js";

/** The bytes in use after a garbage collection, which the test exposes. */
function used(): number {
  globalThis.gc!();
  return process.memoryUsage().heapUsed;
}

/** The tolerance for compiled code and caches, which come and go. */
async function leastUsed(): Promise<number> {
  let least = Infinity;
  for (let n = 0; n < 8; n++) {
    await new Promise((resolve) => setImmediate(resolve));
    least = Math.min(least, used());
  }
  return least;
}

test("10,000 reconnections leave no timers, listeners, connections or memory behind", async () => {
  const { setFlagsFromString } = await import("node:v8");
  const { runInNewContext } = await import("node:vm");
  setFlagsFromString("--expose-gc");
  globalThis.gc = runInNewContext("gc") as NodeJS.GCFunction;

  const broker = new FakeBroker();
  const clock = new FakeClock();
  const signals = new AbortController();
  const client = createClient("mqtt://x", {
    transport: broker.transport,
    clock,
    signal: signals.signal,
    reconnect: { minDelayMs: 1, maxDelayMs: 1 },
  });
  broker.onConnection = (connection) => {
    obedient(connection, true);
    return true;
  };
  const messages: string[] = [];
  client.subscribe("t", { qos: 1 }, (message) => {
    messages.push(message.text());
  });
  const events = { connected: 0, disconnected: 0 };
  client.on("connected", () => events.connected++);
  client.on("disconnected", () => events.disconnected++);

  const reconnect = async (times: number) => {
    for (let n = 0; n < times; n++) {
      await client.connected();
      const link = broker.connections.pop()!;
      await client.publish("t", "x", { qos: n % 2 === 0 ? 1 : 2 });
      link.give({ type: "publish", topic: "t", qos: 1, packetId: 1, payload: "y" });
      await client.publish("t", "", { qos: 1 });
      link.drop();
      const { callback } = soonest(clock);
      callback();
      messages.length = 0;
    }
  };
  await reconnect(2_000);
  const timers = clock.pending;
  // A leak grows in every part, whereas the engine compiles code only in some.
  let least = Infinity;
  for (let part = 0; part < 4; part++) {
    const before = await leastUsed();
    await reconnect(2_000);
    least = Math.min(least, (await leastUsed()) - before);
  }
  assert.equal(client.counters.connections >= 10_000, true);
  assert.equal(clock.pending, timers);
  assert.equal(events.disconnected, 10_000);
  assert.equal(broker.connections.length <= 1, true);
  assert.ok(least < 50_000, `at least ${least} bytes more after each 2,000 reconnections`);
  await client.close();
  assert.equal(clock.pending, 0);
});

/** Removes the next timer and moves the clock to it. */
function soonest(clock: FakeClock): { callback: () => void } {
  const timers = (clock as unknown as { timers: Set<{ at: number; callback: () => void }> }).timers;
  assert.ok(timers.size <= 2, `${timers.size} timers`);
  const [first] = [...timers].sort((a, b) => a.at - b.at);
  timers.delete(first!);
  clock.time = Math.max(clock.time, first!.at);
  return first!;
}
