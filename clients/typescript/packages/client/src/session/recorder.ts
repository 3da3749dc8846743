import type { Outgoing } from "./outgoing.js";

/**
 * Persists the events of a session in a store before packets that depend on them are sent. Only the entries with stores implement it,
 * so that a bundle without a store stays small.
 */
export interface Recorder {
  /** Whether changes are not synced yet. */
  readonly isBusy: boolean;
  /** The message was queued. */
  queued(message: Outgoing): void;
  /** The message has a packet identifier, and is sent next. */
  sent(message: Outgoing): void;
  /** The message is queued again, because the server has lost the session. */
  unsent(message: Outgoing): void;
  /** The PUBREC of the message was received. */
  released(message: Outgoing): void;
  /** The message is complete. */
  done(message: Outgoing): void;
  /** The application has accepted an incoming QoS 2 message. */
  received(packetId: number): void;
  /** The PUBREL of that message was received. */
  completed(packetId: number): void;
  /** The server has accepted a connection. */
  began(isSessionPresent: boolean): void;
  /** Whether the bytes in the outbox must wait for a sync, after which the recorder sends them. */
  holds(): boolean;
  /** Drops the bytes that wait for a sync, and holds back no more, so that a DISCONNECT can be sent. */
  release(): void;
}
