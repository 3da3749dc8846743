import assert from "node:assert/strict";
import { test } from "node:test";
import { encode, encodedLength, encodeInto, MqttDecodeError, MqttDecoder, type Packet } from "@tautwire/mqtt-codec";
import { usePlatformText } from "#esm/decode/text.js";
import { bytesOf, isNotWritten, packetOf, readVectors, VERSIONS, type Vector } from "./vectors.js";

const vectors = readVectors();

function decoderFor(vector: Vector): MqttDecoder {
  return new MqttDecoder({ protocolVersion: VERSIONS[vector.version], maxPacketSize: vector.max_packet_size });
}

function failure(decoder: MqttDecoder): MqttDecodeError | null {
  try {
    decoder.read();
    return null;
  } catch (error) {
    assert.ok(error instanceof MqttDecodeError);
    return error;
  }
}

function checkDecoding(vector: Vector): void {
  const bytes = bytesOf(vector);
  const rest = Buffer.from(vector.rest_hex ?? "", "hex");
  const decoder = decoderFor(vector);
  decoder.push(Buffer.concat([bytes, rest]));
  if (vector.result === "valid") {
    assert.deepStrictEqual(decoder.read(), packetOf(vector), vector.id);
    assert.equal(decoder.bufferedBytes, rest.length, vector.id);
  } else if (vector.result === "incomplete") {
    assert.equal(decoder.read(), null, vector.id);
  } else {
    const error = failure(decoder);
    assert.equal(error?.fault, vector.result, vector.id);
    assert.equal(error.reason, vector.reason, vector.id);
    assert.ok(error.offset >= 0 && error.offset <= bytes.length, vector.id);
    assert.equal(failure(decoder), error, `${vector.id}: the error stays`);
  }
}

function checkEncoding(vector: Vector): void {
  const version = VERSIONS[vector.version];
  const packet = packetOf(vector);
  const bytes = bytesOf(vector);
  if (isNotWritten(vector)) {
    assert.throws(() => encode(packet, version), { code: "client_id_missing", field: "clientId" }, vector.id);
    return;
  }
  const encoded = encode(packet, version);
  if (vector.encode) {
    assert.deepStrictEqual(encoded, bytes, vector.id);
  } else {
    assert.ok(encoded.length <= bytes.length, vector.id);
    const decoder = decoderFor(vector);
    decoder.push(encoded);
    assert.deepStrictEqual(decoder.read(), packet, vector.id);
  }
  assert.equal(encodedLength(packet, version), encoded.length, vector.id);
  const exact = new Uint8Array(encoded.length + 3);
  assert.equal(encodeInto(packet, exact.subarray(0, encoded.length + 3), 3, version), encoded.length, vector.id);
  assert.deepStrictEqual(exact.subarray(3), encoded, vector.id);
}

for (const platform of [true, false]) {
  const way = platform ? "with the platform's text functions" : "without them";

  test(`every vector is decoded or refused as expected, ${way}`, () => {
    usePlatformText(platform);
    for (const vector of vectors) checkDecoding(vector);
    usePlatformText(true);
  });
}

test("every valid vector is encoded as expected", () => {
  for (const vector of vectors) if (vector.result === "valid") checkEncoding(vector);
});

test("every valid vector can be split after each byte", () => {
  for (const vector of vectors) {
    if (vector.result !== "valid") continue;
    const bytes = bytesOf(vector);
    const packet = packetOf(vector);
    // Long ones only near their ends and at some places in between.
    const step = bytes.length > 2000 ? 997 : 1;
    const decoder = decoderFor(vector);
    for (let cut = 1; cut < bytes.length; cut += bytes.length - cut < 20 || cut < 20 ? 1 : step) {
      decoder.reset();
      const first = bytes.slice(0, cut);
      decoder.push(first);
      assert.equal(decoder.read(), null, `${vector.id} cut at ${cut}`);
      // The decoder must not read a chunk again after it has requested more.
      first.fill(0xee);
      decoder.push(bytes.subarray(cut));
      assert.deepStrictEqual(decoder.read(), packet, `${vector.id} cut at ${cut}`);
      assert.equal(decoder.read(), null);
    }
  }
});

test("every vector has the same result byte by byte", () => {
  for (const vector of vectors) {
    const bytes = bytesOf(vector);
    if (bytes.length > 70_000) continue;
    const decoder = decoderFor(vector);
    let packet: Packet | null = null;
    let error: MqttDecodeError | null = null;
    for (let at = 0; at < bytes.length && packet === null && error === null; at++) {
      decoder.push(bytes.subarray(at, at + 1));
      try {
        packet = decoder.read();
      } catch (thrown) {
        error = thrown as MqttDecodeError;
        if (vector.result === "too_large") {
          assert.ok(at <= 4, `${vector.id} is refused by its fixed header`);
        }
      }
    }
    assert.equal(error?.reason, vector.reason, vector.id);
    assert.equal(packet !== null, vector.result === "valid", vector.id);
  }
});

test("all valid vectors of a version form one stream, in chunks of any size", () => {
  for (const version of [4, 5] as const) {
    const chosen = vectors.filter(
      (vector) => vector.result === "valid" && VERSIONS[vector.version] === version && bytesOf(vector).length < 20_000,
    );
    const stream = Buffer.concat(chosen.map(bytesOf));
    const packets = chosen.map(packetOf);
    for (const size of [1, 2, 3, 7, 16, 61, 1460, 65_536, stream.length]) {
      const decoder = new MqttDecoder({ protocolVersion: version });
      const got: Packet[] = [];
      for (let at = 0; at < stream.length; at += size) {
        decoder.push(stream.subarray(at, at + size));
        for (const packet of decoder) got.push(packet);
      }
      assert.equal(decoder.bufferedBytes, 0);
      assert.deepStrictEqual(got, packets, `chunks of ${size}`);
    }
  }
});
