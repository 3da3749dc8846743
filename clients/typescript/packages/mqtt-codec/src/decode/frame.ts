import type { Packet, ProtocolVersion, QoS } from "../packets.js";
import { decodeBody } from "./body.js";
import { bodyOf } from "./fixed-header.js";
import * as r from "./reader.js";

/**
 * A packet whose fields are not decoded: for routers that need the topic, the flags and the
 * raw bytes. Like a payload, a frame is a view of the pushed chunk.
 */
export class Frame {
  constructor(
    private readonly bytes: Uint8Array,
    private readonly start: number,
    private readonly end: number,
    /** The protocol version in which the packet is decoded. */
    readonly protocolVersion: ProtocolVersion,
    private readonly caches: r.Caches,
  ) {}

  private get first(): number {
    return this.bytes[this.start]!;
  }

  /** The packet type as the number of section 2.1.2: 1 for CONNECT, 3 for PUBLISH, up to 15 for AUTH. */
  get packetType(): number {
    return this.first >> 4;
  }

  /** The lower four bits of the first byte. */
  get flags(): number {
    return this.first & 15;
  }

  /** The QoS of a PUBLISH. */
  get qos(): QoS {
    return ((this.first >> 1) & 3) as QoS;
  }

  /** Whether a PUBLISH has its RETAIN flag. */
  get retain(): boolean {
    return (this.first & 1) !== 0;
  }

  /** Whether a PUBLISH has its DUP flag. */
  get dup(): boolean {
    return (this.first & 8) !== 0;
  }

  /** Bytes of the whole packet, fixed header included. */
  get length(): number {
    return this.end - this.start;
  }

  /** The whole packet as received. */
  get raw(): Uint8Array {
    return new Uint8Array(this.bytes.buffer, this.bytes.byteOffset + this.start, this.length);
  }

  /**
   * The validated topic of a PUBLISH; empty if a topic alias replaces it. Empty for other packets.
   *
   * @throws {MqttDecodeError} The topic name is invalid.
   */
  get topic(): string {
    if (this.packetType !== 3) return "";
    this.begin();
    return r.topicIn(r.field(), r.position(), "topic_wildcard");
  }

  /**
   * The bytes of the topic of a PUBLISH, not validated: enough to look it up. Empty for other packets.
   *
   * @throws {MqttDecodeError} The topic runs past the end of the packet.
   */
  get topicBytes(): Uint8Array {
    if (this.packetType !== 3) return new Uint8Array(0);
    this.begin();
    return r.binary();
  }

  /**
   * Decodes and validates the whole packet.
   *
   * @throws {MqttDecodeError} The packet is malformed or violates the protocol.
   */
  decode(): Packet {
    this.begin();
    return decodeBody(this.first, this.protocolVersion);
  }

  private begin(): void {
    const start = this.start;
    r.begin(this.bytes, start, bodyOf(this.bytes, start), this.end, this.caches);
  }
}
