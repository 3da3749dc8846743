package client

import (
	"context"
	"sync/atomic"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Message is a message that has arrived. The embedded packet has its topic, payload, QoS, properties and the rest; it is
// the application's own, and stays as it is. Several subscriptions that a message matches share it: do not change it then.
type Message struct {
	*packets.Publish

	client  *Client
	pending *session.Incoming
	settled atomic.Bool
}

// Handler is called with the messages of a subscription, one after another. It may block, publish, subscribe and
// unsubscribe; other subscriptions go on meanwhile. When it returns the message is acknowledged, unless the subscription
// has [SubscribeOptions.ManualAck]. ctx ends when the client is closed and the time to do so is over.
type Handler func(ctx context.Context, m *Message)

// Ack acknowledges the message. It may be called at any time, from any goroutine, in any order: acknowledgements are sent
// in the order in which the messages came [MQTT-4.6.0-2], so that one that is kept back holds up those after it. With
// [Options.ReceiveMaximum] messages unacknowledged, the server sends no more. A second call does nothing, and so does the
// first for QoS 0.
func (m *Message) Ack() { m.settle(packets.ReasonSuccess) }

// Reject acknowledges the message with a reason code of failure that PUBACK and PUBREC may carry, such as
// [packets.ReasonQuotaExceeded]. The server does not send it again. Before 5.0 there is no such thing: it is Ack.
func (m *Message) Reject(reason packets.ReasonCode) error {
	if !reason.IsError() || !reason.AllowedIn(packets.TypePubAck) {
		return failure(ErrInvalidPublication, "reject", "%v is not a failure that PUBACK may carry", reason)
	}
	m.settle(reason)
	return nil
}

func (m *Message) settle(reason packets.ReasonCode) {
	if m.pending == nil || m.settled.Swap(true) {
		return
	}
	c := m.client
	c.mutex.Lock()
	c.session.Ack(m.pending, reason)
	c.wakeWriter()
	c.mutex.Unlock()
}
