// Sends itself a message with the installed packages, as a module: `node uses.mjs ADDRESS`.

import { connect } from "@tautwire/client";
import { msgpack } from "@tautwire/client/msgpack";
import { scram } from "@tautwire/client/scram";
import { TEXTS } from "@tautwire/client/texts";
import { connect as connectInBrowser } from "@tautwire/client/web";
import * as codec from "@tautwire/mqtt-codec";
import { ClientDecoder } from "@tautwire/mqtt-codec/client";
import { parser } from "@tautwire/mqtt-codec/mqtt-packet";
import { TEXTS as TEXTS_OF_CODEC } from "@tautwire/mqtt-codec/texts";
import mqttPacket from "@tautwire/mqtt-packet";
import { encode } from "@tautwire/msgpack";

for (const part of [scram, TEXTS, connectInBrowser, codec, ClientDecoder, parser, TEXTS_OF_CODEC, mqttPacket.parser, encode]) {
  if (part === undefined) throw new Error("an export is missing");
}
const client = await connect(process.argv[2]);
const messages = client.subscribe("demo/hello", { qos: 1, codec: msgpack() });
await messages.ready;
await client.publish("demo/hello", "hi", { qos: 1, codec: msgpack() });
for await (const message of messages) {
  console.log(`${message.topic}: ${message.value}`);
  break;
}
await client.close();
