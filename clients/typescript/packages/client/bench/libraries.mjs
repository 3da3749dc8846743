// One entry for each library: how it connects, publishes at QoS 0 in its fastest way, and receives.

import { once } from "node:events";

async function tautwire(port, version) {
  const { connect } = await import("@tautwire/client");
  const client = await connect(`mqtt://127.0.0.1:${port}`, { protocolVersion: version });
  return {
    /** Sends messages without a promise for each, and pauses when the client reports congestion. */
    async flood(topic, payload, count) {
      for (let sent = 0; sent < count; ) {
        if (client.send(topic, payload)) {
          sent++;
          if (sent % 2048 === 0) await new Promise(setImmediate);
        } else {
          await client.publish(topic, payload);
          sent++;
        }
      }
    },
    /** Awaits each message. */
    async floodAwaited(topic, payload, count) {
      for (let sent = 0; sent < count; sent++) await client.publish(topic, payload);
    },
    fence: () => client.publish("bench/fence", "", { qos: 1 }),
    publish: (topic, payload) => client.send(topic, payload),
    async subscribe(filter, onMessage) {
      await client.subscribe(filter, (message) => onMessage(message.payload)).ready;
    },
    async iterate(filter, onMessage) {
      const subscription = client.subscribe(filter);
      void (async () => {
        for await (const message of subscription) onMessage(message.payload);
      })();
      await subscription.ready;
    },
    end: () => client.close(),
  };
}

async function mqttjs(port, version) {
  const { default: mqtt } = await import("mqtt");
  const client = mqtt.connect({ host: "127.0.0.1", port, protocolVersion: version, reconnectPeriod: 0 });
  await once(client, "connect");
  return {
    /** Uses callbacks, and pauses when the stream's buffer is full. */
    async flood(topic, payload, count) {
      for (let sent = 0; sent < count; sent++) {
        client.publish(topic, payload);
        if (sent % 2048 === 0) await new Promise(setImmediate);
        if (client.stream.writableNeedDrain) await once(client.stream, "drain");
      }
    },
    async floodAwaited(topic, payload, count) {
      for (let sent = 0; sent < count; sent++) await client.publishAsync(topic, payload);
    },
    fence: () => client.publishAsync("bench/fence", "", { qos: 1 }),
    publish: (topic, payload) => client.publish(topic, payload),
    async subscribe(filter, onMessage) {
      client.on("message", (_topic, payload) => onMessage(payload));
      await client.subscribeAsync(filter);
    },
    end: () => client.endAsync(),
  };
}

export const LIBRARIES = { tautwire, mqttjs };
