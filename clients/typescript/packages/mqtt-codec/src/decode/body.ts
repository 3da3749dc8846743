import type { Packet, ProtocolVersion } from "../packets.js";
import * as r from "./reader.js";
import { connect, subscribe, unsubscribe } from "./sent-by-clients.js";
import { decodeSentByServer, publish } from "./sent-by-servers.js";

/** Decodes the body at the reader's position. `first`: the validated first byte of the packet. */
export function decodeBody(first: number, version: ProtocolVersion): Packet {
  const isV5 = version === 5;
  switch (first >> 4) {
    case 3:
      return publish(first, isV5);
    case 1:
      return connect();
    case 8:
      return subscribe(isV5);
    case 10:
      return unsubscribe(isV5);
    case 12:
      r.finish();
      return { type: "pingreq" };
    default:
      return decodeSentByServer(first, isV5);
  }
}
