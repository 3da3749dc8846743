// This repository's client.

import { connect } from "../../../clients/typescript/packages/client/dist/esm/node.js";

export async function open(host, port, qos, filter, onPayload) {
  const client = await connect(`mqtt://${host}:${port}`, { protocolVersion: 4, keepAliveS: 0 });
  client.on("closed", () => process.exit(1));
  await client.subscribe(filter, { qos }, (message) => onPayload(message.payload)).ready;
  return { publish: qos === 0 ? (topic, payload) => client.send(topic, payload) : (topic, payload) => client.publish(topic, payload, { qos }) };
}
