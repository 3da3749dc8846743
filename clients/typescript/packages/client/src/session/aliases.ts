import type { PublishProperties } from "@tautwire/mqtt-codec";

/** Topics shorter than this are not longer than the alias property itself. */
const MIN_TOPIC_BYTES = 6;

/** The alias of a topic on this connection. */
export interface TopicAlias {
  /** Properties with only the alias, shared by all messages without other properties. */
  readonly properties: PublishProperties;
  /** Whether the server has received the alias, so that the topic can be left out. */
  known: boolean;
  usedAt: number;
}

/**
 * The topic aliases of one connection to the server (section 3.3.2.3.4). The least recently used topic is evicted,
 * unless it was used so recently that the aliases would thrash.
 */
export class TopicAliases {
  private readonly aliases = new Map<string, TopicAlias>();
  private clock = 0;

  constructor(private readonly maximum: number) {}

  /** Returns the alias for a message on this topic, or undefined if it gets none. */
  take(topic: string): TopicAlias | undefined {
    const now = ++this.clock;
    const found = this.aliases.get(topic);
    if (found !== undefined) {
      found.usedAt = now;
      return found;
    }
    if (topic.length < MIN_TOPIC_BYTES) return undefined;
    let number = this.aliases.size + 1;
    if (number > this.maximum) {
      number = this.evict(now);
      if (number === 0) return undefined;
    }
    const alias = { properties: Object.freeze({ topicAlias: number }), known: false, usedAt: now };
    this.aliases.set(topic, alias);
    return alias;
  }

  private evict(now: number): number {
    // Search only once in 8 messages, because topics that never repeat would cause a search each.
    if (now % 8 !== 0) return 0;
    let oldest = "";
    let usedAt = now;
    for (const [topic, alias] of this.aliases) {
      if (alias.usedAt < usedAt) {
        usedAt = alias.usedAt;
        oldest = topic;
      }
    }
    if (now - usedAt < 2 * this.maximum) return 0;
    const number = this.aliases.get(oldest)?.properties.topicAlias ?? 0;
    this.aliases.delete(oldest);
    return number;
  }
}
