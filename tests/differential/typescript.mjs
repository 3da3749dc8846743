// The TypeScript codec's verdicts. README.md has the lines it reads and writes.

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
    return `valid ${consumed} ${Buffer.from(encodeAny(packet, protocolVersion)).toString("hex")}`;
  } catch (error) {
    if (!(error instanceof MqttDecodeError)) throw error;
    return `${error.fault} ${error.reason} ${error.code} ${error.offset} ${error.message}`;
  }
}

/**
 * The encoder refuses a CONNECT before 5.0 that has neither an identifier nor a clean start [MQTT-3.1.3-7]; the others do not. It
 * is written with a clean start, and the flag is cleared.
 */
function encodeAny(packet, protocolVersion) {
  const isRefused = packet.type === "connect" && packet.protocolVersion !== 5 && packet.clientId === "" && !packet.cleanStart;
  if (!isRefused) return encode(packet, protocolVersion);
  const bytes = encode({ ...packet, cleanStart: true });
  const lengthAt = bytes.findIndex((byte, at) => at > 0 && byte < 0x80) + 1;
  bytes[lengthAt + 3 + bytes[lengthAt + 1]] &= ~2;
  return bytes;
}
