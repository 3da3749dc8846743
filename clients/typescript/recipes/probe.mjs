// Sends a message through Aedes with MQTT.js, and prints which package each of them uses as `mqtt-packet`.

import { once } from "node:events";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { Aedes } from "aedes";
import mqtt from "mqtt";

const require = createRequire(import.meta.url);
const names = ["mqtt", "aedes"].map((user) => createRequire(require.resolve(user))("mqtt-packet/package.json").name);

const broker = await Aedes.createBroker();
const server = createServer(broker.handle);
server.listen(0, "127.0.0.1");
await once(server, "listening");
const client = await mqtt.connectAsync(`mqtt://127.0.0.1:${server.address().port}`);
const message = once(client, "message");
await client.subscribeAsync("probe", { qos: 1 });
await client.publishAsync("probe", "hello", { qos: 1 });
const [topic, payload] = await message;
await client.endAsync();
await new Promise((done) => broker.close(done));
server.close();
console.log(JSON.stringify({ names, said: `${topic} ${payload}` }));
