import type { Change, StoredSession } from "./change.js";

/** The state of a message without its packet, which the store holds. */
export interface Entry {
  packetId: number;
  release: number;
  readonly version: 4 | 5;
}

/** The state of a session, to which changes are applied. */
export class Ledger {
  clientId: string | null = null;
  /** By sequence, in the order of publication. */
  readonly outgoing = new Map<number, Entry>();
  readonly received = new Set<number>();
  private releases = 0;

  /** Restores a stored session. */
  restore({ clientId, outgoing, received }: StoredSession): void {
    this.clientId = clientId;
    for (const { sequence, packetId, release, version } of outgoing) {
      this.outgoing.set(sequence, { packetId, release, version });
      this.releases = Math.max(this.releases, release);
    }
    for (const packetId of received) this.received.add(packetId);
  }

  /** Applies a change. Returns false and changes nothing if the change is not valid in this state. */
  apply(change: Change): boolean {
    switch (change.kind) {
      case "began":
        this.clientId = change.clientId;
        this.received.clear();
        return true;
      case "queued":
        this.outgoing.set(change.sequence, { packetId: 0, release: 0, version: change.version });
        return true;
      case "received":
        this.received.add(change.packetId);
        return true;
      case "completed":
        this.received.delete(change.packetId);
        return true;
    }
    const message = this.outgoing.get(change.sequence);
    if (message === undefined) return false;
    if (change.kind === "sent") message.packetId = change.packetId;
    else if (change.kind === "unsent") message.packetId = 0;
    else if (change.kind === "released") message.release = ++this.releases;
    else this.outgoing.delete(change.sequence);
    return true;
  }

  /** Returns the messages in the order of publication, which a compacted file does not preserve. */
  inOrder(): [sequence: number, message: Entry][] {
    return [...this.outgoing].sort(([a], [b]) => a - b);
  }
}
