package client

import (
	"math"
	"time"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// The defaults of [Limits], each for the field of the same name.
const (
	DefaultReceiveMaximum = 1024
	DefaultMaxInFlight    = 1024
	// DefaultMaxInFlightV311 is for MQTT 3.1.1, in which a server has no Receive Maximum: with more QoS 2 messages some servers stall.
	DefaultMaxInFlightV311   = 20
	DefaultMaximumPacketSize = 16 * 1024 * 1024
	DefaultTopicAliasMaximum = 64
	DefaultMaxQueuedMessages = 10_000
	DefaultMaxQueuedBytes    = 16 * 1024 * 1024
	DefaultMaxOutputBytes    = 256 * 1024
	DefaultMaxInboxMessages  = 65_536
	DefaultMaxInboxBytes     = 64 * 1024 * 1024
	DefaultMaxReadPause      = time.Second
)

// Limits bound queues and buffers. Zero means the default.
type Limits struct {
	// MaxQueuedMessages and MaxQueuedBytes limit outgoing messages that are not acknowledged yet, whether sent or queued. Above it, publishing
	// waits for room; see [Options.RejectWhenFull].
	MaxQueuedMessages, MaxQueuedBytes int
	// MaxInFlight limits outgoing messages that are sent but not acknowledged, besides the server's Receive Maximum. Its default is
	// [DefaultMaxInFlightV311] in 3.1.1.
	MaxInFlight int
	// MaxOutputBytes limits the output buffer of the connection. Above it, publishing at QoS 0 waits for room.
	MaxOutputBytes int
	// ReceiveMaximum is how many incoming QoS 1 and 2 messages may be unacknowledged: 1 to 65,535. At the limit the server stops sending.
	// Before 5.0 the server decides.
	ReceiveMaximum int
	// MaxInboxMessages and MaxInboxBytes limit the QoS 0 messages that wait for the handler of one subscription. At the limit the client
	// pauses reading, for at most MaxReadPause and not while a caller waits for an answer of the server, and then drops messages without room.
	// QoS 1 and 2 messages are limited by ReceiveMaximum, and never dropped.
	MaxInboxMessages, MaxInboxBytes int
	MaxReadPause                    time.Duration
	// MaximumPacketSize limits incoming packets, in bytes.
	MaximumPacketSize int
	// TopicAliasMaximum is how many topic aliases the server may use, and this client, if the server allows them. -1 for none.
	TopicAliasMaximum int
}

func (l *Limits) setDefaults(version packets.Version) error {
	inFlight := DefaultMaxInFlight
	if version == packets.V311 {
		inFlight = DefaultMaxInFlightV311
	}
	for _, each := range []struct {
		name                      string
		value                     *int
		standard, least, greatest int
	}{
		{"ReceiveMaximum", &l.ReceiveMaximum, DefaultReceiveMaximum, 1, 65_535},
		{"MaxInFlight", &l.MaxInFlight, inFlight, 1, session.MaxInFlight},
		{"MaximumPacketSize", &l.MaximumPacketSize, DefaultMaximumPacketSize, 16, packets.MaxPacketSize},
		{"TopicAliasMaximum", &l.TopicAliasMaximum, DefaultTopicAliasMaximum, -1, 65_535},
		{"MaxQueuedMessages", &l.MaxQueuedMessages, DefaultMaxQueuedMessages, 1, math.MaxInt},
		{"MaxQueuedBytes", &l.MaxQueuedBytes, DefaultMaxQueuedBytes, 1, math.MaxInt},
		{"MaxOutputBytes", &l.MaxOutputBytes, DefaultMaxOutputBytes, 1, math.MaxInt},
		{"MaxInboxMessages", &l.MaxInboxMessages, DefaultMaxInboxMessages, 1, math.MaxInt},
		{"MaxInboxBytes", &l.MaxInboxBytes, DefaultMaxInboxBytes, 1, math.MaxInt},
	} {
		if *each.value == 0 {
			*each.value = each.standard
		}
		if *each.value < each.least || *each.value > each.greatest {
			return failure(ErrInvalidOptions, "options", "Limits.%s is %d, not from %d to %d",
				each.name, *each.value, each.least, each.greatest)
		}
	}
	l.TopicAliasMaximum = max(l.TopicAliasMaximum, 0)
	if version == packets.V311 {
		l.TopicAliasMaximum = 0
	}
	return setTimes([]timeSetting{{"Limits.MaxReadPause", &l.MaxReadPause, DefaultMaxReadPause}})
}

// The defaults of [Timeouts].
const (
	DefaultConnectTimeout = 20 * time.Second
	DefaultPingTimeout    = 10 * time.Second
	DefaultWriteTimeout   = 30 * time.Second
	DefaultCloseTimeout   = 10 * time.Second
	DefaultRequestTimeout = 30 * time.Second
)

// Timeouts limit slow operations. Zero means the default.
type Timeouts struct {
	// Connect limits an attempt to connect, from the name lookup to CONNACK.
	Connect time.Duration
	// Ping limits the wait for PINGRESP.
	Ping time.Duration
	// Write limits a write to the connection.
	Write time.Duration
	// Close limits [Client.Close] for a context without a deadline.
	Close time.Duration
	// Request limits [Client.Request] for a context without a deadline.
	Request time.Duration
}

func (t *Timeouts) setDefaults() error {
	return setTimes([]timeSetting{
		{"Timeouts.Connect", &t.Connect, DefaultConnectTimeout}, {"Timeouts.Ping", &t.Ping, DefaultPingTimeout},
		{"Timeouts.Write", &t.Write, DefaultWriteTimeout}, {"Timeouts.Close", &t.Close, DefaultCloseTimeout},
		{"Timeouts.Request", &t.Request, DefaultRequestTimeout},
	})
}

// The defaults of [Reconnect].
const (
	DefaultReconnectMin         = 500 * time.Millisecond
	DefaultReconnectMax         = 30 * time.Second
	DefaultReconnectStableAfter = 5 * time.Second
)

// Reconnect sets the delay before an attempt to reconnect: it doubles with each failure from Min to Max, and is random between half and all
// of that. A connection of at least StableAfter resets it to Min. Zero means the default. If you set only one of Min and Max, and the
// default of the other conflicts, both have that value.
type Reconnect struct{ Min, Max, StableAfter time.Duration }

func (r *Reconnect) setDefaults() error {
	least, most := DefaultReconnectMin, DefaultReconnectMax
	if r.Max > 0 {
		least = min(least, r.Max)
	}
	if r.Min > 0 {
		most = max(most, r.Min)
	}
	err := setTimes([]timeSetting{
		{"Reconnect.Min", &r.Min, least}, {"Reconnect.Max", &r.Max, most},
		{"Reconnect.StableAfter", &r.StableAfter, DefaultReconnectStableAfter},
	})
	if err == nil && r.Min > r.Max {
		return failure(ErrInvalidOptions, "options", "Reconnect.Min (%v) is greater than Reconnect.Max (%v)", r.Min, r.Max)
	}
	return err
}

// timeSetting is a duration with its default.
type timeSetting struct {
	name     string
	value    *time.Duration
	standard time.Duration
}

func setTimes(all []timeSetting) error {
	for _, each := range all {
		if *each.value == 0 {
			*each.value = each.standard
		}
		if *each.value < 0 {
			return failure(ErrInvalidOptions, "options", "%s is negative: %v", each.name, *each.value)
		}
	}
	return nil
}
