import type { Packet, ProtocolVersion, QoS } from "../packets.js";
import { decodeBody, decodePublish, topicName } from "./body.js";
import { Reader } from "./reader.js";
import type { TextCache } from "./text-cache.js";

/** No frame keeps it beyond one call. */
const scratch = /* @__PURE__ */ new Reader();

/**
 * A packet whose bytes are known and whose fields have not been read: for routers that need the topic, the flags and the
 * raw bytes. Like payloads, a frame is a view of the pushed chunk.
 */
export class Frame {
  constructor(
    private readonly bytes: Uint8Array,
    private readonly start: number,
    private readonly bodyAt: number,
    private readonly end: number,
    /** The version that the packet is to be read in. */
    readonly protocolVersion: ProtocolVersion,
    private readonly topics: TextCache,
  ) {}

  /** The packet type as the number of section 2.1.2: 1 for CONNECT, 3 for PUBLISH, up to 15 for AUTH. */
  get packetType(): number {
    return this.bytes[this.start]! >> 4;
  }

  /** The lower four bits of the first byte. */
  get flags(): number {
    return this.bytes[this.start]! & 15;
  }

  /** The QoS of a PUBLISH. */
  get qos(): QoS {
    return ((this.bytes[this.start]! >> 1) & 3) as QoS;
  }

  /** Whether a PUBLISH has its RETAIN flag. */
  get retain(): boolean {
    return (this.bytes[this.start]! & 1) !== 0;
  }

  /** Whether a PUBLISH has its DUP flag. */
  get dup(): boolean {
    return (this.bytes[this.start]! & 8) !== 0;
  }

  /** Bytes of the whole packet, fixed header included. */
  get length(): number {
    return this.end - this.start;
  }

  /** The whole packet as it came. */
  get raw(): Uint8Array {
    return new Uint8Array(this.bytes.buffer, this.bytes.byteOffset + this.start, this.end - this.start);
  }

  /**
   * The topic of a PUBLISH, checked; empty where a topic alias may stand for it. Empty for other packets.
   *
   * @throws {MqttDecodeError} It is not a topic name.
   */
  get topic(): string {
    if (this.packetType !== 3) return "";
    const r = this.reader();
    const start = r.field();
    return this.topics.find(r.bytes, start, r.at) ?? this.newTopic(r, start, r.at);
  }

  /**
   * The bytes of the topic of a PUBLISH, not checked: enough to look it up. Empty for other packets.
   *
   * @throws {MqttDecodeError} It runs past the end of the packet.
   */
  get topicBytes(): Uint8Array {
    if (this.packetType !== 3) return new Uint8Array(0);
    return this.reader().binary();
  }

  /**
   * The whole packet, read and checked.
   *
   * @throws {MqttDecodeError} It is malformed, or says what is not allowed.
   */
  decode(): Packet {
    const first = this.bytes[this.start]!;
    if (first >> 4 === 3) return decodePublish(this.reader(), first, this.protocolVersion, this.topics);
    return decodeBody(this.reader(), first, this.protocolVersion);
  }

  private newTopic(r: Reader, start: number, end: number): string {
    const topic = topicName(r, start, end);
    this.topics.keep(topic, r.bytes, start, end);
    return topic;
  }

  private reader(): Reader {
    const r = scratch;
    r.short = "field_past_end";
    r.bytes = this.bytes;
    r.start = this.start;
    r.at = this.bodyAt;
    r.end = this.end;
    return r;
  }
}
