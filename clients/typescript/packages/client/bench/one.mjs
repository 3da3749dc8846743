// Measures one operation of one library in a separate process and writes JSON. The CPU time is that of this process, user and
// system, from the first message to the last.

import { LIBRARIES } from "./libraries.mjs";

const [name, task, portText, versionText, countText] = process.argv.slice(2);
const count = Number(countText);
const library = await LIBRARIES[name](Number(portText), Number(versionText));
const payload = new Uint8Array(16).fill(120);

const measure = async (run) => {
  const wall = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(cpu);
  return { cpu_s: (user + system) / 1e6, wall_s: Number(process.hrtime.bigint() - wall) / 1e9 };
};

const publishing = (way) => async () => {
  const run = async (messages) => {
    await library[way]("bench/greenhouse/temperature", payload, messages);
    await library.fence();
  };
  await run(count / 5);
  return measure(() => run(count));
};

/** An external feeder keeps a window of messages in flight: `bench/go` lets it send another part. */
const receiving = (way) => async () => {
  const PART = 10_000;
  let received = 0;
  let target = count / 5;
  let done = () => {};
  const onMessage = () => {
    received++;
    if (received % PART === 0) library.publish("bench/go", "");
    if (received === target) done();
  };
  await library[way]("bench/greenhouse/+", onMessage);
  process.send?.("ready");
  const until = (number) =>
    new Promise((resolve) => {
      target = number;
      done = resolve;
      if (received >= number) resolve();
    });
  await until(count / 5);
  return measure(() => until(count / 5 + count));
};

/** Feeds a receiver in another process. */
async function feeding() {
  const PART = 10_000;
  let credit = 4 * PART;
  let wake = () => {};
  await library.subscribe("bench/go", () => {
    credit += PART;
    wake();
  });
  const total = count / 5 + count + 4 * PART;
  process.send?.("ready");
  await new Promise((resolve) => process.once("message", resolve));
  for (let sent = 0; sent < total; sent += 1000) {
    while (credit < 1000) await new Promise((resolve) => (wake = resolve));
    credit -= 1000;
    await library.flood("bench/greenhouse/temperature", payload, 1000);
  }
  return new Promise(() => {});
}

/** One round trip at a time: to itself, or to another process that sends the message back. */
const pinging = (there, back) => async () => {
  let onPong = () => {};
  await library.subscribe(back, () => onPong());
  const run = (rounds) =>
    new Promise((resolve) => {
      let left = rounds;
      onPong = () => {
        if (--left === 0) resolve();
        else library.publish(there, payload);
      };
      library.publish(there, payload);
    });
  await run(count / 5);
  return measure(() => run(count));
};

async function echoing() {
  await library.subscribe("bench/there", (message) => library.publish("bench/back", message));
  process.send?.("ready");
  return new Promise(() => {});
}

const TASKS = {
  publish: publishing("flood"),
  publishAwaited: publishing("floodAwaited"),
  receive: receiving("subscribe"),
  iterate: receiving("iterate"),
  feed: feeding,
  pingSelf: pinging("bench/self", "bench/self"),
  pingPeer: pinging("bench/there", "bench/back"),
  echo: echoing,
};

process.on("disconnect", () => process.exit());
const result = await TASKS[task]();
process.send?.({ ...result, count, rss_mb: process.memoryUsage.rss() / 2 ** 20 });
await library.end();
process.exit();
