// Many sessions for a real broker, without a connection for each: a mosquitto.db (docs/internals/mosquitto-db.md), which `tautwire import`
// converts to a data directory.

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { promisify } from "node:util";

export const FLEET = 100_000;
/** The number of messages queued for the client of `busy()`. */
export const BUSY_MESSAGES = 7;
const NEVER_S = 0xffff_ffff;

export const nameOf = (number) => `away-${String(number).padStart(6, "0")}`;
/** The client with queued messages. */
export const busy = () => nameOf(777);

/** Creates a data directory with the sessions of offline clients. `database`: the path of the intermediate file. */
export async function makeFleet(binary, database, data) {
  const chunks = [Buffer.from("\0\u00b5\0mosquitto db", "latin1"), u32(0), u32(6), chunk(1, u64(1), Buffer.from([1, 8, 0, 0, 0, 0, 0, 0]))];
  const [topic, payload] = [Buffer.from("fleet/news"), Buffer.from("news")];
  chunks.push(chunk(2, u64(1), u64(0), u32(payload.length), u16(0), u16(0), u16(0), u16(topic.length), u16(0), Buffer.from([1, 0]), topic, payload));
  for (let number = 1; number <= FLEET; number += 1) {
    const id = Buffer.from(nameOf(number));
    chunks.push(chunk(6, u64(0), u32(NEVER_S), u16(0), u16(id.length), u16(1883), u16(0), u32(0), id));
    const filter = Buffer.from("fleet/+");
    chunks.push(chunk(5, u32(0), u16(id.length), u16(filter.length), Buffer.from([1, 0, 0, 0]), id, filter));
  }
  const id = Buffer.from(busy());
  for (let number = 0; number < BUSY_MESSAGES; number += 1) {
    chunks.push(chunk(3, u64(1), u16(number + 1), u16(id.length), Buffer.from([1, 11, 0, 1]), id));
  }
  await writeFile(database, Buffer.concat(chunks));
  await promisify(execFile)(binary, ["import", "mosquitto", "--data", data, database]);
}

function chunk(kind, ...parts) {
  const body = Buffer.concat(parts);
  return Buffer.concat([u32(kind), u32(body.length), body]);
}

function u16(value) {
  return Buffer.from([value >> 8, value & 0xff]);
}

function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Little-endian. */
function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
