// Sends requests to the thermostat: node ask.mjs

import { connect, json, MqttError, request } from "@tautwire/client";
import { planCodec, url } from "./protocol.mjs";

const client = await connect(url);

/**
 * @param {string} room
 * @param {unknown} target
 */
async function set(room, target) {
  try {
    const { value } = await request(client, `thermostats/${room}/set`, target, {
      codec: json(),
      responseCodec: planCodec,
      timeoutMs: 5_000,
    });
    return `${room}: ${value.celsius} °C in ${value.minutes} minutes`;
  } catch (error) {
    if (!(error instanceof MqttError)) throw error;
    return `${room}: ${error.code}: ${error.detail}`;
  }
}

// Any number at a time: each response is matched to its request.
const answers = await Promise.all([
  set("kitchen", { celsius: 21 }),
  set("study", { celsius: 19 }),
  set("study", { celsius: 90 }),
  set("attic", { celsius: 20 }),
  set("kitchen", "warm"),
]);
console.log(answers.join("\n"));

// There is no responder, which is reported at once.
try {
  await request(client, "nobody/there", "hello?");
} catch (error) {
  console.log(error instanceof MqttError ? error.message : error);
}
await client.close();
