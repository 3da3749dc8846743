/**
 * The interface of `mqtt-packet` on this codec: `parser`, `generate` and `writeToStream`, for libraries that are built on it.
 *
 * What differs: bytes that the standard does not allow are refused in both directions, errors have `code`, `reason` and
 * `offset`, and bridge mode (protocol versions 131 and 132) is not there.
 *
 * @packageDocumentation
 */

import { parser } from "./parser.js";
import { generate, writeToStream } from "./write.js";

export { Parser, parser } from "./parser.js";
export type { AnyPacket, Options, PropertiesMap, UserPropertiesMap, WritableLike } from "./types.js";
export { generate, writeToStream } from "./write.js";

export default { parser, generate, writeToStream };
