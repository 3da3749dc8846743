// Stands between a session and its store: writes down what happens, holds back what depends on it until it is durable, and
// gives a new process what an earlier one has left.

import type { PublishProperties } from "@tautwire/mqtt-codec";
import { ClientDecoder, MqttEncodeError } from "@tautwire/mqtt-codec/client";
import type { Client } from "../client/client.js";
import type { Connection } from "../client/connection.js";
import { systemClock, type Clock } from "../client/options.js";
import { asMqttError, MqttError } from "../errors.js";
import type { Keeper } from "../session/keeper.js";
import { Outbox } from "../session/outbox.js";
import { SUCCESS, type Outgoing } from "../session/outgoing.js";
import type { Session } from "../session/session.js";
import type { Change, StoredMessage, StoredSession } from "./change.js";
import type { Store } from "./store.js";

/** Bytes that may wait for the store before messages wait in the queue instead: 1 MiB. */
const HELD_MAX_BYTES = 1024 * 1024;
/** How long a change may be unsynced if nothing depends on it. */
const LAZY_SYNC_MS = 100;
/** The version in which packets are stored: it can say everything. */
const STORED_VERSION = 5;

export class SessionKeeper implements Keeper {
  private readonly connection: Connection;
  private readonly session: Session;
  private readonly clock: Clock;
  /** Whether something that was recorded must be durable before more is sent. */
  private isUrgent = false;
  private isScheduled = false;
  private isSyncing = false;
  private isYielding = false;
  private lazyTimer: unknown;
  private lastSequence = 0;
  /** The session at the server is that of the store. */
  private clientId: string | null;
  private readonly scratch = new Outbox();

  /** @throws {MqttError} `invalid_options`, or what the store throws. */
  constructor(
    private readonly store: Store,
    private readonly client: Client,
  ) {
    const { connection, options } = client;
    const { session } = connection;
    this.connection = connection;
    this.session = session;
    this.clock = options.clock ?? systemClock;
    const stored = store.load();
    this.clientId = stored.clientId;
    const { clientId, cleanStart, protocolVersion = 5 } = options;
    if (stored.clientId !== null) {
      if (clientId !== undefined && clientId !== stored.clientId) {
        throw new MqttError("invalid_options", `clientId: the store has the session of ${stored.clientId}`);
      }
      session.clientId = stored.clientId;
    }
    // Before MQTT 5.0 a session that begins clean does not outlive its connection.
    session.settings.cleanStart = cleanStart ?? (protocolVersion === 5 && stored.clientId === null);
    this.restore(stored);
    session.link.keeper = this;
  }

  // What an earlier process has left.

  private restore({ outgoing, received }: StoredSession): void {
    const { incoming } = this.session;
    for (const packetId of received) {
      incoming.receipts.set(packetId, { packetId, qos: 2, epoch: 0, stage: "received", reason: 0 });
    }
    const released: [StoredMessage, Outgoing][] = [];
    for (const stored of outgoing) {
      this.lastSequence = Math.max(this.lastSequence, stored.sequence);
      const message = this.messageOf(stored);
      if (message === null) this.store.record({ kind: "done", sequence: stored.sequence });
      else if (message.stage === "released") released.push([stored, message]);
      else if (message.stage === "sent") this.restoreSent(message);
      else this.session.outgoing.append(message);
    }
    // [MQTT-4.6.0-4]
    released.sort(([a], [b]) => a.release - b.release);
    for (const [, message] of released) this.restoreSent(message);
  }

  private restoreSent(message: Outgoing): void {
    this.session.ids.used.add(message.packetId);
    this.session.outgoing.inflight.set(message.packetId, message);
  }

  /** Null: nothing can be done with it. */
  private messageOf({ sequence, packetId, release, version, packet }: StoredMessage): Outgoing | null {
    const message: Outgoing = {
      topic: "",
      payload: "",
      qos: 2,
      retain: false,
      properties: undefined,
      size: 0,
      // Its lifetime begins anew: nobody knows how long the process was away.
      since: this.clock.now(),
      packetId,
      stage: release > 0 ? "released" : packetId > 0 ? "sent" : "waiting",
      epoch: 0,
      answer: SUCCESS,
      sequence,
      settle: (error) => {
        if (error !== null) this.client.onError(error);
      },
    };
    if (release > 0) return packetId > 0 ? message : null;
    const publish = packet === null ? null : read(packet, version);
    if (publish === null || publish.qos === 0) return null;
    const { topic, payload, qos, retain } = publish;
    const properties: PublishProperties = { ...publish.properties };
    // Of another connection.
    delete properties.topicAlias;
    return { ...message, topic, payload, qos, retain, properties, size: topic.length + payload.length };
  }

  // What happens.

  queued(message: Outgoing): void {
    if (message.qos === 0 || message.sequence !== undefined) return;
    const packet = this.packetOf(message);
    if (packet === null) return;
    message.sequence = ++this.lastSequence;
    this.record({ kind: "queued", sequence: message.sequence, version: STORED_VERSION, packet }, true);
  }

  /** Null: it cannot be written. Whoever sends it says so. */
  private packetOf({ topic, payload, qos, retain, properties }: Outgoing): Uint8Array | null {
    const { scratch } = this;
    try {
      const atLeast = (topic.length + payload.length) * (typeof payload === "string" ? 3 : 1) + 64;
      scratch.put({ type: "publish", topic, payload, qos: qos as 1, packetId: 1, dup: false, retain, properties }, atLeast);
      return scratch.peek().slice();
    } catch (error) {
      if (error instanceof MqttEncodeError) return null;
      throw error;
    } finally {
      scratch.handOver(true);
    }
  }

  sent(message: Outgoing): void {
    // It may not have had to wait.
    this.queued(message);
    const { sequence, packetId } = message;
    if (sequence !== undefined) this.record({ kind: "sent", sequence, packetId }, true);
  }

  unsent({ sequence }: Outgoing): void {
    if (sequence !== undefined) this.record({ kind: "unsent", sequence }, true);
  }

  released({ sequence }: Outgoing): void {
    if (sequence !== undefined) this.record({ kind: "released", sequence }, true);
  }

  done(message: Outgoing): void {
    const { sequence } = message;
    message.sequence = undefined;
    // If it is lost, the exchange is repeated under the same identifier, which the server answers.
    if (sequence !== undefined) this.record({ kind: "done", sequence }, false);
  }

  received(packetId: number): void {
    this.record({ kind: "received", packetId }, true);
  }

  completed(packetId: number): void {
    // Before PUBCOMP: after it the server may use the identifier for another message, which would be taken for the earlier one.
    this.record({ kind: "completed", packetId }, true);
  }

  began(isSessionPresent: boolean): void {
    const { clientId, incoming } = this.session;
    if (isSessionPresent && clientId === this.clientId) return;
    this.clientId = clientId;
    this.record({ kind: "began", clientId }, true);
    for (const { packetId, stage } of incoming.receipts.values()) {
      if (stage === "received") this.received(packetId);
    }
  }

  private record(change: Change, isUrgent: boolean): void {
    this.store.record(change);
    if (isUrgent) {
      this.isUrgent = true;
      this.schedule();
    } else if (this.lazyTimer === undefined) {
      this.lazyTimer = this.clock.setTimeout(this.run, LAZY_SYNC_MS);
      (this.lazyTimer as { unref?(): unknown } | null)?.unref?.();
    }
  }

  // What depends on it.

  get isBusy(): boolean {
    return this.isUrgent || this.isSyncing;
  }

  holds(): boolean {
    if (!this.isBusy || this.isYielding) return false;
    const { link } = this.session;
    if (link.outbox.length > HELD_MAX_BYTES) link.isCongested = true;
    this.schedule();
    return true;
  }

  yield(): void {
    // The next process sends again what waits here.
    if (this.isBusy) this.session.link.outbox.handOver(true);
    this.isYielding = true;
  }

  /** One sync is for all that is recorded in a turn, and for all that is recorded while another one runs. */
  private schedule(): void {
    if (this.isScheduled || this.isSyncing) return;
    this.isScheduled = true;
    queueMicrotask(this.run);
  }

  private readonly run = (): void => {
    this.isScheduled = false;
    if (this.isSyncing || this.isDetached) return;
    this.clock.clearTimeout(this.lazyTimer);
    this.lazyTimer = undefined;
    this.isUrgent = false;
    this.isSyncing = true;
    const { attempt } = this.connection;
    const { outbox } = this.session.link;
    const held = outbox.peek();
    if (held.length > 0) outbox.handOver(false);
    this.store.sync().then(
      () => {
        this.isSyncing = false;
        if (held.length > 0 && attempt === this.connection.attempt && !this.isYielding) this.connection.write(held);
        if (this.isUrgent) this.schedule();
        this.connection.onDrain();
      },
      (thrown: unknown) => {
        this.isSyncing = false;
        this.isUrgent = true;
        this.fail(asMqttError(thrown, "store_failed"));
      },
    );
  };

  private fail(error: MqttError): void {
    if (this.isDetached) return;
    // What depends on the store must not go out. The next connection tries to sync again.
    this.session.link.outbox.handOver(true);
    if (this.connection.attempt?.isOpen === true) this.connection.onFailed(error);
    else this.client.onError(error);
  }

  private get isDetached(): boolean {
    return this.session.link.keeper !== this;
  }

  detach(): void {
    this.session.link.keeper = undefined;
    this.clock.clearTimeout(this.lazyTimer);
  }
}

function read(packet: Uint8Array, version: 4 | 5) {
  try {
    const decoder = new ClientDecoder({ protocolVersion: version });
    decoder.push(packet);
    const publish = decoder.read();
    return publish?.type === "publish" ? publish : null;
  } catch {
    return null;
  }
}
