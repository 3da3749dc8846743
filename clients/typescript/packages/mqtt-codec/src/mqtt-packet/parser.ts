import type { MqttDecodeError } from "../decode-error.js";
import { headerLength } from "../encode/writer.js";
import { InterfaceDecoder } from "./decoder.js";
import { Emitter } from "./emitter.js";
import { fromPacket } from "./from-packet.js";
import type { Options, Packet } from "./types.js";

/**
 * Parses the byte stream of one connection: emits `packet` with every packet and `error` with an {@link MqttDecodeError},
 * after which the next call to {@link parse} begins anew.
 */
export class Parser extends Emitter<{ packet: Packet; error: MqttDecodeError }> {
  /** What is known about the connection: the options, then what the CONNECT has said. Read before each packet. */
  settings: Options;
  private readonly decoder: InterfaceDecoder;
  private hasFailed = false;

  constructor(options?: Options | null) {
    super();
    this.settings = options ?? {};
    const { maxPacketSize } = this.settings;
    this.decoder = new InterfaceDecoder(typeof maxPacketSize === "number" ? { maxPacketSize } : {});
  }

  /** Takes the next bytes and answers how many, behind their fixed header, wait for the rest of their packet. */
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

/** A parser for one connection. */
export function parser(options?: Options | null): Parser {
  return new Parser(options);
}
