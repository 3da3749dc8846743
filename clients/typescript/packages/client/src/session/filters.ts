// The topic filters that the client is subscribed to (sections 3.8 to 3.11), across connections. Several local subscriptions to one
// filter share one subscription on the server, with options that suit all of them.

import type { QoS, Suback, Unsuback, UserProperty } from "@tautwire/mqtt-codec";
import { asMqttError, MqttError } from "../errors.js";
import type { Link } from "./link.js";
import type { PacketIds } from "./packet-ids.js";

/** The maximum number of unacknowledged SUBSCRIBE and UNSUBSCRIBE packets, so that packet identifiers remain for messages. */
const PENDING_MAX = 8_192;

/** The options of a subscription (section 3.8.3.1). */
export interface FilterOptions {
  /** The maximum QoS of the messages. Default: 0. */
  qos?: QoS | undefined;
  /** Whether the server does not send back messages that this client published. MQTT 5.0. */
  noLocal?: boolean | undefined;
  /** Whether forwarded messages keep their retain flag. MQTT 5.0. */
  retainAsPublished?: boolean | undefined;
  /** When the server sends retained messages: 0 now (default), 1 if the subscription did not exist, 2 never. MQTT 5.0. */
  retainHandling?: 0 | 1 | 2 | undefined;
  /** The user properties of SUBSCRIBE. MQTT 5.0. */
  userProperties?: readonly UserProperty[] | undefined;
}

const NO_LOCAL = 4;
const RETAIN_AS_PUBLISHED = 8;

/** Called when the server has acknowledged: with null and the granted QoS, or with an error. */
export type SubscribeCallback = (error: MqttError | null, qos: QoS) => void;

/** A topic filter, with the state of its subscription on the server. */
interface FilterState {
  readonly filter: string;
  /** The options of each local subscription. Empty while the client unsubscribes. */
  readonly members: FilterOptions[];
  /** The subscription identifier; 0 for none. */
  readonly identifier: number;
  stage: "idle" | "requested" | "granted" | "leaving";
  /** The options of the last SUBSCRIBE, as {@link merge} encodes them. */
  requested: number;
  /** The packet identifier of that SUBSCRIBE. */
  packetId: number;
  /** The QoS that the server granted last. */
  granted: QoS;
  /** The Retain Handling of the next SUBSCRIBE. */
  retainHandling: 0 | 1 | 2;
  userProperties: readonly UserProperty[] | undefined;
  waiting: SubscribeCallback[];
  leaving: SubscribeCallback[];
}

/** A SUBSCRIBE or UNSUBSCRIBE that the server has not acknowledged. */
interface PendingPacket {
  readonly state: FilterState;
  readonly isSubscribe: boolean;
  readonly waiting: SubscribeCallback[];
}

export class Filters {
  private readonly states = new Map<string, FilterState>();
  private readonly pending = new Map<number, PendingPacket>();
  /** The filters that need a SUBSCRIBE or UNSUBSCRIBE. */
  private readonly todo = new Set<FilterState>();

  constructor(
    private readonly link: Link,
    private readonly ids: PacketIds,
    /** Notified when the server refuses a subscription, also one that it had granted before. */
    private readonly owner: { onRefused(filter: string, error: MqttError): void },
  ) {}

  /** The number of SUBSCRIBE and UNSUBSCRIBE packets that the server has not acknowledged. */
  get open(): number {
    return this.pending.size;
  }

  /** Adds a subscription. Its options object identifies it. */
  subscribe(filter: string, identifier: number, options: FilterOptions, granted: SubscribeCallback): void {
    let state = this.states.get(filter);
    if (state === undefined) {
      state = newFilterState(filter, identifier);
      this.states.set(filter, state);
    }
    state.members.push(options);
    const { retainHandling = 0 } = options;
    // Only another SUBSCRIBE makes the server send the retained messages again.
    if (state.stage === "granted" && retainHandling > 0 && state.requested === merge(state.members)) {
      granted(null, state.granted);
      return;
    }
    // Cancel an UNSUBSCRIBE that has not been sent.
    for (const done of state.leaving.splice(0)) done(null, 0);
    state.waiting.push(granted);
    state.userProperties = options.userProperties;
    // If several subscriptions wait for the same SUBSCRIBE, the lowest Retain Handling applies.
    this.request(state, state.stage === "idle" ? (Math.min(state.retainHandling, retainHandling) as 0 | 1 | 2) : retainHandling);
  }

  private request(state: FilterState, retainHandling: 0 | 1 | 2): void {
    state.stage = "idle";
    state.retainHandling = retainHandling;
    this.todo.add(state);
    this.pump();
  }

  /** Ends the subscription with these options. The others keep their options. */
  unsubscribe(filter: string, options: FilterOptions, done: SubscribeCallback): void {
    const state = this.states.get(filter);
    const at = state?.members.indexOf(options) ?? -1;
    if (state === undefined || at < 0) {
      done(null, 0);
      return;
    }
    state.members.splice(at, 1);
    if (state.members.length > 0) {
      done(null, 0);
      // Retain Handling 2: the retained messages are not needed again.
      if (state.stage !== "idle" && state.requested !== merge(state.members)) this.request(state, 2);
      return;
    }
    state.stage = "leaving";
    state.leaving.push(done);
    this.todo.add(state);
    this.pump();
  }

  /** Sends the SUBSCRIBE and UNSUBSCRIBE packets that are due. */
  pump(): void {
    if (!this.link.isUp) return;
    for (const state of this.todo) {
      if (this.pending.size >= PENDING_MAX) return;
      this.todo.delete(state);
      if (state.stage === "idle") this.sendSubscribe(state);
      else if (state.leaving.length > 0) this.sendUnsubscribe(state);
    }
  }

  private sendSubscribe(state: FilterState): void {
    const { filter, members, identifier, retainHandling, userProperties } = state;
    const waiting = state.waiting.splice(0);
    const requested = merge(members);
    const packetId = this.ids.take();
    state.stage = "requested";
    state.requested = requested;
    state.packetId = packetId;
    try {
      const noLocal = (requested & NO_LOCAL) !== 0;
      this.check(filter, noLocal);
      const { limits, version } = this.link;
      const qos = (requested & 3) as QoS;
      const retainAsPublished = (requested & RETAIN_AS_PUBLISHED) !== 0;
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
      this.pending.set(packetId, { state, isSubscribe: true, waiting });
    } catch (error) {
      this.ids.release(packetId);
      this.refuse(state, waiting, asMqttError(error, "invalid_argument"));
    }
  }

  /** Refuses features that the server does not support `[MQTT-3.2.2-16]`, or that 3.1.1 does not have. */
  private check(filter: string, noLocal: boolean): void {
    const { limits, version } = this.link;
    const isShared = filter.startsWith("$share/");
    if (isShared && limits.sharedSubscriptionAvailable === false) fail("shared subscriptions");
    if (limits.wildcardSubscriptionAvailable === false && /[+#]/.test(filter)) fail("wildcards");
    if (noLocal && version !== 5) fail("noLocal needs MQTT 5.0");
  }

  private sendUnsubscribe(state: FilterState): void {
    const packetId = this.ids.take();
    const waiting = state.leaving.splice(0);
    try {
      this.link.send({ type: "unsubscribe", packetId, filters: [state.filter] }, state.filter.length * 3 + 16);
      this.pending.set(packetId, { state, isSubscribe: false, waiting });
    } catch (error) {
      this.ids.release(packetId);
      this.remove(state);
      for (const done of waiting) done(asMqttError(error, "invalid_argument"), 0);
    }
  }

  onSuback(packet: Suback): void {
    const pending = this.takePending(packet.packetId, true);
    if (pending === undefined) return;
    const { state, waiting } = pending;
    const reason = packet.reasons[0] ?? 0x80;
    const isLatest = state.packetId === packet.packetId && state.stage === "requested";
    if (reason < 0x80) {
      if (isLatest) state.stage = "granted";
      state.granted = reason as QoS;
      for (const granted of waiting) granted(null, state.granted);
    } else if (isLatest || this.states.get(state.filter) !== state || state.members.length === 0) {
      this.refuse(state, waiting, new MqttError("subscribe_refused", state.filter, { reason, ...packet.properties }));
    } else {
      // A later SUBSCRIBE is pending: its SUBACK counts.
      (this.pending.get(state.packetId)?.waiting ?? state.waiting).push(...waiting);
    }
    this.pump();
  }

  onUnsuback(packet: Unsuback): void {
    const pending = this.takePending(packet.packetId, false);
    if (pending === undefined) return;
    const { state, waiting } = pending;
    const reason = packet.reasons[0] ?? 0;
    const error =
      reason >= 0x80 ? new MqttError("unsubscribe_refused", state.filter, { reason, ...packet.properties }) : null;
    if (state.stage === "leaving" && state.leaving.length === 0) this.remove(state);
    for (const done of waiting) done(error, 0);
    this.pump();
  }

  private takePending(packetId: number, isSubscribe: boolean): PendingPacket | undefined {
    const pending = this.pending.get(packetId);
    if (pending?.isSubscribe !== isSubscribe) return undefined;
    this.pending.delete(packetId);
    this.ids.release(packetId);
    return pending;
  }

  private refuse(state: FilterState, waiting: readonly SubscribeCallback[], error: MqttError): void {
    if (state.stage === "requested") {
      this.remove(state);
      this.owner.onRefused(state.filter, error);
    }
    for (const granted of waiting) granted(error, 0);
  }

  private remove(state: FilterState): void {
    if (this.states.get(state.filter) === state) this.states.delete(state.filter);
    this.todo.delete(state);
    for (const granted of state.waiting.splice(0)) granted(new MqttError("unsubscribed", state.filter), 0);
    for (const done of state.leaving.splice(0)) done(null, 0);
  }

  /** Resends packets that were not acknowledged on an earlier connection. In a new session, resubscribes to all filters. */
  onConnected(isSessionPresent: boolean): void {
    for (const [packetId, { state, isSubscribe, waiting }] of this.pending) {
      this.ids.release(packetId);
      if (isSubscribe) state.waiting.unshift(...waiting);
      else if (state.stage === "leaving") state.leaving.unshift(...waiting);
      // Unsubscribed and subscribed again: the UNSUBSCRIBE is no longer needed.
      else for (const done of waiting) done(null, 0);
      if (isSubscribe && state.stage === "requested") state.stage = "idle";
      // Removed before the SUBACK, which will not arrive any more.
      if (this.states.get(state.filter) !== state) this.remove(state);
      else this.todo.add(state);
    }
    this.pending.clear();
    if (!isSessionPresent) {
      for (const state of [...this.states.values()]) {
        if (state.stage === "leaving") {
          this.remove(state);
        } else {
          state.stage = "idle";
          state.retainHandling = Math.min(...state.members.map((each) => each.retainHandling ?? 0)) as 0 | 1 | 2;
          this.todo.add(state);
        }
      }
    }
    this.pump();
  }

  failAll(error: MqttError): void {
    const open: SubscribeCallback[] = [];
    for (const { waiting } of this.pending.values()) open.push(...waiting);
    for (const { waiting, leaving } of this.states.values()) open.push(...waiting, ...leaving);
    this.pending.clear();
    this.states.clear();
    this.todo.clear();
    for (const settle of open) settle(error, 0);
  }
}

function newFilterState(filter: string, identifier: number): FilterState {
  return {
    filter,
    members: [],
    identifier,
    stage: "idle",
    requested: 0,
    packetId: 0,
    granted: 0,
    retainHandling: 2,
    userProperties: undefined,
    waiting: [],
    leaving: [],
  };
}

/** Merges options into the Subscription Options byte of a SUBSCRIBE: the highest QoS, and the flags. */
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
