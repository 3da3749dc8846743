// A sensor that publishes a reading a second, as MessagePack: node sensor.mjs [ID]
// TAUTWIRE_URL is the address of the broker.

import { createClient, text, topic } from "@tautwire/client";
import { msgpack } from "@tautwire/client/msgpack";

/** @typedef {{ celsius: number, humidity: number, at: Date }} Reading */

const INTERVAL_MS = 1_000;
const url = process.env["TAUTWIRE_URL"] ?? "mqtt://127.0.0.1:1883";
const id = process.argv[2] ?? "greenhouse";

/** @type {import("@tautwire/client").PayloadCodec<Reading>} */
const readingCodec = msgpack();
const reading = topic("sensors/{id}/reading", readingCodec);
const status = topic("sensors/{id}/status", text);

// `createClient` does not wait for the broker, so the sensor can start first.
const client = createClient(url, {
  // Half a day of readings wait for an unavailable broker; beyond that the oldest are dropped.
  queue: { maxMessages: 43_200, policy: "drop-oldest" },
  // The broker publishes it when the sensor disconnects without DISCONNECT.
  will: { topic: status.name({ id }), payload: "offline", qos: 1, retain: true },
  keepAliveS: 30,
});
client.on("connected", () => {
  console.log(`connected to ${url}`);
  void client.publish(status, { id }, "online", { qos: 1, retain: true });
});
client.on("reconnecting", ({ delayMs, error }) => console.log(`${error.message}; next attempt in ${delayMs} ms`));
client.on("closed", ({ error }) => {
  if (error !== null) console.error(error.message);
  process.exitCode = error === null ? 0 : 1;
  clearInterval(timer);
});

const timer = setInterval(() => {
  const value = measure(new Date());
  client.publish(reading, { id }, value, { qos: 1 }).then(
    () => console.log(`${id}: ${value.celsius} °C, ${value.humidity} %`),
    (error) => console.error(`not published: ${error.message}`),
  );
}, INTERVAL_MS);

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    void client.publish(status, { id }, "offline", { qos: 1, retain: true });
    // Waits until messages in flight are acknowledged.
    void client.close();
  });
}

/**
 * In place of a real sensor: slow waves, a little different for each name.
 *
 * @param {Date} at
 * @returns {Reading}
 */
function measure(at) {
  const phase = [...id].reduce((sum, letter) => sum + (letter.codePointAt(0) ?? 0), 0);
  const wave = Math.sin(at.getTime() / 9_000 + phase) + Math.sin(at.getTime() / 2_300 + 2 * phase) / 4;
  const round = (/** @type {number} */ value) => Math.round(value * 10) / 10;
  return { celsius: round(19 + (phase % 7) + 2 * wave), humidity: round(55 - 6 * wave), at };
}
