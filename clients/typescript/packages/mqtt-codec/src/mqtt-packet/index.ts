/**
 * The interface of `mqtt-packet` on this codec: `parser`, `generate` and `writeToStream`, for libraries that are built on it.
 *
 * Differences: invalid packets are refused in both directions, and errors have a `code`; parse errors also have `reason` and
 * `offset`. Beyond the standard it accepts what is in use: the bridge bit in the protocol version, CONNACK return
 * codes that 3.1.1 does not define, and the 3.1.1 refusal of a 5.0 client.
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
