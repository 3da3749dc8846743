// Connects a session to its store: records changes, holds back packets until the changes that they depend on are durable, and
// restores the session of an earlier process.

import type { PublishProperties } from "@tautwire/mqtt-codec";
import { ClientDecoder, MqttEncodeError } from "@tautwire/mqtt-codec/client";
import type { Client } from "../client/client.js";
import type { Connection } from "../client/connection.js";
import { systemClock, type Clock } from "../client/options.js";
import { asMqttError, MqttError } from "../errors.js";
import type { Recorder } from "../session/recorder.js";
import { Outbox } from "../session/outbox.js";
import { SUCCESS, type Outgoing } from "../session/outgoing.js";
import type { Session } from "../session/session.js";
import type { Change, StoredMessage, StoredSession } from "./change.js";
import type { Store } from "./store.js";

/** When more bytes than this wait for a sync, messages wait in the queue: 1 MiB. */
const HELD_MAX_BYTES = 1024 * 1024;
/** How long a change may remain unsynced if nothing depends on it. */
const LAZY_SYNC_MS = 100;
/** The protocol version of stored packets: it can express all properties. */
const STORED_VERSION = 5;

export class SessionRecorder implements Recorder {
  private readonly connection: Connection;
  private readonly session: Session;
  private readonly clock: Clock;
  /** Whether a recorded change must be durable before more is sent. */
  private isUrgent = false;
  private isScheduled = false;
  private isSyncing = false;
  private isReleased = false;
  private lazyTimer: unknown;
  private lastSequence = 0;
  /** The client identifier of the stored session. */
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
        throw new MqttError("invalid_options", `clientId: the store belongs to client ${stored.clientId}`);
      }
      session.clientId = stored.clientId;
    }
    // Before MQTT 5.0, a session with a clean start does not survive its connection.
    session.settings.cleanStart = cleanStart ?? (protocolVersion === 5 && stored.clientId === null);
    this.restore(stored);
    session.link.recorder = this;
  }

  // Restoring the session of an earlier process.

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

  /** Restores a message. Returns null if its record is unusable. */
  private messageOf({ sequence, packetId, release, version, packet }: StoredMessage): Outgoing | null {
    const message: Outgoing = {
      topic: "",
      payload: "",
      qos: 2,
      retain: false,
      properties: undefined,
      size: 0,
      // Its lifetime starts again, because the time since the last process is unknown.
      since: this.clock.now(),
      packetId,
      stage: release > 0 ? "released" : packetId > 0 ? "sent" : "waiting",
      epoch: 0,
      result: SUCCESS,
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
    // The alias belongs to an earlier connection.
    delete properties.topicAlias;
    return { ...message, topic, payload, qos, retain, properties, size: topic.length + payload.length };
  }

  // Recording changes.

  queued(message: Outgoing): void {
    if (message.qos === 0 || message.sequence !== undefined) return;
    const packet = this.packetOf(message);
    if (packet === null) return;
    message.sequence = ++this.lastSequence;
    this.record({ kind: "queued", sequence: message.sequence, version: STORED_VERSION, packet }, true);
  }

  /** Encodes a message. Returns null if it cannot be encoded; sending it then reports the error. */
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
    // A message that was sent without waiting is not recorded yet.
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
    // Not urgent: if this record is lost, the exchange is repeated with the same identifier, which the server acknowledges.
    if (sequence !== undefined) this.record({ kind: "done", sequence }, false);
  }

  received(packetId: number): void {
    this.record({ kind: "received", packetId }, true);
  }

  completed(packetId: number): void {
    // Must be durable before PUBCOMP: afterwards the server may reuse the identifier, and the message would be taken for a duplicate.
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

  // Holding back packets.

  get isBusy(): boolean {
    return this.isUrgent || this.isSyncing;
  }

  holds(): boolean {
    if (!this.isBusy || this.isReleased) return false;
    const { link } = this.session;
    if (link.outbox.length > HELD_MAX_BYTES) link.isCongested = true;
    this.schedule();
    return true;
  }

  release(): void {
    // The next process resends the dropped packets.
    if (this.isBusy) this.session.link.outbox.handOver(true);
    this.isReleased = true;
  }

  /** Schedules one sync for all changes of this turn, or for all changes during the running sync. */
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
        if (held.length > 0 && attempt === this.connection.attempt && !this.isReleased) this.connection.write(held);
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
    // Drop the packets that depend on the store. The next connection tries to sync again.
    this.session.link.outbox.handOver(true);
    if (this.connection.attempt?.isOpen === true) this.connection.onFailed(error);
    else this.client.onError(error);
  }

  private get isDetached(): boolean {
    return this.session.link.recorder !== this;
  }

  detach(): void {
    this.session.link.recorder = undefined;
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
