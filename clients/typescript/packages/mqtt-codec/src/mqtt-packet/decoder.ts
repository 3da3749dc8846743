import { MqttDecoder } from "../decode/decoder.js";
import * as r from "../decode/reader.js";
import type { Connack, Packet } from "../packets.js";
import { NO_PROPERTIES } from "../properties.js";

const CONNECT = 0x10;
const CONNACK = 0x20;
/** Versions 3 and 4 with the bit that a bridge sets, which is not in the standard. */
const BRIDGE_LEVELS: readonly (number | undefined)[] = [131, 132];

/** Accepts what `mqtt-packet` accepts beyond the standard: bridges, and undefined return codes of CONNACK. */
export class LooseDecoder extends MqttDecoder {
  /** Whether the last CONNECT was that of a bridge. */
  isBridge = false;

  /** The number of bytes of an incomplete packet, without its fixed header as far as it is known. */
  get bufferedBodyBytes(): number {
    const { bytes, at } = this;
    const have = this.end - at;
    let lengthAt = 1;
    while (lengthAt < have && bytes[at + lengthAt]! >= 0x80) lengthAt++;
    return Math.max(0, lengthAt < have ? have - lengthAt - 1 : have - 1);
  }

  protected override decodeBody(first: number): Packet {
    if (first === CONNECT) this.isBridge = this.hideBridgeBit();
    // A server without MQTT 5.0 refuses in the format of its own version. A success in that format is not accepted, because
    // the two sides would continue in different versions.
    const isShortConnack = first === CONNACK && r.left() === 2;
    if (isShortConnack && (this.protocolVersion !== 5 || r.source()[r.position() + 1] !== 0)) return connackBeforeV5();
    return super.decodeBody(first);
  }

  /** Replaces a CONNECT with the bridge bit by a copy without it. */
  private hideBridgeBit(): boolean {
    const bytes = r.source();
    const start = r.packetStart();
    const body = r.position();
    const end = body + r.left();
    const levelAt = body + 2 + ((bytes[body]! << 8) | bytes[body + 1]!);
    if (!BRIDGE_LEVELS.includes(bytes[levelAt])) return false;
    const copy = new Uint8Array(bytes.subarray(start, end));
    copy[levelAt - start]! &= 0x7f;
    r.begin(copy, 0, body - start, copy.length, this.caches);
    return true;
  }
}

/** Decodes a CONNACK of 3.1.1 (section 3.2), with any return code as its reason. */
function connackBeforeV5(): Connack {
  const at = r.position();
  const flags = r.byte();
  const reason = r.byte();
  if (flags > 1) r.fail("connack_flags_reserved", at);
  // [MQTT-3.2.2-4]
  if (flags === 1 && reason !== 0) r.fail("session_present_on_failure", at, 0x82);
  return { type: "connack", sessionPresent: flags === 1, reason, properties: NO_PROPERTIES };
}
