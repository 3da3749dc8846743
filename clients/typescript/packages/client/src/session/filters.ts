// The topic filters that the client wants to be subscribed to (sections 3.8 to 3.11), over all connections.

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

/** Told when the server has answered: null, and the QoS it granted. */
export type Granted = (error: MqttError | null, qos: QoS) => void;

interface Wanted {
  readonly filter: string;
  options: FilterOptions;
  /** Comes back with its messages; 0 for none. */
  readonly identifier: number;
  stage: "idle" | "asked" | "granted" | "leaving";
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

  subscribe(filter: string, identifier: number, options: FilterOptions, granted: Granted): void {
    let wanted = this.wanted.get(filter);
    if (wanted === undefined) {
      wanted = { filter, options, identifier, stage: "idle", waiting: [], leaving: [] };
      this.wanted.set(filter, wanted);
    }
    wanted.options = options;
    wanted.stage = "idle";
    wanted.waiting.push(granted);
    this.todo.add(wanted);
    this.pump();
  }

  unsubscribe(filter: string, done: Granted): void {
    const wanted = this.wanted.get(filter);
    if (wanted === undefined) {
      done(null, 0);
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
    const { options, filter } = wanted;
    const { qos, noLocal, retainAsPublished, retainHandling, userProperties } = options;
    const waiting = wanted.waiting.splice(0);
    wanted.stage = "asked";
    const packetId = this.ids.take();
    try {
      this.check(filter);
      const { limits, version } = this.link;
      const withIdentifier = wanted.identifier > 0 && version === 5 && limits.subscriptionIdentifierAvailable !== false;
      this.link.send(
        {
          type: "subscribe",
          packetId,
          requests: [{ filter, qos, noLocal, retainAsPublished, retainHandling }],
          properties: {
            ...(withIdentifier ? { subscriptionIdentifier: wanted.identifier } : undefined),
            ...(userProperties === undefined ? undefined : { userProperties }),
          },
        },
        filter.length * 3 + 32,
      );
      this.pending.set(packetId, { wanted, isSubscribe: true, waiting });
    } catch (error) {
      this.ids.release(packetId);
      this.refuse(wanted, waiting, asMqttError(error, "invalid_argument", "cannot subscribe"));
    }
  }

  /** What the server has said it does not do `[MQTT-3.2.2-16]`. */
  private check(filter: string): void {
    const { limits } = this.link;
    const isShared = filter.startsWith("$share/");
    if (isShared && limits.sharedSubscriptionAvailable === false) fail("shared subscriptions");
    if (limits.wildcardSubscriptionAvailable === false && /[+#]/.test(filter)) fail("wildcard subscriptions");
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
      for (const done of waiting) done(asMqttError(error, "invalid_argument", "cannot unsubscribe"), 0);
    }
  }

  onSuback(packet: Suback): void {
    const pending = this.takePending(packet.packetId, true);
    if (pending === undefined) return;
    const { wanted, waiting } = pending;
    const reason = packet.reasons[0] ?? 0x80;
    if (reason >= 0x80) {
      const error = new MqttError("subscribe_refused", `${wanted.filter}: refused`, { reason, ...packet.properties });
      this.refuse(wanted, waiting, error);
    } else {
      if (wanted.stage === "asked") wanted.stage = "granted";
      for (const granted of waiting) granted(null, reason as QoS);
    }
    this.pump();
  }

  onUnsuback(packet: Unsuback): void {
    const pending = this.takePending(packet.packetId, false);
    if (pending === undefined) return;
    const { wanted, waiting } = pending;
    const reason = packet.reasons[0] ?? 0;
    const error =
      reason >= 0x80
        ? new MqttError("unsubscribe_refused", `${wanted.filter}: refused`, { reason, ...packet.properties })
        : null;
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
    // Asked for again meanwhile: the next answer counts.
    if (wanted.stage === "asked") {
      this.forget(wanted);
      this.owner.onRefused(wanted.filter, error);
    }
    for (const granted of waiting) granted(error, 0);
  }

  private forget(wanted: Wanted): void {
    if (this.wanted.get(wanted.filter) === wanted) this.wanted.delete(wanted.filter);
    this.todo.delete(wanted);
    for (const granted of wanted.waiting.splice(0)) granted(new MqttError("unsubscribed", "unsubscribed meanwhile"), 0);
    for (const done of wanted.leaving.splice(0)) done(null, 0);
  }

  /** What was asked for on an earlier connection and has no answer is asked for again; with a new session, everything is. */
  onConnected(isSessionPresent: boolean): void {
    for (const [packetId, { wanted, isSubscribe, waiting }] of this.pending) {
      this.ids.release(packetId);
      (isSubscribe ? wanted.waiting : wanted.leaving).unshift(...waiting);
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

function fail(what: string): never {
  throw new MqttError("not_supported", `the server does not support ${what}`);
}
