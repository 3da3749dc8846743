// Publishes and receives through a broker, at each given URL, in both protocol versions.

import assert from "node:assert/strict";
import process from "node:process";
import { connect } from "@tautwire/client";

for (const url of process.argv.slice(2)) {
  for (const protocolVersion of [5, 4]) {
    const client = await connect(url, { protocolVersion });
    const messages = client.subscribe("runtimes/+/celsius", { qos: 2 });
    await messages.ready;
    for (const qos of [0, 1, 2]) await client.publish(`runtimes/${qos}/celsius`, `${qos}`, { qos });
    const received = [];
    for await (const message of messages) {
      received.push([message.topic, message.text(), message.qos]);
      if (received.length === 3) break;
    }
    assert.deepEqual(received, [0, 1, 2].map((qos) => [`runtimes/${qos}/celsius`, `${qos}`, qos]));
    await client.close();
    console.log(`  client: MQTT ${protocolVersion === 4 ? "3.1.1" : "5.0"} over ${url.split(":")[0]}`);
  }
}
