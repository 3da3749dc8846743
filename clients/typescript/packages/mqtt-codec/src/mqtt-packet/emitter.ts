/** The part of an event emitter that users of a parser need, without a dependency. `Events`: values by name. */
export class Emitter<Events extends object> {
  private readonly listeners = new Map<string, readonly ((value: never) => void)[]>();

  on<K extends keyof Events & string>(event: K, listener: (value: Events[K]) => void): this {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
    return this;
  }

  addListener<K extends keyof Events & string>(event: K, listener: (value: Events[K]) => void): this {
    return this.on(event, listener);
  }

  once<K extends keyof Events & string>(event: K, listener: (value: Events[K]) => void): this {
    const first = (value: Events[K]): void => {
      this.off(event, first);
      listener.call(this, value);
    };
    return this.on(event, first);
  }

  off<K extends keyof Events & string>(event: K, listener: (value: Events[K]) => void): this {
    const others = (this.listeners.get(event) ?? []).filter((other) => other !== listener);
    this.listeners.set(event, others);
    return this;
  }

  removeListener<K extends keyof Events & string>(event: K, listener: (value: Events[K]) => void): this {
    return this.off(event, listener);
  }

  removeAllListeners(event?: keyof Events & string): this {
    if (event === undefined) this.listeners.clear();
    else this.listeners.delete(event);
    return this;
  }

  listenerCount(event: keyof Events & string): number {
    return this.listeners.get(event)?.length ?? 0;
  }

  /** Emits an event. An `error` without listeners is thrown. */
  emit<K extends keyof Events & string>(event: K, value: Events[K]): boolean {
    const listeners = this.listeners.get(event) ?? [];
    if (listeners.length === 0 && event === "error") throw value as Error;
    // The list is replaced, never modified, so listeners can be added and removed during the loop.
    for (const listener of listeners) listener.call(this, value as never);
    return listeners.length > 0;
  }
}
