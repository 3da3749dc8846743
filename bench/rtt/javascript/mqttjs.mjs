// MQTT.js, from where the interoperability tests install it.

import { once } from "node:events";
import { createRequire } from "node:module";

const mqtt = createRequire(new URL("../../../tests/interop/mqttjs/", import.meta.url))("mqtt");

export async function open(host, port, qos, filter, onPayload) {
  const client = mqtt.connect({ host, port, protocolVersion: 4, reconnectPeriod: 0, keepalive: 0 });
  await once(client, "connect");
  client.stream.setNoDelay(true);
  client.on("close", () => process.exit(1));
  client.on("message", (_topic, payload) => onPayload(payload));
  await client.subscribeAsync(filter, { qos });
  return { publish: (topic, payload) => client.publish(topic, payload, { qos }) };
}
