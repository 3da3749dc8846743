// Finds the subscriptions for a topic name (section 4.7), and caches the result for repeated topics.

/** The size of the cache, in topics. When it is full, it is cleared. */
const CACHE_MAX = 2_048;

interface Node<T> {
  children: Map<string, Node<T>> | null;
  /** The values of filters that end at this level. */
  values: T[];
  /** The values of filters that end with `#` below this level. */
  rest: T[];
}

const newNode = <T>(): Node<T> => ({ children: null, values: [], rest: [] });

/** Maps topic filters to values. */
export class Router<T> {
  private root: Node<T> = newNode();
  private readonly cache = new Map<string, readonly T[]>();

  /** Adds a value for a filter, which may be shared: `$share/NAME/FILTER`. */
  add(filter: string, value: T): void {
    this.cache.clear();
    this.slot(filter).push(value);
  }

  remove(filter: string, value: T): void {
    this.cache.clear();
    const slot = this.slot(filter);
    const at = slot.indexOf(value);
    if (at >= 0) slot.splice(at, 1);
    if (slot.length === 0) prune(this.root, innerFilter(filter).split("/"), 0);
  }

  private slot(filter: string): T[] {
    let node = this.root;
    for (const level of innerFilter(filter).split("/")) {
      if (level === "#") return node.rest;
      node.children ??= new Map<string, Node<T>>();
      let next = node.children.get(level);
      if (next === undefined) {
        next = newNode();
        node.children.set(level, next);
      }
      node = next;
    }
    return node.values;
  }

  /** Returns all values whose filter matches the topic. Do not modify the array: it is cached. */
  match(topic: string): readonly T[] {
    const cached = this.cache.get(topic);
    if (cached !== undefined) return cached;
    const values: T[] = [];
    collect(this.root, topic.split("/"), 0, values);
    if (this.cache.size >= CACHE_MAX) this.cache.clear();
    this.cache.set(topic, values);
    return values;
  }
}

function collect<T>(node: Node<T>, levels: readonly string[], at: number, into: T[]): void {
  // Wildcards at the beginning do not match topics that begin with $ [MQTT-4.7.2-1].
  const takesWildcards = at > 0 || !levels[0]!.startsWith("$");
  // `#` matches its parent level too.
  if (takesWildcards) into.push(...node.rest);
  if (at === levels.length) {
    into.push(...node.values);
    return;
  }
  const exact = node.children?.get(levels[at]!);
  if (exact !== undefined) collect(exact, levels, at + 1, into);
  const any = takesWildcards ? node.children?.get("+") : undefined;
  if (any !== undefined && any !== exact) collect(any, levels, at + 1, into);
}

/** Removes the nodes of a filter that are empty. */
function prune<T>(node: Node<T>, levels: readonly string[], at: number): void {
  const child = node.children?.get(levels[at]!);
  if (child === undefined) return;
  prune(child, levels, at + 1);
  if (child.values.length === 0 && child.rest.length === 0 && (child.children?.size ?? 0) === 0) {
    node.children!.delete(levels[at]!);
  }
}

/** Returns the filter without the prefix of a shared subscription. */
export function innerFilter(filter: string): string {
  return filter.startsWith("$share/") ? filter.slice(filter.indexOf("/", 7) + 1) : filter;
}
