import type { Packet } from "../packets.js";
import { fail, packetStart } from "./reader.js";
import { decodeSentByServer } from "./sent-by-servers.js";
import { StreamDecoder, type DecoderOptions } from "./stream-decoder.js";

/** One bit for each packet type: CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ. */
const CLIENT_ONLY = 0x1502;

/**
 * Decodes the packets that a client receives, like `MqttDecoder`. A packet that servers do not send is an error. Without the
 * code for servers, bundles are smaller.
 */
export class ClientDecoder extends StreamDecoder {
  constructor(options: DecoderOptions = {}) {
    super(options, null);
  }

  protected override decodeBody(first: number): Packet {
    if (((CLIENT_ONLY >> (first >> 4)) & 1) !== 0) fail("packet_type_unexpected", packetStart(), 0x82);
    return decodeSentByServer(first, this.protocolVersion === 5);
  }
}
