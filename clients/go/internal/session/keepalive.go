package session

import "time"

// KeepAlive decides when to send PINGREQ, and when the connection is lost (section 3.1.2.10).
type KeepAlive struct {
	// interval is the maximum silence, 0 for no limit. A ping is sent when nothing was sent for that long [MQTT-3.1.2-20], and when nothing
	// was received, to detect a connection that only works one way.
	interval time.Duration
	timeout  time.Duration

	sent, received time.Time
	// pinged is when the first unanswered ping was sent; zero if there is none.
	pinged time.Time
}

// NewKeepAlive starts at the time of CONNACK. timeout limits the wait for PINGRESP.
func NewKeepAlive(interval, timeout time.Duration, now time.Time) KeepAlive {
	return KeepAlive{interval: interval, timeout: timeout, sent: now, received: now}
}

// Sent records that packets were sent.
func (k *KeepAlive) Sent(now time.Time) { k.sent = now }

// Received records received packets. Any packet shows that the server is alive.
func (k *KeepAlive) Received(now time.Time) {
	k.received = now
	k.pinged = time.Time{}
}

// Check returns what is due: a ping, which is then to be sent, or the end of the connection. An unanswered ping does not replace the
// next one: nothing else may be sent meanwhile, and the server gives up a silent client, however long this one waits.
func (k *KeepAlive) Check(now time.Time) (ping, lost bool) {
	if k.interval == 0 {
		return false, false
	}
	lost = !k.pinged.IsZero() && !now.Before(k.pinged.Add(k.timeout))
	if now.Before(k.due()) {
		return false, lost
	}
	if k.pinged.IsZero() {
		k.pinged = now
	}
	return true, lost
}

// Next returns when to check again; zero for never.
func (k *KeepAlive) Next() time.Time {
	if k.interval == 0 {
		return time.Time{}
	}
	if lost := k.pinged.Add(k.timeout); !k.pinged.IsZero() && lost.Before(k.due()) {
		return lost
	}
	return k.due()
}

// due returns when to send the next ping.
func (k *KeepAlive) due() time.Time {
	if !k.pinged.IsZero() || k.sent.Before(k.received) {
		return k.sent.Add(k.interval)
	}
	return k.received.Add(k.interval)
}
