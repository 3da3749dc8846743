/**
 * A session in IndexedDB, for browsers and their workers.
 *
 * @packageDocumentation
 */

import { asMqttError, messageOf, MqttError } from "../errors.js";
import type { Change, StoredSession } from "./change.js";
import { Ledger } from "./ledger.js";
import { SyncedStore } from "./synced-store.js";

export type { Change, StoredMessage, StoredSession } from "./change.js";

/** The version of the schema. A later one upgrades the stores of earlier ones. */
const SCHEMA_VERSION = 1;
/** The client identifier, under the key 0. */
const SESSION = "session";
/** The packets and the stages of outgoing messages, by sequence number. */
const PACKETS = "packets";
const STAGES = "stages";
/** The packet identifiers of incoming QoS 2 messages. */
const RECEIVED = "received";
const ALL = [SESSION, PACKETS, STAGES, RECEIVED];

/** An entry of {@link PACKETS}. */
interface Packet {
  readonly version: 4 | 5;
  readonly packet: Uint8Array;
}

/** An entry of {@link STAGES}. */
interface Stage {
  readonly version: 4 | 5;
  readonly packetId: number;
  readonly release: number;
}

/**
 * A session in IndexedDB, which survives the end of the tab and of the browser. Its transactions use `strict` durability. One tab
 * or worker at a time can have it open. It needs a secure context (https, or localhost) for the lock.
 */
export class IndexedDbStore extends SyncedStore {
  private readonly ledger = new Ledger();
  private found: StoredSession | null = null;
  /** The changes that are not in the database yet. */
  private isNew = false;
  private readonly changedMessages = new Set<number>();
  private readonly newPackets = new Map<number, Packet>();
  private readonly changedReceipts = new Set<number>();
  private closing: Promise<void> | null = null;

  private constructor(
    private readonly name: string,
    private readonly database: IDBDatabase,
    private readonly unlock: () => void,
  ) {
    super();
    // A later version of the program wants to upgrade the database, so this one closes it.
    database.onversionchange = () => {
      database.close();
    };
  }

  /**
   * Opens the session with this name, or creates an empty one.
   *
   * @throws {MqttError} As a rejection: `store_in_use`; `not_supported`: Web Locks are not available; `store_failed`.
   */
  static async open(name: string): Promise<IndexedDbStore> {
    const unlock = await lock(name);
    try {
      const store = new IndexedDbStore(name, await openDatabase(name), unlock);
      await store.read();
      return store;
    } catch (error) {
      unlock();
      throw failed(name, error);
    }
  }

  private async read(): Promise<void> {
    const transaction = this.database.transaction(ALL, "readonly");
    const all = (name: string) => transaction.objectStore(name);
    const clientId = result(all(SESSION).get(0) as IDBRequest<string | undefined>);
    const sequences = result(all(STAGES).getAllKeys());
    const stages = result(all(STAGES).getAll() as IDBRequest<Stage[]>);
    const packetKeys = result(all(PACKETS).getAllKeys());
    const packets = result(all(PACKETS).getAll() as IDBRequest<Packet[]>);
    const received = result(all(RECEIVED).getAllKeys());
    const packetOf = new Map<number, Uint8Array>();
    const values = await packets;
    (await packetKeys).forEach((key, at) => packetOf.set(key as number, values[at]!.packet));
    const stageOf = await stages;
    const outgoing = (await sequences).map((key, at) => {
      const sequence = key as number;
      return { ...stageOf[at]!, sequence, packet: packetOf.get(sequence) ?? null };
    });
    this.found = { clientId: (await clientId) ?? null, outgoing, received: (await received) as number[] };
    this.ledger.restore(this.found);
  }

  override load(): StoredSession {
    const { found } = this;
    if (found === null) throw new MqttError("store_failed", `${this.name}: the session was loaded already; open the store again`);
    this.found = null;
    return found;
  }

  override record(change: Change): void {
    const { ledger } = this;
    if (this.closing !== null) return;
    if (change.kind === "began") for (const packetId of ledger.received) this.changedReceipts.add(packetId);
    if (!ledger.apply(change)) return;
    if (change.kind === "began") this.isNew = true;
    else if ("packetId" in change && !("sequence" in change)) this.changedReceipts.add(change.packetId);
    else if ("sequence" in change) this.changedMessages.add(change.sequence);
    if (change.kind === "queued") this.newPackets.set(change.sequence, { version: change.version, packet: change.packet });
  }

  /** Writes all changes to the database in one transaction. */
  protected override async write(): Promise<void> {
    const { ledger, isNew } = this;
    const messages = [...this.changedMessages];
    const receipts = [...this.changedReceipts];
    if (!isNew && messages.length + receipts.length === 0) return;
    const packets = new Map(this.newPackets);
    this.isNew = false;
    this.changedMessages.clear();
    this.changedReceipts.clear();
    this.newPackets.clear();
    try {
      const transaction = this.database.transaction(ALL, "readwrite", { durability: "strict" });
      const ended = completion(transaction);
      const session = transaction.objectStore(SESSION);
      const stored = { packets: transaction.objectStore(PACKETS), stages: transaction.objectStore(STAGES) };
      const received = transaction.objectStore(RECEIVED);
      if (isNew) session.put(ledger.clientId, 0);
      for (const sequence of messages) {
        const message = ledger.outgoing.get(sequence);
        const packet = packets.get(sequence);
        if (message === undefined) stored.stages.delete(sequence);
        else stored.stages.put({ ...message } satisfies Stage, sequence);
        // The packet is no longer needed after PUBREC.
        if (message === undefined || message.release > 0) stored.packets.delete(sequence);
        else if (packet !== undefined) stored.packets.put(packet, sequence);
      }
      for (const packetId of receipts) {
        if (ledger.received.has(packetId)) received.put(1, packetId);
        else received.delete(packetId);
      }
      await ended;
    } catch (error) {
      // The next sync tries again.
      this.isNew ||= isNew;
      for (const sequence of messages) this.changedMessages.add(sequence);
      for (const packetId of receipts) this.changedReceipts.add(packetId);
      for (const [sequence, packet] of packets) this.newPackets.set(sequence, packet);
      throw failed(this.name, error);
    }
  }

  override close(): Promise<void> {
    this.closing ??= this.sync().finally(() => {
      this.database.close();
      this.unlock();
    });
    return this.closing;
  }
}

/** Takes a lock that ends with the tab. Returns a function that releases it. */
async function lock(name: string): Promise<() => void> {
  const { locks } = navigator as { locks?: LockManager };
  if (locks === undefined) {
    throw new MqttError("not_supported", "Web Locks need a secure context: load the page by https, or from localhost");
  }
  return new Promise((resolve, reject) => {
    const key = `tautwire-store ${name}`;
    locks
      .request(key, { ifAvailable: true }, (granted) => {
        if (granted === null) throw new MqttError("store_in_use", name);
        return new Promise<void>((unlock) => {
          resolve(unlock);
        });
      })
      .catch(reject);
  });
}

function openDatabase(name: string): Promise<IDBDatabase> {
  const opening = indexedDB.open(name, SCHEMA_VERSION);
  opening.onupgradeneeded = () => {
    for (const each of ALL) opening.result.createObjectStore(each);
  };
  return result(opening);
}

function result<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => {
      resolve(request.result);
    };
    request.onerror = () => {
      reject(request.error!);
    };
  });
}

function completion(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => {
      resolve();
    };
    transaction.onabort = () => {
      reject(transaction.error ?? new Error("the transaction was aborted"));
    };
  });
}

function failed(name: string, error: unknown): MqttError {
  return asMqttError(error, "store_failed", `${name}: ${messageOf(error)}`);
}
