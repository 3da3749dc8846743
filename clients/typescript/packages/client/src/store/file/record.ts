// Records of a session file. The clients in Go and Rust use the same format, described in FORMAT.md of the Go client's store.

import type { Change } from "../change.js";
import { crc32c } from "./crc32c.js";

export const HEADER_BYTES = 16;
/** The size of a record without the packet or the client identifier at its end. */
export const RECORD_MIN_BYTES = 20;
const FRAME_BYTES = 8;
const BODY_MIN_BYTES = 12;
/** The fields of a body followed by a PUBLISH of the maximum size. */
const BODY_MAX_BYTES = BODY_MIN_BYTES + 5 + 268_435_455;
const MAGIC = "TWSTORE\n";
const FORMAT_VERSION = 1;
/** The kinds of changes, by their number in the file. */
const KINDS = ["", "began", "queued", "sent", "unsent", "released", "done", "received", "completed"] as const;

export function header(): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  bytes.write(MAGIC, "latin1");
  bytes.writeUInt32LE(FORMAT_VERSION, 8);
  bytes.writeUInt32LE(crc32c(bytes.subarray(0, 12)), 12);
  return bytes;
}

export function recordOf(change: Change): Buffer {
  const isQueued = change.kind === "queued";
  const rest = isQueued ? change.packet : Buffer.from(change.kind === "began" ? change.clientId : "");
  const record = Buffer.allocUnsafe(RECORD_MIN_BYTES + rest.length);
  record.writeUInt32LE(BODY_MIN_BYTES + rest.length);
  record[8] = KINDS.indexOf(change.kind);
  record[9] = isQueued ? change.version : 0;
  record.writeUInt16LE("packetId" in change ? change.packetId : 0, 10);
  record.writeBigUInt64LE("sequence" in change ? BigInt(change.sequence) : 0n, 12);
  record.set(rest, RECORD_MIN_BYTES);
  record.writeUInt32LE(checksum(record), 4);
  return record;
}

function checksum(record: Uint8Array): number {
  return crc32c(record.subarray(FRAME_BYTES), crc32c(record.subarray(0, 4)));
}

/** Reads the first record as a view of the bytes, with its length. Returns null if there is no complete, valid record. */
export function readRecord(bytes: Buffer): { change: Change; length: number } | null {
  if (bytes.length < RECORD_MIN_BYTES) return null;
  const bodyBytes = bytes.readUInt32LE();
  const length = FRAME_BYTES + bodyBytes;
  if (bodyBytes < BODY_MIN_BYTES || bodyBytes > BODY_MAX_BYTES || length > bytes.length) return null;
  const record = bytes.subarray(0, length);
  if (record.readUInt32LE(4) !== checksum(record)) return null;
  const change = changeOf(record);
  return change === null ? null : { change, length };
}

function changeOf(record: Buffer): Change | null {
  const kind = KINDS[record[8]!];
  const packetId = record.readUInt16LE(10);
  const sequence = Number(record.readBigUInt64LE(12));
  const rest = record.subarray(RECORD_MIN_BYTES);
  switch (kind) {
    case "began":
      return { kind, clientId: rest.toString() };
    case "queued":
      return { kind, sequence, version: record[9] === 4 ? 4 : 5, packet: rest };
    case "sent":
      return { kind, sequence, packetId };
    case "unsent":
    case "released":
    case "done":
      return { kind, sequence };
    case "received":
    case "completed":
      return { kind, packetId };
    default:
      return null;
  }
}
