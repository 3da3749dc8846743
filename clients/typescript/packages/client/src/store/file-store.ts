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

/** The file is compacted when more bytes than this, and more than half of it, are garbage: 1 MiB. */
const COMPACT_BYTES = 1024 * 1024;
/** The size of one write during compaction. */
const PIECE_BYTES = 64 * 1024;

/** Options of a {@link FileStore}. */
export interface FileStoreOptions {
  /**
   * Whether each sync flushes to the device. Default: true. With false the session survives a crash of the process, but a
   * power failure may lose the latest changes.
   */
  sync?: boolean | undefined;
  /** The file is compacted when more bytes than this, and more than half of it, are garbage. Default: 1 MiB. */
  compactBytes?: number | undefined;
}

/** The position of the record that queued a message. */
interface Place {
  offset: number;
  readonly length: number;
}

/**
 * A session in a file, which survives a crash of the process or the machine at any time. The clients in Go and Rust use the same format.
 * One process at a time can have it open. Temporary files next to it have the suffixes `.new`, `.pid` and `.pid.guard`.
 */
export class FileStore extends SyncedStore {
  /** The number of bytes of an incomplete record, left by a crash, that opening the file has truncated. */
  readonly droppedBytes: number = 0;
  private readonly ledger = new Ledger();
  private readonly places = new Map<number, Place>();
  /** The packets that {@link load} returns. */
  private found: Map<number, Uint8Array> | null = new Map();
  private pending: Buffer[] = [];
  /** The size of the file, and its size with the pending records. */
  private written = HEADER_BYTES;
  private size = HEADER_BYTES;
  /** The size of the records of messages that are not complete. */
  private live = 0;
  private failure: MqttError | null = null;
  private closing: Promise<void> | null = null;
  /** The number of garbage bytes above which the file is compacted. */
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
   * Opens the session in a file, or creates an empty one.
   *
   * @throws {MqttError} As a rejection: `store_in_use`; `store_corrupt`: the file is not a session store, and is left unchanged;
   * `store_failed`.
   */
  static async open(path: string, options: FileStoreOptions = {}): Promise<FileStore> {
    let unlock: (() => void) | undefined;
    let file: FileHandle | undefined;
    try {
      unlock = await lock(path);
      // A crash during compaction leaves this file.
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

  /** Reads the records, and truncates an incomplete one at the end. */
  private async read(): Promise<void> {
    const content = await this.file.readFile();
    if (content.length < HEADER_BYTES) {
      this.setDropped(content.length);
      await this.begin();
      return;
    }
    if (!content.subarray(0, HEADER_BYTES).equals(header())) {
      throw new MqttError("store_corrupt", `${this.path}: the file has no header of a session store`);
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
    await this.syncFile(this.file);
    await this.syncFolder();
  }

  /** Applies a change whose record has this length. Returns false if it is not valid. */
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
    if (found === null) throw new MqttError("store_failed", `${this.path}: the session was loaded already; open the store again`);
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

  /** A failed write can be retried. A failed sync is permanent, because the system does not tell which data is lost. */
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
      await this.failPermanently(() => this.syncFile(this.file));
      this.written += batch.length;
    }
    const garbage = this.written - HEADER_BYTES - this.live;
    // The ledger includes pending changes, which the file does not have yet: the next sync tries again.
    if (garbage <= this.compactBytes || garbage <= this.live || this.pending.length > 0) return;
    const isDone = await this.compact();
    // The sync has succeeded even if the compaction failed, for example because the disk is full.
    this.compactBytes = isDone ? (this.options.compactBytes ?? COMPACT_BYTES) : garbage * 2;
  }

  private async syncFile(file: FileHandle): Promise<void> {
    if (this.options.sync !== false) await file.datasync();
  }

  /** Syncs the directory, so that a created or renamed file survives a power failure. Windows does not support it. */
  private async syncFolder(): Promise<void> {
    if (process.platform === "win32") return;
    const folder = await open(dirname(this.path));
    try {
      if (this.options.sync !== false) await folder.sync();
    } finally {
      await folder.close();
    }
  }

  /** Runs a step whose failure is permanent. */
  private async failPermanently(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      this.failure = failed(this.path, error);
      throw this.failure;
    }
  }

  /** Compacts the file. Changes that are recorded meanwhile are after `end`. Returns false if the old file remains. */
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
    await this.failPermanently(async () => {
      // Some systems cannot rename over an open file. If the next step fails, both files are complete.
      await old.close();
      await rename(newPath(this.path), this.path);
      await this.syncFolder();
    });
    return true;
  }

  /** Returns the changes that recreate the session, after those that queue its messages. */
  private snapshot(): Change[] {
    const { ledger } = this;
    const changes: Change[] = [];
    if (ledger.clientId !== null) changes.push({ kind: "began", clientId: ledger.clientId });
    for (const packetId of ledger.received) changes.push({ kind: "received", packetId });
    const released: { sequence: number; release: number }[] = [];
    for (const [sequence, { packetId, release, version }] of ledger.inOrder()) {
      if (release > 0) {
        released.push({ sequence, release });
        // The packet is no longer needed, but only this kind of change can introduce the message.
        changes.push({ kind: "queued", sequence, version, packet: new Uint8Array() });
      }
      if (packetId > 0) changes.push({ kind: "sent", sequence, packetId });
    }
    released.sort((a, b) => a.release - b.release);
    for (const { sequence } of released) changes.push({ kind: "released", sequence });
    return changes;
  }

  /** Writes the compacted file. Returns the positions of the messages and the size of the file. */
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
        throw new MqttError("store_corrupt", `${this.path}: the file was changed by another program while it was open`);
      }
      moved.set(sequence, size);
      await add(record);
    }
    for (const change of changes) await add(recordOf(change));
    await flush();
    await this.syncFile(file);
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
      this.failure ??= new MqttError("store_failed", `${this.path}: the store is closed`);
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
