package client

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Message is a message that has arrived. It has memory of its own: where several subscriptions get a message, each gets a copy.
type Message struct {
	publish *packets.Publish
	client  *Client
	pending *session.Incoming
	settled atomic.Bool
}

// Handler is called with the messages of a subscription, one after another. It may block, publish, subscribe,
// unsubscribe and close the client; other subscriptions go on meanwhile. When it returns the message is acknowledged, unless the
// subscription has [SubscribeOptions.ManualAck]. A handler that panics ends the program, as a panic in any goroutine does. ctx ends
// when the client is closed and the time to do so is over.
type Handler func(ctx context.Context, m *Message)

// Topic gives the topic name to which it was published.
func (m *Message) Topic() string { return m.publish.Topic() }

// Payload gives the application's data.
func (m *Message) Payload() []byte { return m.publish.Payload() }

// QoS gives the QoS at which it came.
func (m *Message) QoS() packets.QoS { return m.publish.QoS() }

// Retain says that the server kept it from before the subscription; with [SubscribeOptions.RetainAsPublished], that it was published so.
func (m *Message) Retain() bool { return m.publish.Retain() }

// Dup says that the server may have sent it before.
func (m *Message) Dup() bool { return m.publish.Dup() }

// Text says that the publisher calls the payload UTF-8 text. Nobody has checked that.
func (m *Message) Text() bool { return m.publish.PayloadFormat() == packets.PayloadUTF8 }

// Expiry gives how long the message is still of use, in whole seconds; false if it does not expire.
func (m *Message) Expiry() (left time.Duration, expires bool) {
	seconds, expires := m.publish.MessageExpiryInterval()
	return time.Duration(seconds) * time.Second, expires
}

// ContentType gives the content type; false if there is none.
func (m *Message) ContentType() (contentType string, ok bool) { return m.publish.ContentType() }

// ResponseTopic gives the topic for a response; false if none is asked for.
func (m *Message) ResponseTopic() (topic string, ok bool) { return m.publish.ResponseTopic() }

// CorrelationData gives what the requester knows its request by; false if there is none.
func (m *Message) CorrelationData() (data []byte, ok bool) { return m.publish.CorrelationData() }

// UserProperties gives the names and values in their order. A name may come more than once.
func (m *Message) UserProperties() iter.Seq2[string, string] { return m.publish.UserProperties() }

// UserProperty gives the first user property with that name.
func (m *Message) UserProperty(name string) (value string, ok bool) {
	for each, value := range m.publish.UserProperties() {
		if each == name {
			return value, true
		}
	}
	return "", false
}

// SubscriptionIDs gives the identifiers of the subscriptions that the server sent it for; see [Subscription.ID].
func (m *Message) SubscriptionIDs() iter.Seq[uint32] { return m.publish.SubscriptionIdentifiers() }

// String gives one line without the payload.
func (m *Message) String() string { return m.publish.String() }

// Ack acknowledges the message. It may be called at any time, from any goroutine, in any order. PUBACKs are sent in the order of the
// QoS 1 messages [MQTT-4.6.0-2], and PUBRECs in that of the QoS 2 messages [MQTT-4.6.0-3]: a message that is not acknowledged holds up
// those of its QoS after it. With [Limits.ReceiveMaximum] messages unacknowledged, the server sends no more. A second call does nothing,
// and neither does a call for QoS 0.
func (m *Message) Ack() { m.settle(packets.ReasonSuccess) }

// Reject acknowledges the message with a reason code of failure that PUBACK and PUBREC may carry, such as
// [packets.ReasonQuotaExceeded]. The server does not send it again. Before 5.0 there is no such thing: it is Ack.
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
