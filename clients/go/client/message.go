package client

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Message is a received message. It has memory of its own: if several subscriptions get a message, each gets a copy.
type Message struct {
	publish *packets.Publish
	client  *Client
	pending *session.Incoming
	settled atomic.Bool
}

// Handler is called with the messages of a subscription, one after another. It may block, publish, subscribe, unsubscribe and close the
// client; other subscriptions continue meanwhile. When it returns, the message is acknowledged, unless the subscription has
// [SubscribeOptions.ManualAck]. A handler that panics ends the program, as a panic in any goroutine does. ctx ends when the time limit
// of Close has passed.
type Handler func(ctx context.Context, m *Message)

// Topic returns the topic name to which it was published.
func (m *Message) Topic() string { return m.publish.Topic() }

// Payload returns the payload.
func (m *Message) Payload() []byte { return m.publish.Payload() }

// QoS returns the QoS at which it arrived.
func (m *Message) QoS() packets.QoS { return m.publish.QoS() }

// Retain reports whether it is a retained message from before the subscription; with [SubscribeOptions.RetainAsPublished], the flag of
// its publisher.
func (m *Message) Retain() bool { return m.publish.Retain() }

// Dup reports whether the server may have sent it before.
func (m *Message) Dup() bool { return m.publish.Dup() }

// Text reports whether the publisher marked the payload as UTF-8 text. This is not validated.
func (m *Message) Text() bool { return m.publish.PayloadFormat() == packets.PayloadUTF8 }

// Expiry returns the remaining expiry interval, in whole seconds; false if it does not expire.
func (m *Message) Expiry() (left time.Duration, expires bool) {
	seconds, expires := m.publish.MessageExpiryInterval()
	return time.Duration(seconds) * time.Second, expires
}

// ContentType returns the content type; false if there is none.
func (m *Message) ContentType() (contentType string, ok bool) { return m.publish.ContentType() }

// ResponseTopic returns the topic for a response; false if none is requested.
func (m *Message) ResponseTopic() (topic string, ok bool) { return m.publish.ResponseTopic() }

// CorrelationData returns the data that identifies the request; false if there is none.
func (m *Message) CorrelationData() (data []byte, ok bool) { return m.publish.CorrelationData() }

// UserProperties returns the names and values in their order. A name may occur more than once.
func (m *Message) UserProperties() iter.Seq2[string, string] { return m.publish.UserProperties() }

// UserProperty returns the first user property with that name.
func (m *Message) UserProperty(name string) (value string, ok bool) {
	for each, value := range m.publish.UserProperties() {
		if each == name {
			return value, true
		}
	}
	return "", false
}

// SubscriptionIDs returns the identifiers of the matching subscriptions, if the server sent them; see [Subscription.ID].
func (m *Message) SubscriptionIDs() iter.Seq[uint32] { return m.publish.SubscriptionIdentifiers() }

// String returns one line without the payload.
func (m *Message) String() string { return m.publish.String() }

// Ack acknowledges the message. It may be called at any time, from any goroutine, in any order. PUBACKs are sent in the order of the QoS
// 1 messages [MQTT-4.6.0-2], and PUBRECs in that of the QoS 2 messages [MQTT-4.6.0-3]: an unacknowledged message holds back later ones
// of its QoS. At [Limits.ReceiveMaximum] unacknowledged messages the server stops sending. A second call does nothing, and neither does
// a call for QoS 0.
func (m *Message) Ack() { m.settle(packets.ReasonSuccess) }

// Reject acknowledges the message with a failure reason code that PUBACK and PUBREC may carry, such as [packets.ReasonQuotaExceeded].
// The server does not send it again. Before 5.0 there are no reason codes, so it acts like Ack.
func (m *Message) Reject(reason packets.ReasonCode) error {
	if !reason.IsError() || !reason.AllowedIn(packets.TypePubAck) {
		return failure(ErrInvalidArgument, "reject", "%v is not a failure that PUBACK may carry", reason)
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
