// Responds to requests to `thermostats/ROOM/set`: node thermostat.mjs

import { connect, respond, ResponseFailure } from "@tautwire/client";
import { planCodec, targetCodec, url } from "./protocol.mjs";

const MIN_CELSIUS = 5;
const MAX_CELSIUS = 30;
const MINUTES_PER_DEGREE = 10;
const ROOMS = new Map([
  ["kitchen", 18],
  ["study", 20],
]);

const client = await connect(url);
const options = { codec: targetCodec, responseCodec: planCodec };
const requests = respond(
  client,
  "thermostats/+/set",
  async ({ topic, value: { celsius } }) => {
    const room = topic.split("/")[1] ?? "";
    const present = ROOMS.get(room);
    // The requester receives the message of a ResponseFailure. Of any other error it learns only that there was one.
    if (present === undefined) throw new ResponseFailure(`there is no room ${room}`);
    if (celsius < MIN_CELSIUS || celsius > MAX_CELSIUS) {
      throw new ResponseFailure(`${celsius} °C is not from ${MIN_CELSIUS} to ${MAX_CELSIUS}`);
    }
    ROOMS.set(room, celsius);
    return { celsius, minutes: Math.abs(celsius - present) * MINUTES_PER_DEGREE };
  },
  options,
);
// Any other error of a responder is an event here, such as an invalid payload.
client.on("error", ({ cause }) => console.log(`failed: ${cause instanceof Error ? cause.message : cause}`));
await requests.ready;
console.log("ready");

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void client.close());
