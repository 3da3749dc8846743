// The topic filters that the client wants to be subscribed to (sections 3.8 to 3.11), over all connections. Several subscriptions
// to one filter are one to the server, which is asked for what suits all of them.

import type { QoS, Suback, Unsuback, UserProperty } from "@tautwire/mqtt-codec";
import { asMqttError, MqttError } from "../errors.js";
import type { Link } from "./link.js";
import type { PacketIds } from "./packet-ids.js";

/** SUBSCRIBE and UNSUBSCRIBE that wait for an answer at the same time: more would leave no identifiers for messages. */
const PENDING_MAX = 8_192;

/** How a subscription is asked for (section 3.8.3.1). */
export interface FilterOptions {
  /** The highest QoS that messages may come with. Default: 0. */
  qos?: QoS | undefined;
  /** Whether messages that this client published stay away. MQTT 5.0. */
  noLocal?: boolean | undefined;
  /** Whether forwarded messages keep their retain flag. MQTT 5.0. */
  retainAsPublished?: boolean | undefined;
  /** When retained messages are sent: 0 now (default), 1 if the subscription did not exist, 2 never. MQTT 5.0. */
  retainHandling?: 0 | 1 | 2 | undefined;
  /** MQTT 5.0. */
  userProperties?: readonly UserProperty[] | undefined;
}

const NO_LOCAL = 4;
const RETAIN_AS_PUBLISHED = 8;

/** Told when the server has answered: null, and the QoS it granted. */
export type Granted = (error: MqttError | null, qos: QoS) => void;

interface Wanted {
  readonly filter: string;
  /** What each of its subscriptions asks for. None: the filter is being left. */
  readonly members: FilterOptions[];
  /** Comes back with its messages; 0 for none. */
  readonly identifier: number;
  stage: "idle" | "asked" | "granted" | "leaving";
  /** What the server was asked for last, as {@link merge} gives it. */
  asked: number;
  /** The packet identifier of that SUBSCRIBE. */
  packetId: number;
  /** What the server granted last. */
  granted: QoS;
  /** Of the next SUBSCRIBE. */
  retainHandling: 0 | 1 | 2;
  userProperties: readonly UserProperty[] | undefined;
  waiting: Granted[];
  leaving: Granted[];
}

interface Pending {
  readonly wanted: Wanted;
  readonly isSubscribe: boolean;
  readonly waiting: Granted[];
}

export class Filters {
  private readonly wanted = new Map<string, Wanted>();
  private readonly pending = new Map<number, Pending>();
  /** Those for which a packet is to be sent. */
  private readonly todo = new Set<Wanted>();

  constructor(
    private readonly link: Link,
    private readonly ids: PacketIds,
    /** Is told when a subscription was refused, also long after it was granted first. */
    private readonly owner: { onRefused(filter: string, error: MqttError): void },
  ) {}

  /** SUBSCRIBE and UNSUBSCRIBE that the server has not answered. */
  get open(): number {
    return this.pending.size;
  }

  /** Adds a subscription, which is known by its options from then on. */
  subscribe(filter: string, identifier: number, options: FilterOptions, granted: Granted): void {
    let wanted = this.wanted.get(filter);
    if (wanted === undefined) {
      wanted = newWanted(filter, identifier);
      this.wanted.set(filter, wanted);
    }
    wanted.members.push(options);
    const { retainHandling = 0 } = options;
    // Who wants the retained messages gets them by another SUBSCRIBE alone.
    if (wanted.stage === "granted" && retainHandling > 0 && wanted.asked === merge(wanted.members)) {
      granted(null, wanted.granted);
      return;
    }
    // An UNSUBSCRIBE that has not been sent will not be.
    for (const done of wanted.leaving.splice(0)) done(null, 0);
    wanted.waiting.push(granted);
    wanted.userProperties = options.userProperties;
    // Of several that have not been sent, the one that wants most counts.
    this.ask(wanted, wanted.stage === "idle" ? (Math.min(wanted.retainHandling, retainHandling) as 0 | 1 | 2) : retainHandling);
  }

  private ask(wanted: Wanted, retainHandling: 0 | 1 | 2): void {
    wanted.stage = "idle";
    wanted.retainHandling = retainHandling;
    this.todo.add(wanted);
    this.pump();
  }

  /** Ends the subscription with these options. Those that are left keep what they asked for. */
  unsubscribe(filter: string, options: FilterOptions, done: Granted): void {
    const wanted = this.wanted.get(filter);
    const at = wanted?.members.indexOf(options) ?? -1;
    if (wanted === undefined || at < 0) {
      done(null, 0);
      return;
    }
    wanted.members.splice(at, 1);
    if (wanted.members.length > 0) {
      done(null, 0);
      // Nobody has asked for the retained messages once more.
      if (wanted.stage !== "idle" && wanted.asked !== merge(wanted.members)) this.ask(wanted, 2);
      return;
    }
    wanted.stage = "leaving";
    wanted.leaving.push(done);
    this.todo.add(wanted);
    this.pump();
  }

  /** Sends what has not been asked for yet. */
  pump(): void {
    if (!this.link.isUp) return;
    for (const wanted of this.todo) {
      if (this.pending.size >= PENDING_MAX) return;
      this.todo.delete(wanted);
      if (wanted.stage === "idle") this.sendSubscribe(wanted);
      else if (wanted.leaving.length > 0) this.sendUnsubscribe(wanted);
    }
  }

  private sendSubscribe(wanted: Wanted): void {
    const { filter, members, identifier, retainHandling, userProperties } = wanted;
    const waiting = wanted.waiting.splice(0);
    const asked = merge(members);
    const packetId = this.ids.take();
    wanted.stage = "asked";
    wanted.asked = asked;
    wanted.packetId = packetId;
    try {
      const noLocal = (asked & NO_LOCAL) !== 0;
      this.check(filter, noLocal);
      const { limits, version } = this.link;
      const qos = (asked & 3) as QoS;
      const retainAsPublished = (asked & RETAIN_AS_PUBLISHED) !== 0;
      const isV5 = version === 5;
      const withIdentifier = identifier > 0 && isV5 && limits.subscriptionIdentifierAvailable !== false;
      this.link.send(
        {
          type: "subscribe",
          packetId,
          requests: [isV5 ? { filter, qos, noLocal, retainAsPublished, retainHandling } : { filter, qos }],
          properties: {
            ...(withIdentifier ? { subscriptionIdentifier: identifier } : undefined),
            ...(isV5 && userProperties !== undefined ? { userProperties } : undefined),
          },
        },
        filter.length * 3 + 32,
      );
      this.pending.set(packetId, { wanted, isSubscribe: true, waiting });
    } catch (error) {
      this.ids.release(packetId);
      this.refuse(wanted, waiting, asMqttError(error, "invalid_argument"));
    }
  }

  /** What the server has said it does not do `[MQTT-3.2.2-16]`, and what 3.1.1 cannot say. */
  private check(filter: string, noLocal: boolean): void {
    const { limits, version } = this.link;
    const isShared = filter.startsWith("$share/");
    if (isShared && limits.sharedSubscriptionAvailable === false) fail("shared subscriptions");
    if (limits.wildcardSubscriptionAvailable === false && /[+#]/.test(filter)) fail("wildcards");
    if (noLocal && version !== 5) fail("noLocal before MQTT 5.0");
  }

  private sendUnsubscribe(wanted: Wanted): void {
    const packetId = this.ids.take();
    const waiting = wanted.leaving.splice(0);
    try {
      this.link.send({ type: "unsubscribe", packetId, filters: [wanted.filter] }, wanted.filter.length * 3 + 16);
      this.pending.set(packetId, { wanted, isSubscribe: false, waiting });
    } catch (error) {
      this.ids.release(packetId);
      this.forget(wanted);
      for (const done of waiting) done(asMqttError(error, "invalid_argument"), 0);
    }
  }

  onSuback(packet: Suback): void {
    const pending = this.takePending(packet.packetId, true);
    if (pending === undefined) return;
    const { wanted, waiting } = pending;
    const reason = packet.reasons[0] ?? 0x80;
    const isLatest = wanted.packetId === packet.packetId && wanted.stage === "asked";
    if (reason < 0x80) {
      if (isLatest) wanted.stage = "granted";
      wanted.granted = reason as QoS;
      for (const granted of waiting) granted(null, wanted.granted);
    } else if (isLatest || this.wanted.get(wanted.filter) !== wanted || wanted.members.length === 0) {
      this.refuse(wanted, waiting, new MqttError("subscribe_refused", wanted.filter, { reason, ...packet.properties }));
    } else {
      // Asked for again meanwhile: the next answer counts.
      (this.pending.get(wanted.packetId)?.waiting ?? wanted.waiting).push(...waiting);
    }
    this.pump();
  }

  onUnsuback(packet: Unsuback): void {
    const pending = this.takePending(packet.packetId, false);
    if (pending === undefined) return;
    const { wanted, waiting } = pending;
    const reason = packet.reasons[0] ?? 0;
    const error =
      reason >= 0x80 ? new MqttError("unsubscribe_refused", wanted.filter, { reason, ...packet.properties }) : null;
    if (wanted.stage === "leaving" && wanted.leaving.length === 0) this.forget(wanted);
    for (const done of waiting) done(error, 0);
    this.pump();
  }

  private takePending(packetId: number, isSubscribe: boolean): Pending | undefined {
    const pending = this.pending.get(packetId);
    if (pending?.isSubscribe !== isSubscribe) return undefined;
    this.pending.delete(packetId);
    this.ids.release(packetId);
    return pending;
  }

  private refuse(wanted: Wanted, waiting: readonly Granted[], error: MqttError): void {
    if (wanted.stage === "asked") {
      this.forget(wanted);
      this.owner.onRefused(wanted.filter, error);
    }
    for (const granted of waiting) granted(error, 0);
  }

  private forget(wanted: Wanted): void {
    if (this.wanted.get(wanted.filter) === wanted) this.wanted.delete(wanted.filter);
    this.todo.delete(wanted);
    for (const granted of wanted.waiting.splice(0)) granted(new MqttError("unsubscribed", wanted.filter), 0);
    for (const done of wanted.leaving.splice(0)) done(null, 0);
  }

  /** What was asked for on an earlier connection and has no answer is asked for again; with a new session, everything is. */
  onConnected(isSessionPresent: boolean): void {
    for (const [packetId, { wanted, isSubscribe, waiting }] of this.pending) {
      this.ids.release(packetId);
      if (isSubscribe) wanted.waiting.unshift(...waiting);
      else if (wanted.stage === "leaving") wanted.leaving.unshift(...waiting);
      // Left and wanted again: nobody has to be told any more.
      else for (const done of waiting) done(null, 0);
      if (isSubscribe && wanted.stage === "asked") wanted.stage = "idle";
      // Left before the answer came, which now never comes.
      if (this.wanted.get(wanted.filter) !== wanted) this.forget(wanted);
      else this.todo.add(wanted);
    }
    this.pending.clear();
    if (!isSessionPresent) {
      for (const wanted of [...this.wanted.values()]) {
        if (wanted.stage === "leaving") {
          this.forget(wanted);
        } else {
          wanted.stage = "idle";
          wanted.retainHandling = Math.min(...wanted.members.map((each) => each.retainHandling ?? 0)) as 0 | 1 | 2;
          this.todo.add(wanted);
        }
      }
    }
    this.pump();
  }

  failAll(error: MqttError): void {
    const open: Granted[] = [];
    for (const { waiting } of this.pending.values()) open.push(...waiting);
    for (const { waiting, leaving } of this.wanted.values()) open.push(...waiting, ...leaving);
    this.pending.clear();
    this.wanted.clear();
    this.todo.clear();
    for (const settle of open) settle(error, 0);
  }
}

function newWanted(filter: string, identifier: number): Wanted {
  return {
    filter,
    members: [],
    identifier,
    stage: "idle",
    asked: 0,
    packetId: 0,
    granted: 0,
    retainHandling: 2,
    userProperties: undefined,
    waiting: [],
    leaving: [],
  };
}

/** What suits all of them, as the byte of a SUBSCRIBE has it: the highest QoS, and the flags. */
function merge(members: readonly FilterOptions[]): number {
  return (
    Math.max(...members.map(({ qos = 0 }) => qos)) |
    (members.every(({ noLocal }) => noLocal) ? NO_LOCAL : 0) |
    (members.some(({ retainAsPublished }) => retainAsPublished) ? RETAIN_AS_PUBLISHED : 0)
  );
}

function fail(what: string): never {
  throw new MqttError("not_supported", what);
}
