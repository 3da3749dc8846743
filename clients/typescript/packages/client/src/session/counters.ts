/** What has happened since the client was made. Each limit that is hit counts here. */
export interface Counters {
  /** Packets and bytes that were sent and received. */
  packetsSent: number;
  bytesSent: number;
  packetsReceived: number;
  bytesReceived: number;
  /** Connections that the server accepted. */
  connections: number;
  /** Attempts that failed. */
  failedAttempts: number;
  /** Messages that the full outgoing queue refused. */
  queueFull: number;
  /** Messages that made room for newer ones in the outgoing queue. */
  dropped: number;
  /** Messages that expired in the outgoing queue. */
  expired: number;
  /** Received QoS 0 messages that the full queue of a subscription did not take. */
  receivedDropped: number;
  /** Messages for which there is no subscription. */
  unhandled: number;
  /** Times that reading stopped because the queue of a subscription was full. */
  pauses: number;
  /** Calls of `send` that were not taken. */
  sendsRefused: number;
  /** Calls of `publish` with arguments that are wrong. */
  mistakes: number;
  /** Responses that nobody waited for any more. */
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
    sendsRefused: 0,
    mistakes: 0,
    lateResponses: 0,
  };
}
