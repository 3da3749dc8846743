/** A queue in one array: what has been taken is cleared at once, and its room given back in large pieces. */
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

  /** Puts these before all others. */
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
    // The array keeps its room for the next burst unless that was a large one.
    if (this.items.length > 4096) this.items = [];
    else this.items.length = 0;
    this.head = 0;
  }

  /** Takes all. */
  drain(): T[] {
    const all = this.items.slice(this.head) as T[];
    this.clear();
    return all;
  }
}
