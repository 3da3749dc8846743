import type { Duplex } from "node:stream";
import type mqttPacket from "@tautwire/mqtt-codec/mqtt-packet";
import type { Packet } from "@tautwire/mqtt-codec/mqtt-packet";

/**
 * A minimal 5.0 broker, because Aedes does not support 5.0. It acknowledges everything and sends each message
 * back to its sender. `seen` collects the types of the received packets.
 */
export function serveV5(stream: Duplex, library: typeof mqttPacket, seen: string[]): void {
  const parser = library.parser();
  let lastId = 0;
  const send = (packet: Packet): void => {
    library.writeToStream(packet, stream, { protocolVersion: 5 });
  };
  parser.on("error", (error) => stream.destroy(error));
  stream.on("data", (chunk: Buffer) => parser.parse(chunk));
  parser.on("packet", (packet) => {
    seen.push(packet.cmd);
    const { messageId } = packet;
    const id = messageId === undefined ? {} : { messageId };
    switch (packet.cmd) {
      case "connect":
        send({ cmd: "connack", reasonCode: 0, sessionPresent: false, properties: { receiveMaximum: 10, reasonString: "welcome" } });
        break;
      case "subscribe":
        send({ cmd: "suback", ...id, granted: packet.subscriptions.map(({ qos }) => qos) });
        break;
      case "unsubscribe":
        send({ cmd: "unsuback", ...id, granted: packet.unsubscriptions.map(() => 0) });
        break;
      case "publish":
        if (packet.qos === 1) send({ cmd: "puback", ...id, reasonCode: 0 });
        if (packet.qos === 2) send({ cmd: "pubrec", ...id, reasonCode: 0 });
        send({ ...packet, messageId: ++lastId, properties: { ...packet.properties, subscriptionIdentifier: [7, 300] } });
        break;
      case "pubrec":
        send({ cmd: "pubrel", ...id, reasonCode: 0 });
        break;
      case "pubrel":
        send({ cmd: "pubcomp", ...id, reasonCode: 0 });
        break;
      case "pingreq":
        send({ cmd: "pingresp" });
        break;
      case "disconnect":
        stream.end();
    }
  });
}
