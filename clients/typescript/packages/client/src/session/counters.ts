/** Counts of events and reached limits since the client was created. */
export interface Counters {
  /** Packets and bytes that were sent and received. */
  packetsSent: number;
  bytesSent: number;
  packetsReceived: number;
  bytesReceived: number;
  /** Connections that the server accepted. */
  connections: number;
  /** Failed attempts to connect. */
  failedAttempts: number;
  /** Messages that were rejected because the outgoing queue was full. */
  queueFull: number;
  /** Messages that the outgoing queue dropped to make room for newer ones. */
  dropped: number;
  /** Messages that expired in the outgoing queue. */
  expired: number;
  /** Received QoS 0 messages that were dropped because the queue of a subscription was full. */
  receivedDropped: number;
  /** Received messages that match no subscription. */
  unhandled: number;
  /** How often reading was paused because the queue of a subscription was full. */
  pauses: number;
  /** How often the full queue of a subscription has paused reading for as long as it may. */
  heldUp: number;
  /** Calls of `send` that returned false. */
  sendsRefused: number;
  /** Calls of `publish` with invalid arguments. */
  mistakes: number;
  /** Responses that arrived after their request had ended. */
  lateResponses: number;
}

export function newCounters(): Counters {
  return {
    packetsSent: 0,
    bytesSent: 0,
    packetsReceived: 0,
    bytesReceived: 0,
    connections: 0,
    failedAttempts: 0,
    queueFull: 0,
    dropped: 0,
    expired: 0,
    receivedDropped: 0,
    unhandled: 0,
    pauses: 0,
    heldUp: 0,
    sendsRefused: 0,
    mistakes: 0,
    lateResponses: 0,
  };
}
