/**
 * Stores keep messages of QoS 1 and 2 beyond the life of a process. This entry has what they have in common, for a store of your own, and
 * one in memory. `@tautwire/client/file-store` is for Node.js, `@tautwire/client/indexeddb-store` for browsers.
 *
 * @packageDocumentation
 */

import type { Client } from "../client/client.js";
import type { Connection } from "../client/connection.js";
import { asMqttError, MqttError } from "../errors.js";
import type { Change, StoredSession } from "./change.js";
import { SessionKeeper } from "./keeper.js";
import { Ledger } from "./ledger.js";

export type { Change, StoredMessage, StoredSession } from "./change.js";

/**
 * Keeps one session, for one client at a time. A store of your own extends this class. The client calls {@link load} once, then
 * {@link record} for each change, and {@link sync} before it acts on what it has recorded.
 */
export abstract class Store {
  private owner: Connection | undefined;
  private keeper: SessionKeeper | undefined;
  private ending: Promise<void> | undefined;

  /**
   * The session that the recorded changes lead to.
   *
   * @throws {MqttError} `store_failed`, `store_corrupt`
   */
  abstract load(): StoredSession;

  /** Adds a change. Must not throw. The store may keep the packet, which is never modified. */
  abstract record(change: Change): void;

  /**
   * Resolves when all that was recorded before the call is as durable as the store makes it. What depends on it is sent then. If it
   * rejects, the client drops its connection and tries again later.
   *
   * An application can call it, too: a message that was published before is safe when it resolves.
   */
  abstract sync(): Promise<void>;

  /** Syncs, and gives up what the store holds. The client calls it when it ends. */
  abstract close(): Promise<void>;

  /**
   * @internal The client begins.
   * @throws {MqttError} `store_in_use`, `invalid_options`: it has the session of another client identifier.
   */
  attach(client: Client): void {
    const { connection } = client;
    try {
      if (this.owner !== undefined) throw new MqttError("store_in_use", "another client has it");
      this.owner = connection;
      this.keeper = new SessionKeeper(this, client);
    } catch (thrown) {
      const error = asMqttError(thrown, "store_failed");
      connection.end(error);
      throw error;
    }
  }

  /** @internal The client has ended. Never rejects: there is nobody to do anything about it. */
  async end(connection: Connection): Promise<void> {
    if (this.owner !== connection) return;
    this.keeper?.detach();
    this.ending ??= this.close().catch(() => undefined);
    await this.ending;
    this.ending = this.owner = this.keeper = undefined;
  }
}

/** Keeps a session for one client after another, while the process lives. */
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
