import type { MqttDecodeError } from "../decode-error.js";
import { headerLength } from "../encode/writer.js";
import { LooseDecoder } from "./decoder.js";
import { Emitter } from "./emitter.js";
import { fromPacket } from "./from-packet.js";
import type { Options, Packet } from "./types.js";

/**
 * Parses the byte stream of one connection. Emits `packet` for every packet, and `error` with an {@link MqttDecodeError},
 * after which the next call to {@link parse} starts a new stream.
 */
export class Parser extends Emitter<{ packet: Packet; error: MqttDecodeError }> {
  /** The options of the connection, then those of the CONNECT. Read before each packet. */
  settings: Options;
  private readonly decoder: LooseDecoder;
  private hasFailed = false;

  constructor(options?: Options | null) {
    super();
    this.settings = options ?? {};
    const { maxPacketSize } = this.settings;
    this.decoder = new LooseDecoder(typeof maxPacketSize === "number" ? { maxPacketSize } : {});
  }

  /** Parses the next bytes. Returns the number of buffered bytes of an incomplete packet, without its fixed header. */
  parse(chunk: Uint8Array): number {
    const { decoder } = this;
    if (this.hasFailed) {
      decoder.reset();
      this.hasFailed = false;
    }
    decoder.push(chunk);
    for (let packet = this.next(); packet !== null; packet = this.next()) this.emit("packet", packet);
    return decoder.bufferedBodyBytes;
  }

  private next(): Packet | null {
    const { decoder } = this;
    const { protocolVersion } = this.settings;
    decoder.protocolVersion = protocolVersion === 5 || protocolVersion === 3 ? protocolVersion : 4;
    const before = decoder.bufferedBytes;
    try {
      const packet = decoder.read();
      if (packet === null) return null;
      const length = before - decoder.bufferedBytes;
      const remaining = length - headerLength(length - headerLength(length));
      if (packet.type === "connect") this.settings = { protocolVersion: packet.protocolVersion };
      return fromPacket(packet, remaining, decoder.protocolVersion === 5, decoder.isBridge);
    } catch (error) {
      this.hasFailed = true;
      this.emit("error", error as MqttDecodeError);
      return null;
    }
  }
}

/** Creates a parser for one connection. */
export function parser(options?: Options | null): Parser {
  return new Parser(options);
}
