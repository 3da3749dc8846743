// What a program says with the types of the installed packages. It is compiled with the oldest and the newest TypeScript that is promised.

import { connect, type Client } from "@tautwire/client";
import { msgpack } from "@tautwire/client/msgpack";
import { scram } from "@tautwire/client/scram";
import { TEXTS } from "@tautwire/client/texts";
import { connect as connectInBrowser } from "@tautwire/client/web";
import { MqttDecodeError, type Packet } from "@tautwire/mqtt-codec";
import { ClientDecoder } from "@tautwire/mqtt-codec/client";
import { parser } from "@tautwire/mqtt-codec/mqtt-packet";
import { TEXTS as TEXTS_OF_CODEC } from "@tautwire/mqtt-codec/texts";
import { generate } from "@tautwire/mqtt-packet";
import { decode, encode } from "@tautwire/msgpack";

export async function main(address: string): Promise<string> {
  const client: Client = await connect(address);
  const messages = client.subscribe("demo/hello", { qos: 1, codec: msgpack<string>() });
  await client.publish("demo/hello", "hi", { qos: 1, codec: msgpack<string>() });
  for await (const message of messages) {
    // @ts-expect-error: the value is a string, so types have not become any.
    const wrong: number = message.value;
    return message.topic + message.value + String(wrong);
  }
  await client.close();
  return "";
}

export const typeOf = (packet: Packet): string => packet.type;
export const bytes: Uint8Array = generate({ cmd: "pingreq" });
export const value: unknown = decode(encode({ a: 1 }));
export const others = [scram, TEXTS, connectInBrowser, MqttDecodeError, ClientDecoder, parser, TEXTS_OF_CODEC];
