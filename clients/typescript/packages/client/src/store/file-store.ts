/**
 * A session in a file, for Node.js, Deno and Bun.
 *
 * @packageDocumentation
 */

import { constants } from "node:fs";
import { open, rename, rm, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { asMqttError, messageOf, MqttError } from "../errors.js";
import "../with-texts.js";
import type { Change, StoredSession } from "./change.js";
import { lock } from "./file/lock.js";
import { header, HEADER_BYTES, readRecord, recordOf, RECORD_MIN_BYTES } from "./file/record.js";
import { Ledger } from "./ledger.js";
import { SyncedStore } from "./synced-store.js";

export type { Change, StoredMessage, StoredSession } from "./change.js";

/** The file is written anew when so many bytes of it are useless, and more than are of use: 1 MiB. */
const COMPACT_BYTES = 1024 * 1024;
/** Records are gathered to pieces of this size when the file is written anew. */
const PIECE_BYTES = 64 * 1024;

/** How a file is kept. */
export interface FileStoreOptions {
  /**
   * Whether each sync reaches the device. Default: true. With false the session survives a crash of the process, and may be set back by a
   * loss of power.
   */
  sync?: boolean | undefined;
  /** The file is written anew when so many bytes of it are useless, and more than are of use. Default: 1 MiB. */
  compactBytes?: number | undefined;
}

/** Where the record lies that queued a message. */
interface Place {
  offset: number;
  readonly length: number;
}

/**
 * A session in a file, safe against a crash of the process or the machine at any time. The format is that of the clients in Go and Rust.
 * One process at a time can have it open. Beside it are, at times, files with the endings `.new`, `.pid` and `.pid.guard`.
 */
export class FileStore extends SyncedStore {
  /** Bytes that opening has cut off, because a crash had left them unfinished. */
  readonly droppedBytes: number = 0;
  private readonly ledger = new Ledger();
  private readonly places = new Map<number, Place>();
  /** The packets that {@link load} gives. */
  private found: Map<number, Uint8Array> | null = new Map();
  private pending: Buffer[] = [];
  /** What the file has, and what it will have with what is pending. */
  private written = HEADER_BYTES;
  private size = HEADER_BYTES;
  /** Bytes of records of messages that wait. */
  private live = 0;
  private failure: MqttError | null = null;
  private closing: Promise<void> | null = null;
  /** The least number of useless bytes for which the file is written anew. */
  private compactBytes: number;

  private constructor(
    private readonly path: string,
    private file: FileHandle,
    private readonly options: FileStoreOptions,
    private readonly unlock: () => void,
  ) {
    super();
    this.compactBytes = options.compactBytes ?? COMPACT_BYTES;
  }

  /**
   * Opens the session in a file, or begins an empty one.
   *
   * @throws {MqttError} As a rejection: `store_in_use`; `store_corrupt`: it is no session file, and stays as it is; `store_failed`.
   */
  static async open(path: string, options: FileStoreOptions = {}): Promise<FileStore> {
    let unlock: (() => void) | undefined;
    let file: FileHandle | undefined;
    try {
      unlock = await lock(path);
      // What a crash left while the file was written anew.
      await rm(newPath(path), { force: true });
      file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
      const store = new FileStore(path, file, options, unlock);
      await store.read();
      return store;
    } catch (error) {
      await file?.close();
      unlock?.();
      throw failed(path, error);
    }
  }

  /** Takes over the records, and cuts off what a crash left behind them. */
  private async read(): Promise<void> {
    const content = await this.file.readFile();
    if (content.length < HEADER_BYTES) {
      this.setDropped(content.length);
      await this.begin();
      return;
    }
    if (!content.subarray(0, HEADER_BYTES).equals(header())) {
      throw new MqttError("store_corrupt", `${this.path}: it does not begin as a session file`);
    }
    for (;;) {
      const record = readRecord(content.subarray(this.size));
      if (record === null || !this.note(record.change, record.length)) break;
    }
    this.written = this.size;
    this.setDropped(content.length - this.size);
    if (this.droppedBytes > 0) await this.file.truncate(this.size);
    for (const [sequence, { offset, length }] of this.places) {
      this.found?.set(sequence, content.subarray(offset + RECORD_MIN_BYTES, offset + length));
    }
  }

  private setDropped(count: number): void {
    (this as { droppedBytes: number }).droppedBytes = count;
  }

  private async begin(): Promise<void> {
    await this.file.truncate(0);
    await writeAll(this.file, header(), 0);
    await this.reach(this.file);
    await this.reachFolder();
  }

  /** Takes a change into account whose record has this length. */
  private note(change: Change, length: number): boolean {
    if (!this.ledger.apply(change)) return false;
    if (change.kind === "queued") {
      this.places.set(change.sequence, { offset: this.size, length });
      this.live += length;
    } else if (change.kind === "released" || change.kind === "done") {
      this.live -= this.places.get(change.sequence)?.length ?? 0;
      this.places.delete(change.sequence);
    }
    this.size += length;
    return true;
  }

  override load(): StoredSession {
    const { ledger, found } = this;
    if (found === null) throw new MqttError("store_failed", `${this.path}: it has been loaded, open it anew`);
    this.found = null;
    const outgoing = ledger.inOrder().map(([sequence, message]) => ({
      ...message,
      sequence,
      packet: found.get(sequence) ?? null,
    }));
    return { clientId: ledger.clientId, outgoing, received: [...ledger.received] };
  }

  override record(change: Change): void {
    const record = recordOf(change);
    if (this.closing === null && this.note(change, record.length)) this.pending.push(record);
  }

  /** After an error of writing it can be tried again. One of syncing stays: the system does not tell what of the data is lost. */
  protected override async write(): Promise<void> {
    if (this.failure !== null) throw this.failure;
    const batch = Buffer.concat(this.pending);
    if (batch.length > 0) {
      this.pending = [];
      try {
        await writeAll(this.file, batch, this.written);
      } catch (error) {
        this.pending.unshift(batch);
        throw failed(this.path, error);
      }
      await this.lastingly(() => this.reach(this.file));
      this.written += batch.length;
    }
    const useless = this.written - HEADER_BYTES - this.live;
    // The ledger knows what is pending already: with something there the two differ, and the next sync tries again.
    if (useless <= this.compactBytes || useless <= this.live || this.pending.length > 0) return;
    const isDone = await this.compact();
    // What was to be synced is synced, whether there was room for another file or not.
    this.compactBytes = isDone ? (this.options.compactBytes ?? COMPACT_BYTES) : useless * 2;
  }

  private async reach(file: FileHandle): Promise<void> {
    if (this.options.sync !== false) await file.datasync();
  }

  /** A file that was made or renamed is there after a loss of power when its folder is synced. Windows has nothing of the kind. */
  private async reachFolder(): Promise<void> {
    if (process.platform === "win32") return;
    const folder = await open(dirname(this.path));
    try {
      if (this.options.sync !== false) await folder.sync();
    } finally {
      await folder.close();
    }
  }

  private async lastingly(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      this.failure = failed(this.path, error);
      throw this.failure;
    }
  }

  /** Writes the file anew with what is of use. Changes may be recorded meanwhile; they lie behind `end`. False: it stays as it is. */
  private async compact(): Promise<boolean> {
    const { size: end } = this;
    const changes = this.snapshot();
    const places = [...this.places].map(([sequence, place]) => ({ sequence, ...place }));
    let file: FileHandle | undefined;
    let rewritten: { moved: Map<number, number>; size: number };
    try {
      file = await open(newPath(this.path), "w+", 0o600);
      rewritten = await this.rewrite(file, places, changes);
    } catch {
      await file?.close();
      await rm(newPath(this.path), { force: true });
      return false;
    }
    const { moved, size } = rewritten;
    const old = this.file;
    this.file = file;
    this.written = size;
    this.size += size - end;
    for (const [sequence, place] of this.places) {
      place.offset = place.offset >= end ? place.offset + size - end : moved.get(sequence)!;
    }
    await this.lastingly(async () => {
      // Some systems do not rename over an open file. Either file is whole, should the next step fail.
      await old.close();
      await rename(newPath(this.path), this.path);
      await this.reachFolder();
    });
    return true;
  }

  /** The changes that lead to the session, behind those that queued the messages which wait. */
  private snapshot(): Change[] {
    const { ledger } = this;
    const changes: Change[] = [];
    if (ledger.clientId !== null) changes.push({ kind: "began", clientId: ledger.clientId });
    for (const packetId of ledger.received) changes.push({ kind: "received", packetId });
    const released: { sequence: number; release: number }[] = [];
    for (const [sequence, { packetId, release, version }] of ledger.inOrder()) {
      if (release > 0) {
        released.push({ sequence, release });
        // The packet is of no more use; a change of another kind cannot introduce the message.
        changes.push({ kind: "queued", sequence, version, packet: new Uint8Array() });
      }
      if (packetId > 0) changes.push({ kind: "sent", sequence, packetId });
    }
    released.sort((a, b) => a.release - b.release);
    for (const { sequence } of released) changes.push({ kind: "released", sequence });
    return changes;
  }

  /** Fills the file; says where the messages are in it, and how long it is. */
  private async rewrite(
    file: FileHandle,
    places: readonly (Place & { sequence: number })[],
    changes: readonly Change[],
  ): Promise<{ moved: Map<number, number>; size: number }> {
    const moved = new Map<number, number>();
    let piece: Buffer[] = [header()];
    let size = HEADER_BYTES;
    let written = 0;
    const flush = async () => {
      await writeAll(file, Buffer.concat(piece), written);
      piece = [];
      written = size;
    };
    const add = async (record: Buffer) => {
      piece.push(record);
      size += record.length;
      if (size - written >= PIECE_BYTES) await flush();
    };
    for (const { sequence, offset, length } of places) {
      const record = Buffer.allocUnsafe(length);
      const { bytesRead } = await this.file.read(record, 0, length, offset);
      if (bytesRead < length || readRecord(record) === null) {
        throw new MqttError("store_corrupt", `${this.path}: it has changed while it was open`);
      }
      moved.set(sequence, size);
      await add(record);
    }
    for (const change of changes) await add(recordOf(change));
    await flush();
    await this.reach(file);
    return { moved, size };
  }

  override close(): Promise<void> {
    this.closing ??= this.finish();
    return this.closing;
  }

  private async finish(): Promise<void> {
    try {
      await this.sync();
    } finally {
      this.failure ??= new MqttError("store_failed", `${this.path}: it has been closed`);
      await this.file.close();
      this.unlock();
    }
  }
}

function newPath(path: string): string {
  return `${path}.new`;
}

async function writeAll(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

function failed(path: string, error: unknown): MqttError {
  return asMqttError(error, "store_failed", `${path}: ${messageOf(error)}`);
}
