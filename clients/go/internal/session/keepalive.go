package session

import "time"

// KeepAlive decides when to send PINGREQ, and when the connection is lost (section 3.1.2.10).
type KeepAlive struct {
	// interval is the longest silence, 0 for no limit. A ping is sent when nothing was sent for so long [MQTT-3.1.2-20],
	// and when nothing was received, to find out about a connection on which nothing comes back.
	interval time.Duration
	timeout  time.Duration

	sent, received time.Time
	// pinged is when a ping was sent that has not been answered; zero if there is none.
	pinged time.Time
}

// NewKeepAlive begins at the time of CONNACK. timeout bounds the wait for PINGRESP.
func NewKeepAlive(interval, timeout time.Duration, now time.Time) KeepAlive {
	return KeepAlive{interval: interval, timeout: timeout, sent: now, received: now}
}

// Sent takes note of packets that were sent.
func (k *KeepAlive) Sent(now time.Time) { k.sent = now }

// Received takes note of packets. Any of them shows that the server is there.
func (k *KeepAlive) Received(now time.Time) {
	k.received = now
	k.pinged = time.Time{}
}

// Check says what is due: a ping, which is then to be sent, or the end of the connection.
func (k *KeepAlive) Check(now time.Time) (ping, lost bool) {
	if k.interval == 0 {
		return false, false
	}
	if !k.pinged.IsZero() {
		return false, now.Sub(k.pinged) >= k.timeout
	}
	if now.Before(k.due()) {
		return false, false
	}
	k.pinged = now
	return true, false
}

// Next is when to check again; zero for never.
func (k *KeepAlive) Next() time.Time {
	switch {
	case k.interval == 0:
		return time.Time{}
	case !k.pinged.IsZero():
		return k.pinged.Add(k.timeout)
	}
	return k.due()
}

func (k *KeepAlive) due() time.Time {
	if k.sent.Before(k.received) {
		return k.sent.Add(k.interval)
	}
	return k.received.Add(k.interval)
}
