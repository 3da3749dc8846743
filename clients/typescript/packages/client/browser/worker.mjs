// A worker that reports the messages that it receives. It has neither window nor document.

import { connect } from "@tautwire/client";

globalThis.onmessage = async ({ data: url }) => {
  const client = await connect(url);
  const subscription = client.subscribe("worker/#", { qos: 2 });
  await subscription.ready;
  await client.publish("worker/a", "from a worker", { qos: 2 });
  for await (const message of subscription) {
    globalThis.postMessage(`${message.topic} ${message.qos} ${message.text()}`);
    break;
  }
  await client.close();
  globalThis.postMessage(client.state);
};
