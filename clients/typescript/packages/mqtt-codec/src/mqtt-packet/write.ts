import { encode, encodePublishHeader } from "../encode/encode.js";
import { MqttEncodeError } from "../encode-error.js";
import type { PacketInit, ProtocolVersion } from "../packets.js";
import type { AckProperties } from "../properties.js";
import { asBuffer } from "./bytes.js";
import type { LoosePacket } from "./loose.js";
import { connackBeforeV5, setBridgeBit, toPacket, versionOf } from "./to-packet.js";
import type { Bytes, Options, Packet, WritableLike } from "./types.js";

/** Payloads of at least this size are written without a copy. */
const SPLIT_BYTES = 4096;

/**
 * Encodes a packet.
 *
 * @throws {MqttEncodeError} The packet cannot be encoded.
 */
export function generate(packet: Packet, options?: Options): Bytes {
  const given = loose(packet);
  const version = versionOf(given, options?.protocolVersion);
  if (given.cmd === "connack" && version !== 5) return asBuffer(connackBeforeV5(given));
  return asBuffer(whole(given, toPacket(given, version), version, options));
}

/**
 * Writes a packet to a stream and returns the result of its last `write`. A packet that cannot be encoded destroys the
 * stream with an {@link MqttEncodeError}; the result is then false.
 */
export function writeToStream(packet: Packet, stream: WritableLike, options?: Options): boolean {
  try {
    const given = loose(packet);
    const version = versionOf(given, options?.protocolVersion);
    if (given.cmd === "connack" && version !== 5) return write(stream, connackBeforeV5(given));
    const init = toPacket(given, version);
    const payload = init.type === "publish" ? init.payload : undefined;
    if (init.type !== "publish" || !(payload instanceof Uint8Array) || payload.length < SPLIT_BYTES) {
      return write(stream, whole(given, init, version, options));
    }
    write(stream, encodePublishHeader(init, payload.length, version));
    return stream.write(payload) !== false;
  } catch (error) {
    if (!(error instanceof MqttEncodeError) || stream.destroy === undefined) throw error;
    stream.destroy(error);
    return false;
  }
}

/** Has no effect. It exists because users of `mqtt-packet` set it. */
writeToStream.cacheNumbers = true;

/** The packet, with fields of any type. */
function loose(packet: unknown): LoosePacket {
  if (typeof packet !== "object" || packet === null) throw new MqttEncodeError("not_a_packet", "cmd");
  return packet as LoosePacket;
}

/** Corks the stream, so that packets of one turn are written together. */
function write(stream: WritableLike, bytes: Uint8Array): boolean {
  if (stream.cork !== undefined) {
    stream.cork();
    queueMicrotask(() => stream.uncork?.());
  }
  return stream.write(asBuffer(bytes)) !== false;
}

/** Encodes the packet. */
function whole(given: LoosePacket, packet: PacketInit, version: ProtocolVersion, options: Options | undefined): Uint8Array {
  const bytes = encode(packet, version);
  if (packet.type === "connect" && given["bridgeMode"]) setBridgeBit(bytes);
  const limit = options?.properties?.maximumPacketSize;
  return limit === undefined || bytes.length <= limit ? bytes : shortened(packet, bytes, limit, version);
}

/** Removes the properties that section 3.1.2.11.4 allows to omit from packets that exceed the receiver's maximum size. */
function shortened(packet: PacketInit, whole: Uint8Array, limit: number, version: ProtocolVersion): Uint8Array {
  if (!MAY_SHRINK.has(packet.type) || !("properties" in packet)) return whole;
  let bytes = whole;
  let properties: AckProperties = { ...packet.properties };
  for (const key of ["reasonString", "userProperties"] as const) {
    if (bytes.length <= limit) break;
    properties = { ...properties, [key]: undefined };
    bytes = encode({ ...packet, properties }, version);
  }
  return bytes;
}

const MAY_SHRINK: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "puback",
  "pubrec",
  "pubrel",
  "pubcomp",
  "suback",
  "unsuback",
  "disconnect",
  "auth",
]);
