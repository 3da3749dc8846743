// Uses of the types of `mqtt-packet`, checked with the oldest supported TypeScript.

import type { MqttDecodeError, Packet as CodecPacket } from "@tautwire/mqtt-codec";
import { ClientDecoder } from "@tautwire/mqtt-codec/client";
import * as aliased from "mqtt-packet";
import defaults, { generate, parser, writeToStream } from "@tautwire/mqtt-packet";
import type {
  IAuthPacket,
  IConnackPacket,
  IConnectPacket,
  IDisconnectPacket,
  IPacket,
  IPingreqPacket,
  IPingrespPacket,
  IPubackPacket,
  IPubcompPacket,
  IPublishPacket,
  IPubrecPacket,
  IPubrelPacket,
  ISubackPacket,
  ISubscribePacket,
  ISubscription,
  IUnsubackPacket,
  IUnsubscribePacket,
  Packet,
  PacketCmd,
  Parser,
  QoS,
  UserProperties,
} from "@tautwire/mqtt-packet";

export type All =
  | IAuthPacket
  | IConnackPacket
  | IConnectPacket
  | IDisconnectPacket
  | IPacket
  | IPingreqPacket
  | IPingrespPacket
  | IPubackPacket
  | IPubcompPacket
  | IPublishPacket
  | IPubrecPacket
  | IPubrelPacket
  | ISubackPacket
  | ISubscribePacket
  | ISubscription
  | IUnsubackPacket
  | IUnsubscribePacket
  | Packet;

const command: PacketCmd = "publish";
const qos: QoS = 1;
const userProperties: UserProperties = { a: ["b", "c"] };
const publish: IPublishPacket = { cmd: command, topic: "t", payload: Buffer.from("p"), qos, dup: false, retain: false, messageId: 1, properties: { userProperties } };
const bytes: Buffer = generate(publish, { protocolVersion: 5 });
const one: Parser = parser({ protocolVersion: 5 });
one.on("packet", (packet) => {
  if (packet.cmd !== "connect") return;
  const password: Buffer | undefined = packet.password;
  const id: string = packet.clientId;
  console.log(password?.toString("hex"), id);
});
one.on("error", (error: Error) => console.log(error.message));
one.on("error", (error: MqttDecodeError) => console.log(error.code));
const left: number = one.parse(bytes);
const mayGoOn: boolean = writeToStream(publish, process.stdout as NodeJS.WritableStream);
writeToStream.cacheNumbers = false;
const same: typeof generate = defaults.generate;
const alias: aliased.IPublishPacket = publish;
const read: CodecPacket | null = new ClientDecoder().read();
console.log(left, mayGoOn, same, alias, read);
