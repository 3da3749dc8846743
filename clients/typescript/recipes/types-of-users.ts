// The types of MQTT.js and Aedes that derive from those of `mqtt-packet`. A missing one would be `any`, and an expected error would be missing.

import type { PublishPacket, Subscription } from "aedes";
import type { IClientOptions, MqttClient } from "mqtt";

declare const client: MqttClient;
declare const publish: PublishPacket;
declare const subscription: Subscription;
declare const options: IClientOptions;

client.on("packetreceive", (packet) => {
  if (packet.cmd !== "connack") return;
  const code: number | undefined = packet.returnCode;
  // @ts-expect-error It is a number.
  const text: string = packet.reasonCode;
  console.log(code, text);
});
// @ts-expect-error It is a number.
const qos: string = publish.qos;
const payload: string | Buffer = publish.payload;
// @ts-expect-error It is a text.
const topic: number = subscription.topic;
// @ts-expect-error It is a number.
const expiry: string | undefined = options.properties?.sessionExpiryInterval;
console.log(qos, payload, topic, expiry);
