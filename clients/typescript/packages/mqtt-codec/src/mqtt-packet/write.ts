import { encode, encodePublishHeader } from "../encode/encode.js";
import { MqttEncodeError } from "../encode-error.js";
import type { PacketInit, ProtocolVersion } from "../packets.js";
import type { AckProperties } from "../properties.js";
import { asBuffer } from "./bytes.js";
import type { LoosePacket } from "./loose.js";
import { connackBeforeV5, setBridgeBit, toPacket, versionOf } from "./to-packet.js";
import type { Bytes, Options, Packet, WritableLike } from "./types.js";

/** Payloads from this size on are written from where they are. */
const SPLIT_BYTES = 4096;

/**
 * The bytes of a packet.
 *
 * @throws {MqttEncodeError} The packet says what cannot be encoded.
 */
export function generate(packet: Packet, options?: Options): Bytes {
  const [bytes] = pieces(packet, options, Infinity);
  return asBuffer(bytes);
}

/**
 * Writes a packet to a stream and answers what its last `write` answered. A packet that cannot be encoded destroys the
 * stream with an {@link MqttEncodeError}, and the answer is false.
 */
export function writeToStream(packet: Packet, stream: WritableLike, options?: Options): boolean {
  try {
    const [bytes, payload] = pieces(packet, options, SPLIT_BYTES);
    cork(stream);
    const mayGoOn = stream.write(asBuffer(bytes));
    return (payload === undefined ? mayGoOn : stream.write(payload)) !== false;
  } catch (error) {
    if (!(error instanceof MqttEncodeError) || stream.destroy === undefined) throw error;
    stream.destroy(error);
    return false;
  }
}

/** Nothing is cached here. The setting exists because users of `mqtt-packet` set it. */
writeToStream.cacheNumbers = true;

/** Packets that are written in one turn leave together. */
function cork(stream: WritableLike): void {
  if (stream.cork === undefined) return;
  stream.cork();
  queueMicrotask(() => stream.uncork?.());
}

/** The bytes of a packet, and the payload that is to follow them if it has `splitBytes` or more. */
function pieces(given: Packet, options: Options | undefined, splitBytes: number): [bytes: Uint8Array, payload?: Uint8Array] {
  const packet = given as unknown as LoosePacket | null | undefined;
  if (typeof packet !== "object" || packet === null) throw new MqttEncodeError("not_a_packet", "cmd");
  const version = versionOf(packet, options?.protocolVersion);
  if (packet.cmd === "connack" && version !== 5) return [connackBeforeV5(packet)];
  const init = toPacket(packet, version);
  const payload = init.type === "publish" ? init.payload : undefined;
  if (init.type === "publish" && payload instanceof Uint8Array && payload.length >= splitBytes) {
    return [encodePublishHeader(init, payload.length, version), payload];
  }
  const bytes = encodeWithin(init, version, options);
  if (init.type === "connect" && packet["bridgeMode"]) setBridgeBit(bytes);
  return [bytes];
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
