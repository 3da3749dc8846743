// The same with CommonJS: `node uses.cjs ADDRESS`.

const { connect } = require("@tautwire/client");
const { msgpack } = require("@tautwire/client/msgpack");
const { scram } = require("@tautwire/client/scram");
const { TEXTS } = require("@tautwire/client/texts");
const { connect: connectInBrowser } = require("@tautwire/client/web");
const codec = require("@tautwire/mqtt-codec");
const { ClientDecoder } = require("@tautwire/mqtt-codec/client");
const { parser } = require("@tautwire/mqtt-codec/mqtt-packet");
const { TEXTS: TEXTS_OF_CODEC } = require("@tautwire/mqtt-codec/texts");
const mqttPacket = require("@tautwire/mqtt-packet");
const { encode } = require("@tautwire/msgpack");

async function main() {
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
}

main();
