import type { PublishProperties } from "@tautwire/mqtt-codec";

/** Shorter topics cost no more than the property that stands for them. */
const WORTH_BYTES = 6;

/** A topic that has a number on this connection. */
export interface TopicAlias {
  /** The property alone, shared by all messages that have no other. */
  readonly properties: PublishProperties;
  /** Whether the server knows it, so that the topic can be left out. */
  known: boolean;
  usedAt: number;
}

/**
 * The topic aliases of one connection to the server (section 3.3.2.3.4). The least recently used topic loses its number,
 * unless it was used so recently that topics would take numbers from each other all the time.
 */
export class TopicAliases {
  private readonly aliases = new Map<string, TopicAlias>();
  private clock = 0;

  constructor(private readonly maximum: number) {}

  /** The alias for a message on this topic, or undefined if it goes without. */
  take(topic: string): TopicAlias | undefined {
    const now = ++this.clock;
    const found = this.aliases.get(topic);
    if (found !== undefined) {
      found.usedAt = now;
      return found;
    }
    if (topic.length < WORTH_BYTES) return undefined;
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
    // One search in so many messages: topics that never repeat do not pay for one each.
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
