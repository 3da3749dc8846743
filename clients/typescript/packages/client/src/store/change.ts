// What a store records, and what it gives back.

/** One step of a session. Stores record them in order. */
export type Change =
  /** The server has a session for this client identifier. Nothing received earlier counts any more; messages to be sent stay. */
  | { readonly kind: "began"; readonly clientId: string }
  /** The message, a PUBLISH packet of this protocol version with some packet identifier, waits to be sent. */
  | { readonly kind: "queued"; readonly sequence: number; readonly version: 4 | 5; readonly packet: Uint8Array }
  /** The message has a packet identifier, and may have been sent with it. */
  | { readonly kind: "sent"; readonly sequence: number; readonly packetId: number }
  /** The message waits again, without a packet identifier, because its session was lost. */
  | { readonly kind: "unsent"; readonly sequence: number }
  /** The server has taken over the QoS 2 message (PUBREC). Only PUBREL and PUBCOMP are due. */
  | { readonly kind: "released"; readonly sequence: number }
  /** The message needs nothing more. */
  | { readonly kind: "done"; readonly sequence: number }
  /** The application has accepted the incoming QoS 2 message. */
  | { readonly kind: "received"; readonly packetId: number }
  /** The server has released it (PUBREL): the identifier may come again with another message. */
  | { readonly kind: "completed"; readonly packetId: number };

/** A message to the server that is not done. */
export interface StoredMessage {
  /** Orders messages as the application published them: 1 to 2^53 - 1. */
  readonly sequence: number;
  /** 0 for a message that has not been sent. */
  readonly packetId: number;
  /** 0 until PUBREC; then it orders messages by the arrival of theirs `[MQTT-4.6.0-4]`. */
  readonly release: number;
  /** Protocol version of the packet. */
  readonly version: 4 | 5;
  /** The PUBLISH packet with some packet identifier, or null once it was released. */
  readonly packet: Uint8Array | null;
}

/** A session at rest. */
export interface StoredSession {
  /** The client identifier for which the server may hold a session, or null. */
  readonly clientId: string | null;
  /** In the order of publication. */
  readonly outgoing: readonly StoredMessage[];
  /** Packet identifiers of incoming QoS 2 messages that were accepted and not released yet. */
  readonly received: readonly number[];
}
