// The TypeScript codec's results. README.md describes the lines that it reads and writes.

import { createInterface } from "node:readline";
import { encode, MqttDecodeError, MqttDecoder } from "../../clients/typescript/packages/mqtt-codec/dist/esm/node.js";

const OUTPUT_CHUNK_CHARACTERS = 1 << 16;

let output = "";
for await (const line of createInterface({ input: process.stdin })) {
  const [version, limit, hex] = line.split(" ");
  output += `${verdict(Number(version), Number(limit), Buffer.from(hex, "hex"))}\n`;
  if (output.length > OUTPUT_CHUNK_CHARACTERS) flush();
}
flush();

function flush() {
  process.stdout.write(output);
  output = "";
}

function verdict(protocolVersion, maxPacketSize, bytes) {
  const decoder = new MqttDecoder({ protocolVersion, maxPacketSize });
  try {
    decoder.push(bytes);
    const packet = decoder.read();
    if (packet === null) return "incomplete";
    const consumed = bytes.length - decoder.bufferedBytes;
    const again = encodedAgain(packet, protocolVersion) ?? bytes.subarray(0, consumed);
    return `valid ${consumed} ${Buffer.from(again).toString("hex")}`;
  } catch (error) {
    if (!(error instanceof MqttDecodeError)) throw error;
    return `${error.fault} ${error.reason} ${error.code} ${error.offset} ${error.message}`;
  }
}

/** Null if a server has to decode the packet to refuse it, but a client must not send it [MQTT-3.1.3-7]. */
function encodedAgain(packet, protocolVersion) {
  try {
    return encode(packet, protocolVersion);
  } catch (error) {
    if (error.code !== "client_id_missing") throw error;
    return null;
  }
}
