// The changes that a store records, and the session that it restores.

/** A change of a session. Stores record changes in order. */
export type Change =
  /** The server has a new session for this client identifier. Earlier received identifiers are void; outgoing messages remain. */
  | { readonly kind: "began"; readonly clientId: string }
  /** The message was queued: a PUBLISH packet of this protocol version, with any packet identifier. */
  | { readonly kind: "queued"; readonly sequence: number; readonly version: 4 | 5; readonly packet: Uint8Array }
  /** The message has a packet identifier, and may have been sent with it. */
  | { readonly kind: "sent"; readonly sequence: number; readonly packetId: number }
  /** The message is queued again without a packet identifier, because its session was lost. */
  | { readonly kind: "unsent"; readonly sequence: number }
  /** The server has received the QoS 2 message (PUBREC). Only PUBREL and PUBCOMP are left. */
  | { readonly kind: "released"; readonly sequence: number }
  /** The message is complete. */
  | { readonly kind: "done"; readonly sequence: number }
  /** The application has accepted the incoming QoS 2 message. */
  | { readonly kind: "received"; readonly packetId: number }
  /** The server has released it (PUBREL) and may reuse the identifier for another message. */
  | { readonly kind: "completed"; readonly packetId: number };

/** An outgoing message that is not complete. */
export interface StoredMessage {
  /** The order of publication: 1 to 2^53 - 1. */
  readonly sequence: number;
  /** 0 for a message that has not been sent. */
  readonly packetId: number;
  /** 0 until PUBREC; then the order in which the PUBREC packets arrived `[MQTT-4.6.0-4]`. */
  readonly release: number;
  /** Protocol version of the packet. */
  readonly version: 4 | 5;
  /** The PUBLISH packet with any packet identifier, or null after PUBREC. */
  readonly packet: Uint8Array | null;
}

/** A stored session. */
export interface StoredSession {
  /** The client identifier for which the server may hold a session, or null. */
  readonly clientId: string | null;
  /** The outgoing messages in the order of publication. */
  readonly outgoing: readonly StoredMessage[];
  /** The packet identifiers of incoming QoS 2 messages that were accepted and not released yet. */
  readonly received: readonly number[];
}
