/** A double-ended queue in one array. It clears removed slots at once, and shrinks in large steps. */
export class Deque<T> {
  private items: (T | undefined)[] = [];
  private head = 0;

  get length(): number {
    return this.items.length - this.head;
  }

  push(item: T): void {
    this.items.push(item);
  }

  peek(): T | undefined {
    return this.items[this.head];
  }

  shift(): T | undefined {
    const { items, head } = this;
    const item = items[head];
    if (head === items.length) return undefined;
    items[head] = undefined;
    this.head = head + 1;
    if (this.head === items.length) this.clear();
    else if (this.head >= 1024 && this.head * 2 > items.length) {
      items.splice(0, this.head);
      this.head = 0;
    }
    return item;
  }

  /** Inserts items at the front. */
  prepend(items: readonly T[]): void {
    this.items = items.concat(this.drain());
  }

  remove(item: T): boolean {
    const at = this.items.indexOf(item, this.head);
    if (at < 0) return false;
    this.items.splice(at, 1);
    return true;
  }

  clear(): void {
    // The array keeps its capacity for the next burst, unless it is large.
    if (this.items.length > 4096) this.items = [];
    else this.items.length = 0;
    this.head = 0;
  }

  /** Removes and returns all items. */
  drain(): T[] {
    const all = this.items.slice(this.head) as T[];
    this.clear();
    return all;
  }
}
