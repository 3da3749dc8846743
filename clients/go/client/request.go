package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// responseTopicPrefix begins the topics for responses, where the server does not say otherwise (section 4.10).
const responseTopicPrefix = "tautwire/response/"

// requests are those that wait for a response.
type requests struct {
	// opening is held, as a channel so that waiting for it can end, while the subscription is made.
	openingOnce sync.Once
	opening     chan struct{}

	mutex   sync.Mutex
	topic   string
	last    uint64
	waiting map[uint64]chan *Message
}

// Request publishes a message and waits for its response (section 4.10). It sets the response topic and the correlation data.
// The first request subscribes to a topic of this client's own; any number may wait at once. Give ctx a deadline: nobody
// else says when to stop waiting. If the server tells that nobody has subscribed (at QoS 1 and 2) the error is
// [ErrRejected] with [packets.ReasonNoMatchingSubscribers].
func (c *Client) Request(ctx context.Context, m Publication) (*Message, error) {
	if c.options.Version != packets.V5 {
		return nil, failure(ErrNotSupported, "request", "responses need MQTT 5.0")
	}
	topic, err := c.responseTopic(ctx)
	if err != nil {
		return nil, err
	}
	r := &c.requests
	response := make(chan *Message, 1)
	r.mutex.Lock()
	r.last++
	id := r.last
	r.waiting[id] = response
	r.mutex.Unlock()
	defer func() {
		r.mutex.Lock()
		delete(r.waiting, id)
		r.mutex.Unlock()
	}()
	m.ResponseTopic = topic
	m.CorrelationData = binary.BigEndian.AppendUint64(nil, id)
	token, err := c.PublishAsync(ctx, m)
	if err != nil {
		return nil, err
	}
	c.beginWait()
	defer c.endWait()
	published := token.Done()
	for {
		select {
		case message := <-response:
			return message, nil
		case <-published:
			reason, err, _ := token.Result()
			if err != nil {
				return nil, err
			}
			if reason == packets.ReasonNoMatchingSubscribers {
				return nil, &Error{Code: ErrRejected, Operation: "request", Reason: reason}
			}
			published = nil
		case <-c.done:
			return nil, c.endedError("request")
		case <-ctx.Done():
			token.Cancel()
			return nil, contextError(ErrCanceled, "request", ctx)
		}
	}
}

// responseTopic gives the topic for responses, and subscribes to it the first time.
func (c *Client) responseTopic(ctx context.Context) (string, error) {
	r := &c.requests
	r.openingOnce.Do(func() { r.opening = make(chan struct{}, 1) })
	select {
	case r.opening <- struct{}{}:
	case <-ctx.Done():
		return "", contextError(ErrCanceled, "request", ctx)
	}
	defer func() { <-r.opening }()
	if r.topic != "" {
		return r.topic, nil
	}
	prefix := responseTopicPrefix
	if info := c.stats.server.Load(); info != nil && info.ResponseInformation != "" {
		prefix = strings.TrimSuffix(info.ResponseInformation, "/") + "/"
	}
	var random [12]byte
	_, _ = rand.Read(random[:])
	topic := prefix + hex.EncodeToString(random[:])
	r.mutex.Lock()
	r.waiting = map[uint64]chan *Message{}
	r.mutex.Unlock()
	if _, err := c.Handle(ctx, topic, SubscribeOptions{QoS: packets.ExactlyOnce}, c.onResponse); err != nil {
		return "", err
	}
	r.topic = topic
	return topic, nil
}

func (c *Client) onResponse(_ context.Context, m *Message) {
	correlation, _ := m.CorrelationData()
	if len(correlation) != 8 {
		return
	}
	r := &c.requests
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if response := r.waiting[binary.BigEndian.Uint64(correlation)]; response != nil {
		select {
		case response <- m:
		default:
		}
	}
}

// Responder makes the response to a request. Its Topic, QoS and CorrelationData are set by Respond. With an error nothing is
// sent, and the request is acknowledged all the same.
type Responder func(ctx context.Context, request *Message) (Publication, error)

// Respond answers requests: it is Handle with a function whose result is published to the request's response topic, with its
// correlation data, at its QoS. Messages without a response topic are left unanswered.
func (c *Client) Respond(ctx context.Context, filter string, options SubscribeOptions, respond Responder) (*Subscription, error) {
	if c.options.Version != packets.V5 {
		return nil, failure(ErrNotSupported, "respond", "responses need MQTT 5.0")
	}
	return c.Handle(ctx, filter, options, func(ctx context.Context, m *Message) {
		topic, wanted := m.ResponseTopic()
		if !wanted {
			return
		}
		response, err := respond(ctx, m)
		if err != nil {
			c.log.Warn("mqtt: a request could not be answered", "topic", m.Topic(), "error", err)
			return
		}
		response.Topic, response.QoS = topic, m.QoS()
		response.CorrelationData, _ = m.CorrelationData()
		if _, err := c.PublishAsync(ctx, response); err != nil {
			c.log.Warn("mqtt: a response could not be published", "error", err)
		}
	})
}
