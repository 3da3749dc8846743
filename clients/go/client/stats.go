package client

import "sync/atomic"

// Stats are counters since the client was created, and two current values.
type Stats struct {
	// Connects are connections that the server accepted; Failures are lost connections and failed attempts.
	Connects, Failures uint64
	// BytesSent and BytesReceived count MQTT, without the overhead of TLS and WebSocket.
	BytesSent, BytesReceived uint64
	// Sent are QoS 0 messages that were written to the connection; Queued are messages that entered the queue. Of these,
	// Acknowledged were delivered, Failed were refused or lost with the session, and Expired waited too long.
	Sent, Queued, Acknowledged, Failed, Expired uint64
	// Resent are PUBLISH packets that were sent again.
	Resent uint64
	// QueueFull counts how often a message found the queue full, OutputFull the same for the output of the connection,
	// NotConnected QoS 0 messages that were refused without a connection.
	QueueFull, OutputFull, NotConnected uint64
	// Received are incoming messages. Of these, Duplicates were not delivered again, and Unrouted matched no subscription.
	Received, Duplicates, Unrouted uint64
	// DroppedIncoming are QoS 0 messages that found an inbox full; ReadPauses counts how often reading was paused for that.
	DroppedIncoming, ReadPauses uint64
	// DroppedEvents are dropped calls of OnConnect, OnDisconnect and OnAttemptFailed, beyond [MaxEvents].
	DroppedEvents uint64
	// LateResponses arrived too late, or twice, and were dropped.
	LateResponses uint64
	// Held are the current unacknowledged outgoing messages, Unacknowledged the incoming ones.
	Held, Unacknowledged int
}

// statistics are counted without the mutex.
type statistics struct {
	connects, failures       atomic.Uint64
	bytesSent, bytesReceived atomic.Uint64
	sent                     atomic.Uint64
	outputFull, notConnected atomic.Uint64
	received, unrouted       atomic.Uint64
	droppedIncoming          atomic.Uint64
	readPauses               atomic.Uint64
	lastFailure              atomic.Pointer[error]
	server                   atomic.Pointer[ServerInfo]
}

func (s *statistics) noteFailure(err error) {
	s.failures.Add(1)
	s.lastFailure.Store(&err)
}

// Stats returns the current counters.
func (c *Client) Stats() Stats {
	s := &c.stats
	stats := Stats{
		Connects: s.connects.Load(), Failures: s.failures.Load(),
		BytesSent: s.bytesSent.Load(), BytesReceived: s.bytesReceived.Load(),
		Sent: s.sent.Load(), OutputFull: s.outputFull.Load(), NotConnected: s.notConnected.Load(),
		Received: s.received.Load(), Unrouted: s.unrouted.Load(),
		DroppedIncoming: s.droppedIncoming.Load(), ReadPauses: s.readPauses.Load(),
	}
	c.events.mutex.Lock()
	stats.DroppedEvents = c.events.dropped
	c.events.mutex.Unlock()
	c.requests.mutex.Lock()
	stats.LateResponses = c.requests.late
	c.requests.mutex.Unlock()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	counters := &c.session.Counters
	stats.Queued, stats.Acknowledged, stats.Failed = counters.Queued, counters.Acknowledged, counters.Failed
	stats.Expired, stats.Resent, stats.QueueFull = counters.Expired, counters.Resent, counters.QueueFull
	stats.Duplicates = counters.Duplicates
	stats.Held, stats.Unacknowledged = c.session.Held(), c.session.Unacknowledged()
	return stats
}
