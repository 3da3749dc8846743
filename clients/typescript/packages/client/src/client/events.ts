import type { Connack } from "@tautwire/mqtt-codec";
import type { MqttError } from "../errors.js";
import type { PacketOutline } from "../session/trace.js";
import type { Message } from "./message.js";
import type { Subscription } from "./subscription.js";

/** The state of a client. `waiting`: between two attempts to connect. */
export type ClientState = "connecting" | "connected" | "waiting" | "closing" | "closed";

/** The events of a client, by name. */
export interface ClientEvents {
  /** The server has accepted a connection. */
  connected: { sessionPresent: boolean; connack: Connack };
  /** A connection has ended. Unless the client is closing, it connects again. */
  disconnected: { error: MqttError };
  /** An attempt to connect failed; the next one follows after `delayMs` milliseconds. */
  reconnecting: { attempt: number; delayMs: number; error: MqttError };
  /** The client has ended. `error`: the reason, or null after `close()`. */
  closed: { error: MqttError | null };
  /**
   * An error that no promise reports: a handler failed, or the server refused a subscription that it had granted before, or one whose
   * `ready` and loops are not in use.
   */
  error: MqttError;
  /**
   * The full queue of a subscription has paused reading for `maxReadPauseMs`. Reading continues, and QoS 0 messages that do not fit are
   * dropped until half of the queue is free.
   */
  held_up: { subscription: Subscription };
  /** A message that matches no subscription. With listeners, these have to acknowledge it. */
  message: Message;
}

/** An event for the `diagnostics` option. */
export type DiagnosticEvent =
  | { type: "state"; from: ClientState; to: ClientState }
  | { type: "packet"; direction: "sent" | "received"; packet: PacketOutline; bytes: number }
  | { type: "attempt"; url: string; protocolVersion: 4 | 5 }
  | { type: "disconnected"; error: MqttError }
  | { type: "retry"; attempt: number; delayMs: number; error: MqttError }
  | { type: "paused" }
  | { type: "resumed" }
  | { type: "wake" }
  | { type: "error"; error: MqttError };

type Listener<T> = (event: T) => void;

/** A typed event emitter. */
export class Emitter<Events> {
  private readonly listeners = new Map<keyof Events, Set<Listener<never>>>();

  /** Adds a listener. Returns a function that removes it. */
  on<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>): () => void {
    let set = this.listeners.get(name);
    if (set === undefined) {
      set = new Set();
      this.listeners.set(name, set);
    }
    set.add(listener);
    return () => {
      set.delete(listener);
    };
  }

  has(name: keyof Events): boolean {
    return (this.listeners.get(name)?.size ?? 0) > 0;
  }

  /** Calls the listeners. Returns the first thrown value, null if it was undefined, or undefined if none threw. */
  emit<Name extends keyof Events>(name: Name, event: Events[Name]): unknown {
    let thrown: unknown;
    for (const listener of [...(this.listeners.get(name) ?? [])]) {
      try {
        (listener as Listener<Events[Name]>)(event);
      } catch (error) {
        thrown ??= error ?? null;
      }
    }
    return thrown;
  }
}
