import { encode, encodePublishHeader } from "../encode/encode.js";
import type { PacketInit, ProtocolVersion } from "../packets.js";
import type { AckProperties } from "../properties.js";
import { asBuffer } from "./bytes.js";
import { toPacket, versionOf } from "./to-packet.js";
import type { AnyPacket, Options, WritableLike } from "./types.js";

/** Payloads from this size on are written from where they are. */
const SPLIT_BYTES = 4096;

/**
 * The bytes of a packet.
 *
 * @throws {MqttEncodeError} The packet says what cannot be encoded.
 */
export function generate(packet: AnyPacket, options?: Options): Uint8Array {
  const version = versionOf(packet, options?.protocolVersion);
  return asBuffer(encodeWithin(toPacket(packet, version), version, options));
}

/**
 * Writes a packet to a stream and answers what its last `write` answered. A packet that cannot be encoded destroys the
 * stream with an {@link MqttEncodeError}, and the answer is false.
 */
export function writeToStream(packet: AnyPacket, stream: WritableLike, options?: Options): boolean {
  try {
    const version = versionOf(packet, options?.protocolVersion);
    const init = toPacket(packet, version);
    cork(stream);
    const payload = init.type === "publish" ? init.payload : undefined;
    if (init.type === "publish" && payload instanceof Uint8Array && payload.length >= SPLIT_BYTES) {
      stream.write(asBuffer(encodePublishHeader(init, payload.length, version)));
      return stream.write(payload) !== false;
    }
    return stream.write(asBuffer(encodeWithin(init, version, options))) !== false;
  } catch (error) {
    stream.destroy(error as Error);
    return false;
  }
}

/** Nothing is cached here. The setting exists because users of `mqtt-packet` set it. */
writeToStream.cacheNumbers = false;

/** Packets that are written in one turn leave together. */
function cork(stream: WritableLike): void {
  if (stream.cork === undefined) return;
  stream.cork();
  queueMicrotask(() => stream.uncork?.());
}

/** Leaves out what section 3.1.2.11.4 lets a sender leave out of packets that the receiver would refuse for their size. */
function encodeWithin(packet: PacketInit, version: ProtocolVersion, options: Options | undefined): Uint8Array {
  const limit = options?.properties?.maximumPacketSize ?? Infinity;
  let bytes = encode(packet, version);
  if (!MAY_SHRINK.has(packet.type) || !("properties" in packet)) return bytes;
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
