type Listener = (...values: never[]) => void;

/** As much of an event emitter as users of a parser need, so that no platform has to bring one. */
export class Emitter {
  private readonly listeners = new Map<string, Listener[]>();

  on(event: string, listener: Listener): this {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
    return this;
  }

  addListener(event: string, listener: Listener): this {
    return this.on(event, listener);
  }

  once(event: string, listener: Listener): this {
    const first = (...values: never[]): void => {
      this.off(event, first);
      listener(...values);
    };
    return this.on(event, first);
  }

  off(event: string, listener: Listener): this {
    const kept = (this.listeners.get(event) ?? []).filter((other) => other !== listener);
    this.listeners.set(event, kept);
    return this;
  }

  removeListener(event: string, listener: Listener): this {
    return this.off(event, listener);
  }

  removeAllListeners(event?: string): this {
    if (event === undefined) this.listeners.clear();
    else this.listeners.delete(event);
    return this;
  }

  listenerCount(event: string): number {
    return this.listeners.get(event)?.length ?? 0;
  }

  /** An error that nobody listens for is thrown. */
  emit(event: string, value: unknown): boolean {
    const listeners = this.listeners.get(event) ?? [];
    if (listeners.length === 0 && event === "error") throw value;
    // The list is never changed, only replaced: listeners may come and go meanwhile.
    for (const listener of listeners) listener.call(this, value as never);
    return listeners.length > 0;
  }
}
