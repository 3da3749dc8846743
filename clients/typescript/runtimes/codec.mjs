// Checks the codec with every vector, in both directions, whole and byte by byte. Runs in Node.js, Deno and Bun.

import assert from "node:assert/strict";
import { encode, encodedLength, MqttDecodeError, MqttDecoder } from "@tautwire/mqtt-codec";
import { bytesOf, isNotWritten, packetOf, readVectors, VERSIONS } from "../packages/mqtt-codec/dist/test/vectors.js";

function outcome(vector, chunks) {
  const decoder = new MqttDecoder({ protocolVersion: VERSIONS[vector.version], maxPacketSize: vector.max_packet_size });
  try {
    for (const chunk of chunks) {
      decoder.push(chunk);
      const packet = decoder.read();
      if (packet !== null) return { result: "valid", packet };
    }
    return { result: "incomplete" };
  } catch (error) {
    assert.ok(error instanceof MqttDecodeError, String(error));
    return { result: error.fault, reason: error.reason };
  }
}

function check(vector) {
  const bytes = bytesOf(vector);
  const single = bytes.length > 70_000 ? [] : Array.from(bytes, (byte) => Uint8Array.of(byte));
  for (const chunks of [[bytes], single]) {
    if (chunks.length === 0) continue;
    const { result, reason, packet } = outcome(vector, chunks);
    assert.equal(result, vector.result, vector.id);
    if (result !== "valid") assert.equal(reason, vector.reason, vector.id);
    else assert.deepEqual(packet, packetOf(vector), vector.id);
  }
  if (vector.result !== "valid" || isNotWritten(vector)) return;
  const version = VERSIONS[vector.version];
  const encoded = encode(packetOf(vector), version);
  assert.equal(encodedLength(packetOf(vector), version), encoded.length, vector.id);
  if (vector.encode) assert.deepEqual([...encoded], [...bytes], vector.id);
}

const vectors = readVectors();
for (const vector of vectors) check(vector);
console.log(`  mqtt-codec: ${vectors.length} vectors`);
