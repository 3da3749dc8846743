import { Store } from "./store.js";

/** A store that runs one sync at a time. A call during a sync waits for the next one, which includes all changes until it starts. */
export abstract class SyncedStore extends Store {
  private working: Promise<void> = Promise.resolve();
  private next: Promise<void> | null = null;

  /** Makes all changes durable that were recorded before the call. {@link sync} rejects if this rejects. */
  protected abstract write(): Promise<void>;

  override sync(): Promise<void> {
    if (this.next === null) {
      this.next = this.working.then(() => {
        this.next = null;
        return this.write();
      });
      this.working = this.next.catch(() => undefined);
    }
    return this.next;
  }
}
