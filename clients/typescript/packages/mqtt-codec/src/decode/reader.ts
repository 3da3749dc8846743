// Takes the fields of one packet off its bytes. One reader lives as long as its decoder.

import { MqttDecodeError, type DecodeErrorCode } from "../decode-error.js";
import { PROPERTIES, TextCache } from "./text-cache.js";
import { decodeText, scanText } from "./text.js";

const NOTHING: Uint8Array = /* @__PURE__ */ new Uint8Array(0);

/** A packet's body, the position in it, and what belongs to all fields. Positions are indices into `bytes`. */
export class Reader {
  bytes: Uint8Array = NOTHING;
  /** The first byte of the packet's fixed header: what offsets in errors count from. */
  start = 0;
  /** The next byte. */
  at = 0;
  /** Behind the last byte that fields may take: the end of the packet, or of the property block that is being read. */
  end = 0;
  /** What a field is that does not fit. */
  short: DecodeErrorCode = "field_past_end";
  /** Asking bytes for their buffer takes longer than making a view of it: the answer is kept for the next view. */
  private viewed: Uint8Array = this.bytes;
  private buffer: ArrayBufferLike = this.bytes.buffer;
  private base = 0;
  private readonly texts = new TextCache(PROPERTIES);

  byte(): number {
    const at = this.at;
    if (at >= this.end) this.failShort(at);
    this.at = at + 1;
    return this.bytes[at]!;
  }

  twoBytes(): number {
    const at = this.at;
    if (at + 2 > this.end) this.failShort(at);
    this.at = at + 2;
    const bytes = this.bytes;
    return (bytes[at]! << 8) | bytes[at + 1]!;
  }

  fourBytes(): number {
    const at = this.at;
    if (at + 4 > this.end) this.failShort(at);
    this.at = at + 4;
    const bytes = this.bytes;
    return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
  }

  variableByteInteger(): number {
    const at = this.at;
    if (at >= this.end) this.failShort(at);
    const byte = this.bytes[at]!;
    if (byte < 0x80) {
      this.at = at + 1;
      return byte;
    }
    return this.longVariableByteInteger(at);
  }

  private longVariableByteInteger(start: number): number {
    const { bytes, end } = this;
    let value = 0;
    for (let count = 0; count < 4; count++) {
      const at = start + count;
      if (at >= end) this.failShort(start);
      const byte = bytes[at]!;
      value |= (byte & 0x7f) << (7 * count);
      if (byte < 0x80) {
        if (byte === 0) this.fail("variable_byte_integer_not_minimal", start);
        this.at = at + 1;
        return value;
      }
    }
    return this.fail("variable_byte_integer_too_long", start);
  }

  /** A packet identifier, which is never zero `[MQTT-2.2.1-3]`. */
  packetId(): number {
    const id = this.twoBytes();
    if (id === 0) this.fail("packet_id_zero", this.at - 2, 0x82);
    return id;
  }

  /** Two bytes of length, then so many bytes (section 1.5.6), as a view. */
  binary(): Uint8Array {
    const start = this.field();
    return this.view(start, this.at);
  }

  /** A view of those bytes. Always a plain `Uint8Array`, also of a Node.js `Buffer`: that is faster, and the same everywhere. */
  view(start: number, end: number): Uint8Array {
    if (this.viewed !== this.bytes) {
      this.viewed = this.bytes;
      this.buffer = this.bytes.buffer;
      this.base = this.bytes.byteOffset;
    }
    return new Uint8Array(this.buffer, this.base + start, end - start);
  }

  /** Two bytes of length, then so many bytes: answers where they begin; they end at `at`. */
  field(): number {
    const at = this.at;
    const start = at + 2;
    if (start > this.end) this.failShort(at);
    const bytes = this.bytes;
    const end = start + ((bytes[at]! << 8) | bytes[at + 1]!);
    if (end > this.end) this.failShort(at);
    this.at = end;
    return start;
  }

  /** A UTF-8 encoded string (section 1.5.4). */
  text(): string {
    const start = this.field();
    return this.textIn(start, this.at);
  }

  /** As {@link text}, for texts that often repeat. */
  propertyText(): string {
    const start = this.field();
    const end = this.at;
    const known = this.texts.find(this.bytes, start, end);
    if (known !== undefined) return known;
    const text = this.textIn(start, end);
    this.texts.keep(text, this.bytes, start, end);
    return text;
  }

  /** The text of those bytes: well-formed `[MQTT-1.5.4-1]`, without U+0000 `[MQTT-1.5.4-2]`, U+FEFF kept `[MQTT-1.5.4-3]`. */
  textIn(start: number, end: number): string {
    return decodeText(this.bytes, start, end) ?? this.failText(start, end);
  }

  /** Lets go of the bytes. */
  release(): void {
    this.bytes = this.viewed = NOTHING;
    this.buffer = NOTHING.buffer;
  }

  /** The packet ends here: what follows its last field belongs to nothing. */
  finish(): void {
    if (this.at !== this.end) this.fail("trailing_bytes", this.at);
  }

  /** `at`: an index into `bytes`. `reason`: what to answer, 0x81 for all that is malformed. */
  fail(code: DecodeErrorCode, at: number, reason = 0x81): never {
    throw new MqttDecodeError(code, at - this.start, reason);
  }

  private failShort(at: number): never {
    this.fail(this.short, at);
  }

  /** Says what is wrong with bytes that are not the text of a string. */
  failText(start: number, end: number): never {
    const flaw = scanText(this.bytes, start, end);
    return this.fail(flaw.code, flaw.at);
  }
}
