import type { Packet } from "../packets.js";
import { fail, packetStart } from "./reader.js";
import { decodeSentByServer } from "./sent-by-servers.js";
import { StreamDecoder, type DecoderOptions } from "./stream-decoder.js";

/** One bit for each packet type: CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ. */
const SENT_BY_CLIENTS_ALONE = 0x1502;

/**
 * Decodes what a client receives, as `MqttDecoder` does: a packet that servers do not send is an error. Without what only a
 * server needs it makes smaller bundles.
 */
export class ClientDecoder extends StreamDecoder {
  constructor(options: DecoderOptions = {}) {
    super(options, null);
  }

  protected override decodeBody(first: number): Packet {
    if (((SENT_BY_CLIENTS_ALONE >> (first >> 4)) & 1) !== 0) fail("packet_type_unexpected", packetStart(), 0x82);
    return decodeSentByServer(first, this.protocolVersion === 5);
  }
}
