import type { Connack } from "@tautwire/mqtt-codec";
import type { MqttError } from "../errors.js";
import type { PacketOutline } from "../session/trace.js";
import type { Message } from "./message.js";

/** Where a client is: `waiting` is the time between an attempt to connect and the next one. */
export type ClientState = "connecting" | "connected" | "waiting" | "closing" | "closed";

/** What a client tells its listeners. */
export interface ClientEvents {
  /** The server has accepted a connection. */
  connected: { sessionPresent: boolean; connack: Connack };
  /** A connection has ended. Unless the client is closing, it connects again. */
  disconnected: { error: MqttError };
  /** The next attempt to connect will be made after so many milliseconds. */
  reconnecting: { attempt: number; delayMs: number; error: MqttError };
  /** The client has ended. `error`: why, if its user did not close it. */
  closed: { error: MqttError | null };
  /**
   * What nobody would hear of otherwise: a handler failed, or the server refused a subscription, either after it had granted it, or one
   * of whose `ready` or loop nobody has asked for.
   */
  error: MqttError;
  /** A message that no subscription takes. It has been acknowledged unless there are listeners, who then do it. */
  message: Message;
}

/** What the `diagnostics` hook sees. */
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

/** Listeners by the name of what they listen to. */
export class Emitter<Events> {
  private readonly listeners = new Map<keyof Events, Set<Listener<never>>>();

  /** Calls the listener with every such event, until the function that this returns is called. */
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

  /** Answers what a listener threw, if one did; null for nothing. */
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
