/**
 * Stores persist QoS 1 and 2 messages across processes. This entry has the base class for custom stores, and a store
 * in memory. `@tautwire/client/file-store` is for Node.js, `@tautwire/client/indexeddb-store` for browsers.
 *
 * @packageDocumentation
 */

import type { Client } from "../client/client.js";
import type { Connection } from "../client/connection.js";
import { asMqttError, MqttError } from "../errors.js";
import type { Change, StoredSession } from "./change.js";
import { SessionRecorder } from "./recorder.js";
import { Ledger } from "./ledger.js";

export type { Change, StoredMessage, StoredSession } from "./change.js";

/**
 * Persists one session, for one client at a time. Custom stores extend this class. The client calls {@link load} once, then
 * {@link record} for each change, and {@link sync} before it sends packets that depend on recorded changes.
 */
export abstract class Store {
  private owner: Connection | undefined;
  private recorder: SessionRecorder | undefined;
  private ending: Promise<void> | undefined;

  /**
   * Returns the session that results from the recorded changes.
   *
   * @throws {MqttError} `store_failed`, `store_corrupt`
   */
  abstract load(): StoredSession;

  /** Records a change. Must not throw. The store may keep a reference to the packet, which is never modified. */
  abstract record(change: Change): void;

  /**
   * Resolves when all changes that were recorded before the call are durable. The client then sends the packets that depend on them.
   * If it rejects, the client drops its connection and tries again later.
   *
   * An application can call it, too: when it resolves, messages that were published before are durable.
   */
  abstract sync(): Promise<void>;

  /** Syncs, and releases the resources of the store. The client calls it when it ends. */
  abstract close(): Promise<void>;

  /**
   * @internal Attaches the store to a new client.
   * @throws {MqttError} `store_in_use`, `invalid_options`: the store has the session of another client identifier.
   */
  attach(client: Client): void {
    const { connection } = client;
    try {
      if (this.owner !== undefined) throw new MqttError("store_in_use", "another client uses it");
      this.owner = connection;
      this.recorder = new SessionRecorder(this, client);
    } catch (thrown) {
      const error = asMqttError(thrown, "store_failed");
      connection.end(error);
      throw error;
    }
  }

  /** @internal The client has ended. Never rejects, because nothing could handle the error. */
  async end(connection: Connection): Promise<void> {
    if (this.owner !== connection) return;
    this.recorder?.detach();
    this.ending ??= this.close().catch(() => undefined);
    await this.ending;
    this.ending = this.owner = this.recorder = undefined;
  }
}

/** A session in memory, for successive clients of one process. */
export class MemoryStore extends Store {
  private readonly ledger = new Ledger();
  private readonly packets = new Map<number, Uint8Array>();

  override load(): StoredSession {
    const { clientId, received } = this.ledger;
    const outgoing = this.ledger.inOrder().map(([sequence, message]) => ({
      ...message,
      sequence,
      packet: this.packets.get(sequence) ?? null,
    }));
    return { clientId, outgoing, received: [...received] };
  }

  override record(change: Change): void {
    if (!this.ledger.apply(change)) return;
    if (change.kind === "queued") this.packets.set(change.sequence, change.packet);
    else if (change.kind === "released" || change.kind === "done") this.packets.delete(change.sequence);
  }

  override sync(): Promise<void> {
    return Promise.resolve();
  }

  override close(): Promise<void> {
    return Promise.resolve();
  }
}
