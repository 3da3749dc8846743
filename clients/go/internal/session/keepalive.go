package session

import "time"

// KeepAlive decides when to send PINGREQ, and when the connection is lost (section 3.1.2.10).
type KeepAlive struct {
	// interval is the longest silence, 0 for no limit. A ping is sent when nothing was sent for so long [MQTT-3.1.2-20],
	// and when nothing was received, to find out about a connection on which nothing comes back.
	interval time.Duration
	timeout  time.Duration

	sent, received time.Time
	// pinged is when the first of the pings was sent that have not been answered; zero if there are none.
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

// Check says what is due: a ping, which is then to be sent, and the end of the connection. A ping that is not answered yet does not
// stand for the next: nothing else may leave meanwhile, and the server gives up a silent client, however long this one is ready to wait.
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

// Next is when to check again; zero for never.
func (k *KeepAlive) Next() time.Time {
	if k.interval == 0 {
		return time.Time{}
	}
	if lost := k.pinged.Add(k.timeout); !k.pinged.IsZero() && lost.Before(k.due()) {
		return lost
	}
	return k.due()
}

// due is when to send the next ping.
func (k *KeepAlive) due() time.Time {
	if !k.pinged.IsZero() || k.sent.Before(k.received) {
		return k.sent.Add(k.interval)
	}
	return k.received.Add(k.interval)
}
