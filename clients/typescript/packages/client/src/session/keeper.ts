import type { Outgoing } from "./outgoing.js";

/**
 * Is told what happens to messages, so that a store has it before anybody relies on it. Only the entries with stores have
 * one: a bundle without a store does not pay for it.
 */
export interface Keeper {
  /** Whether something is on its way to the store. */
  readonly isBusy: boolean;
  /** The message waits. */
  queued(message: Outgoing): void;
  /** The message has a packet identifier, and is sent next. */
  sent(message: Outgoing): void;
  /** The message waits again: the server has lost the session. */
  unsent(message: Outgoing): void;
  /** PUBREC has come. */
  released(message: Outgoing): void;
  /** The message needs nothing more. */
  done(message: Outgoing): void;
  /** The application has accepted an incoming QoS 2 message. */
  received(packetId: number): void;
  /** PUBREL has come for it. */
  completed(packetId: number): void;
  /** The server has accepted a connection. */
  began(isSessionPresent: boolean): void;
  /** Whether the bytes in the outbox have to wait for the store, which then sends them. */
  holds(): boolean;
  /** Drops the bytes that wait for the store, and holds nothing from now on: DISCONNECT is to follow. */
  yield(): void;
}
