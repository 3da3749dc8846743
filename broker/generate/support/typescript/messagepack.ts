import type { PayloadCodec } from "@tautwire/client";
import { msgpack } from "@tautwire/client/msgpack";
import { Moment, type Read } from "./mapping.js";
import { DEPTH_MAX, PayloadError } from "./payload.js";

/** Timestamps with all their nanoseconds. */
const moment = {
  type: -1,
  class: Moment,
  encode({ time: { seconds, nanos } }: Moment): Uint8Array {
    const isShort = seconds >= 0n && seconds < 1n << 34n;
    const data = new Uint8Array(isShort ? (nanos === 0 && seconds < 1n << 32n ? 4 : 8) : 12);
    const view = new DataView(data.buffer);
    if (data.length === 4) {
      view.setUint32(0, Number(seconds));
    } else if (data.length === 8) {
      view.setBigUint64(0, (BigInt(nanos) << 34n) | seconds);
    } else {
      view.setUint32(0, nanos);
      view.setBigInt64(4, seconds);
    }
    return data;
  },
  decode(data: Uint8Array): Moment {
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    let seconds: bigint;
    let nanos = 0;
    if (data.length === 4) {
      seconds = BigInt(view.getUint32(0));
    } else if (data.length === 8) {
      const both = view.getBigUint64(0);
      seconds = both & ((1n << 34n) - 1n);
      nanos = Number(both >> 34n);
    } else if (data.length === 12) {
      seconds = view.getBigInt64(4);
      nanos = view.getUint32(0);
    } else {
      throw new PayloadError("expected a timestamp of 4, 8 or 12 bytes");
    }
    if (nanos > 999_999_999) throw new PayloadError("expected at most 999,999,999 nanoseconds");
    return new Moment({ seconds, nanos });
  },
};

/** Payloads in MessagePack. `to` converts a value to plain values, `from` converts it back. */
export function messagePackCodec<T>(to: (value: T, isText: boolean) => unknown, from: Read<T>): PayloadCodec<T> {
  const extensions = [moment];
  const codec = msgpack({ encoder: { extensions }, decoder: { extensions, strictUtf8: true, maxDepth: DEPTH_MAX }, parse: from });
  const encode = codec.encode.bind(codec) as (value: unknown) => Uint8Array | string;
  return { ...codec, encode: (value) => encode(to(value, false)) };
}
