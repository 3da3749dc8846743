import type { PayloadCodec } from "@tautwire/client";
import { DEPTH_MAX, PayloadError, type Duration, type Timestamp } from "./payload.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const FIRST_BYTES = 128;

/** Payloads in the binary form of Protocol Buffers. */
export function protobufCodec<T>(write: (value: T, out: Writer) => void, read: (reader: Reader) => T): PayloadCodec<T> {
  return {
    contentType: "application/x-protobuf",
    isText: false,
    encode(value) {
      const out = new Writer();
      write(value, out);
      return out.finish();
    },
    decode: (payload) => read(new Reader(payload)),
  };
}

/** Writes values in the binary form of Protocol Buffers, one after another. */
export class Writer {
  private bytes = new Uint8Array(FIRST_BYTES);
  private view = new DataView(this.bytes.buffer);
  private length = 0;

  /** The written bytes. */
  finish(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }

  /** Number and wire type of the next value. */
  tag(tag: number): void {
    this.uint32(tag);
  }

  uint32(value: number): void {
    this.room(5);
    let rest = value >>> 0;
    while (rest > 0x7f) {
      this.bytes[this.length++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.bytes[this.length++] = rest;
  }

  int32(value: number): void {
    if (value >= 0) this.uint32(value);
    else this.uint64(BigInt(value | 0));
  }

  sint32(value: number): void {
    this.uint32((value << 1) ^ (value >> 31));
  }

  uint64(value: bigint): void {
    this.room(10);
    let low = Number(value & 0xffff_ffffn);
    let high = Number((value >> 32n) & 0xffff_ffffn);
    while (high > 0 || low > 0x7f) {
      this.bytes[this.length++] = (low & 0x7f) | 0x80;
      low = ((low >>> 7) | (high << 25)) >>> 0;
      high >>>= 7;
    }
    this.bytes[this.length++] = low;
  }

  int64(value: bigint): void {
    this.uint64(value);
  }

  sint64(value: bigint): void {
    this.uint64((value << 1n) ^ (value >> 63n));
  }

  bool(value: boolean): void {
    this.uint32(value ? 1 : 0);
  }

  fixed32(value: number): void {
    this.room(4);
    this.view.setUint32(this.length, value, true);
    this.length += 4;
  }

  sfixed32(value: number): void {
    this.fixed32(value);
  }

  fixed64(value: bigint): void {
    this.room(8);
    this.view.setBigUint64(this.length, value, true);
    this.length += 8;
  }

  sfixed64(value: bigint): void {
    this.fixed64(value);
  }

  float(value: number): void {
    this.room(4);
    this.view.setFloat32(this.length, value, true);
    this.length += 4;
  }

  double(value: number): void {
    this.room(8);
    this.view.setFloat64(this.length, value, true);
    this.length += 8;
  }

  string(value: string): void {
    const start = this.open();
    // A UTF-16 code unit takes at most three bytes.
    this.room(value.length * 3);
    this.length += encoder.encodeInto(value, this.bytes.subarray(this.length)).written;
    this.close(start);
  }

  bytesOf(value: Uint8Array): void {
    this.uint32(value.length);
    this.room(value.length);
    this.bytes.set(value, this.length);
    this.length += value.length;
  }

  /** `Timestamp` and `Duration` have the same fields. */
  time(value: Timestamp | Duration): void {
    const start = this.open();
    if (value.seconds !== 0n) {
      this.tag(8);
      this.int64(value.seconds);
    }
    if (value.nanos !== 0) {
      this.tag(16);
      this.int32(value.nanos);
    }
    this.close(start);
  }

  /** Begins a length-delimited value. */
  open(): number {
    this.room(1);
    return this.length++;
  }

  /** Writes the length of the bytes since `open`. */
  close(start: number): void {
    const length = this.length - start - 1;
    let extra = 0;
    for (let rest = length; rest > 0x7f; rest >>>= 7) extra++;
    this.room(extra);
    if (extra > 0) this.bytes.copyWithin(start + 1 + extra, start + 1, this.length);
    const end = this.length + extra;
    this.length = start;
    this.uint32(length);
    this.length = end;
  }

  private room(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const bytes = new Uint8Array(Math.max(this.bytes.length * 2, this.length + count));
    bytes.set(this.bytes);
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
  }
}

/** Reads values in the binary form of Protocol Buffers. All methods throw a {@link PayloadError}. */
export class Reader {
  private readonly view: DataView;
  private at = 0;
  private end: number;
  private depthLeft = DEPTH_MAX;

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.end = bytes.length;
  }

  /** Number and wire type of the next value; 0 at the end. */
  tag(): number {
    if (this.at >= this.end) return 0;
    const start = this.at;
    const tag = this.varint();
    if (tag > 0xffff_ffffn || tag < 8n) throw new PayloadError("expected a tag with a field number", start);
    return Number(tag);
  }

  /** Skips the value of an unknown field. A field of `numbers` has a wrong wire type. */
  unknown(tag: number, numbers: readonly number[]): void {
    if (numbers.includes(tag >>> 3)) throw new PayloadError(`expected another wire type of field ${tag >>> 3}`, this.at);
    switch (tag & 7) {
      case 0:
        this.varint();
        return;
      case 1:
        this.take(8);
        return;
      case 2:
        this.take(this.size());
        return;
      case 5:
        this.take(4);
        return;
      default:
        throw new PayloadError("expected a wire type other than a group", this.at);
    }
  }

  uint64(): bigint {
    return this.varint();
  }

  int64(): bigint {
    return BigInt.asIntN(64, this.varint());
  }

  sint64(): bigint {
    const value = this.varint();
    return (value >> 1n) ^ -(value & 1n);
  }

  uint32(): number {
    const first = this.bytes[this.at];
    if (first !== undefined && first < 0x80 && this.at < this.end) {
      this.at++;
      return first;
    }
    return Number(this.varint() & 0xffff_ffffn);
  }

  int32(): number {
    return this.uint32() | 0;
  }

  sint32(): number {
    const value = this.uint32();
    return (value >>> 1) ^ -(value & 1);
  }

  bool(): boolean {
    return this.varint() !== 0n;
  }

  fixed32(): number {
    return this.view.getUint32(this.take(4), true);
  }

  sfixed32(): number {
    return this.view.getInt32(this.take(4), true);
  }

  fixed64(): bigint {
    return this.view.getBigUint64(this.take(8), true);
  }

  sfixed64(): bigint {
    return this.view.getBigInt64(this.take(8), true);
  }

  float(): number {
    return this.view.getFloat32(this.take(4), true);
  }

  double(): number {
    return this.view.getFloat64(this.take(8), true);
  }

  string(): string {
    const start = this.take(this.size());
    try {
      return decoder.decode(this.bytes.subarray(start, this.at));
    } catch {
      throw new PayloadError("expected UTF-8", start);
    }
  }

  /** A copy of the bytes. */
  bytesOf(): Uint8Array {
    const start = this.take(this.size());
    return this.bytes.slice(start, this.at);
  }

  time(): Timestamp {
    const time: Timestamp = { seconds: 0n, nanos: 0 };
    const end = this.enter();
    for (let tag = this.tag(); tag !== 0; tag = this.tag()) {
      if (tag === 8) time.seconds = this.int64();
      else if (tag === 16) time.nanos = this.int32();
      else this.unknown(tag, [1, 2]);
    }
    this.leave(end);
    return time;
  }

  /** Calls `read` for each item of a packed list. */
  packed(read: () => void): void {
    const end = this.enter();
    while (this.at < this.end) read();
    this.leave(end);
  }

  /** Enters a length-delimited value. Pass the result to `leave`. */
  enter(): number {
    const outer = this.end;
    const start = this.take(this.size());
    if (--this.depthLeft === 0) throw new PayloadError(`expected messages nested at most ${DEPTH_MAX} deep`, start);
    this.end = this.at;
    this.at = start;
    return outer;
  }

  leave(end: number): void {
    this.at = this.end;
    this.end = end;
    this.depthLeft++;
  }

  private size(): number {
    const start = this.at;
    const size = this.varint();
    if (size > BigInt(this.end - this.at)) throw new PayloadError("expected a value within the payload", start);
    return Number(size);
  }

  private take(count: number): number {
    const start = this.at;
    if (count > this.end - start) throw new PayloadError("expected a value within the payload", start);
    this.at += count;
    return start;
  }

  private varint(): bigint {
    const start = this.at;
    let low = 0;
    for (let place = 0; place < 4; place++) {
      const byte = this.byte(start);
      low |= (byte & 0x7f) << (7 * place);
      if (byte < 0x80) return BigInt(low);
    }
    let value = BigInt(low);
    for (let place = 4n; place < 10n; place++) {
      const byte = this.byte(start);
      if (place === 9n && byte > 1) break;
      value |= BigInt(byte & 0x7f) << (7n * place);
      if (byte < 0x80) return value;
    }
    throw new PayloadError("expected a number of at most 64 bits", start);
  }

  private byte(start: number): number {
    if (this.at >= this.end) throw new PayloadError("expected a number within the payload", start);
    return this.bytes[this.at++] ?? 0;
  }
}
