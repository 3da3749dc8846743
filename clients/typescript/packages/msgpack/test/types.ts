// Compiled, never run: uses of the public types.
import {
  decode,
  type Decoded,
  Decoder,
  decodeStream,
  encode,
  encodeInto,
  Encoder,
  type Extension,
  MsgpackError,
  type MsgpackErrorCode,
  StreamDecoder,
  Timestamp,
} from "@tautwire/msgpack";

const bytes: Uint8Array = encode({ a: 1 });
const value: unknown = decode(bytes, { int64: "bigint", maps: undefined });
const count: number = encodeInto(value, bytes, 0, { float32: "exact" });
const first: Decoded = new Decoder({ strictUtf8: true }).decodeFirst(bytes, count);

class Point {
  constructor(
    readonly x: number,
    readonly y: number,
  ) {}
}
const point: Extension<Point> = {
  type: 1,
  class: Point,
  encode: (p) => Uint8Array.of(p.x, p.y),
  decode: (data) => new Point(data[0]!, data[1]!),
};
new Encoder({ extensions: [point] }).encode(new Point(1, 2));

// @ts-expect-error an option that does not exist
new Decoder({ unknown: true });
// @ts-expect-error text is not bytes
decode("text");

export async function all(source: AsyncIterable<Uint8Array>): Promise<MsgpackErrorCode | undefined> {
  try {
    for await (const item of decodeStream(source)) new StreamDecoder().push(encode([item, first.bytesConsumed, new Timestamp(0n, 0)]));
  } catch (error) {
    if (error instanceof MsgpackError) return error.code;
  }
  return undefined;
}
