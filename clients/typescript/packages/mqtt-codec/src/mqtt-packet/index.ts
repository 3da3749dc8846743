/**
 * The interface of `mqtt-packet` on this codec: `parser`, `generate` and `writeToStream`, for libraries that are built on it.
 *
 * What differs: bytes that the standard does not allow are refused in both directions, and errors have `code`, and those of
 * parsing `reason` and `offset`. Beside the standard it takes what is in use: the bit of bridges in the protocol version, return
 * codes of CONNACK that a 3.1.1 server has made up, and such a refusal of a client that speaks 5.0.
 *
 * @packageDocumentation
 */

import { parser } from "./parser.js";
import { generate, writeToStream } from "./write.js";

export { Parser, parser } from "./parser.js";
export type {
  IAuthPacket,
  IConnackPacket,
  IConnectPacket,
  IDisconnectPacket,
  IPacket,
  IPingreqPacket,
  IPingrespPacket,
  IPubackPacket,
  IPubcompPacket,
  IPublishPacket,
  IPubrecPacket,
  IPubrelPacket,
  ISubackPacket,
  ISubscribePacket,
  ISubscription,
  IUnsubackPacket,
  IUnsubscribePacket,
  Options,
  Packet,
  PacketCmd,
  QoS,
  UserProperties,
  WritableLike,
} from "./types.js";
export { generate, writeToStream } from "./write.js";

export default { parser, generate, writeToStream };
