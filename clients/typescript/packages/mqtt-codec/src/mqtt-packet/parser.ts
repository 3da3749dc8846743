import { MqttDecoder } from "../decode/decoder.js";
import { headerLength } from "../encode/writer.js";
import { Emitter } from "./emitter.js";
import { fromPacket } from "./from-packet.js";
import type { AnyPacket, Options } from "./types.js";

/**
 * Parses the byte stream of one connection: emits `packet` with every packet and `error` with an {@link MqttDecodeError},
 * after which the next call to {@link parse} begins anew.
 */
export class Parser extends Emitter {
  /** What is known about the connection: the options, then what the CONNECT has said. Read before each packet. */
  settings: Options;
  private readonly decoder: MqttDecoder;
  private hasFailed = false;

  constructor(options: Options = {}) {
    super();
    this.settings = options;
    const limit = options["maxPacketSize"];
    this.decoder = new MqttDecoder(typeof limit === "number" ? { maxPacketSize: limit } : {});
  }

  /** Takes the next bytes and answers how many wait for the rest of their packet. */
  parse(chunk: Uint8Array): number {
    const { decoder } = this;
    if (this.hasFailed) {
      decoder.reset();
      this.hasFailed = false;
    }
    decoder.push(chunk);
    for (let packet = this.next(); packet !== null; packet = this.next()) this.emit("packet", packet);
    return decoder.bufferedBytes;
  }

  private next(): AnyPacket | null {
    const { decoder } = this;
    const { protocolVersion } = this.settings;
    decoder.protocolVersion = protocolVersion === 5 || protocolVersion === 3 ? protocolVersion : 4;
    const before = decoder.bufferedBytes;
    try {
      const packet = decoder.read();
      if (packet === null) return null;
      const length = before - decoder.bufferedBytes;
      const remaining = length - headerLength(length - headerLength(length));
      const out = fromPacket(packet, remaining, decoder.protocolVersion === 5);
      if (packet.type === "connect") this.settings = { protocolVersion: packet.protocolVersion };
      return out;
    } catch (error) {
      this.hasFailed = true;
      this.emit("error", error);
      return null;
    }
  }
}

/** A parser for one connection. */
export function parser(options?: Options): Parser {
  return new Parser(options);
}
