import { Store } from "./store.js";

/** A store that syncs once at a time. Whoever asks while it does waits for the next sync, which takes all that has come until it begins. */
export abstract class SyncedStore extends Store {
  private working: Promise<void> = Promise.resolve();
  private next: Promise<void> | null = null;

  /** Makes durable what was recorded before the call. {@link sync} rejects as it does. */
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
