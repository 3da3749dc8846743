package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"sync"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// responseTopicPrefix is the prefix of response topics if the server sends no Response Information (section 4.10).
const responseTopicPrefix = "tautwire/response/"

// failureProperty is the user property of a failed response: a text for people.
const failureProperty = "error"

// unnamedFailure replaces errors that may contain secrets.
const unnamedFailure = "the responder failed"

// requests are the pending requests.
type requests struct {
	// opening is held while the subscription is made; a channel, so that waiting for it can be cancelled.
	openingOnce sync.Once
	opening     chan struct{}

	// topic is the response topic, and listening the subscription to it; guarded by opening.
	topic     string
	listening *Subscription

	mutex   sync.Mutex
	last    uint64
	waiting map[uint64]chan *Message
	// late counts responses without a pending request.
	late uint64
}

// Request publishes a message at QoS 1, or at QoS 2 if set, and waits for its response (section 4.10). It sets the response topic and the
// correlation data. The first request subscribes to a topic of this client's own; any number may be pending.
//
// It waits for [Timeouts.Request] if ctx has no deadline. The errors, besides those of [Client.Publish], are [ErrRequestFailed] with the
// explanation of the responder, [ErrNoResponder] at once if there is no subscriber, [ErrRequestTimeout] after the deadline, whether the
// request was sent or not, and [ErrSubscribeRefused] if the server refuses the subscription to the response topic.
func (c *Client) Request(ctx context.Context, m Publication) (*Message, error) {
	m.QoS = max(m.QoS, packets.AtLeastOnce)
	return c.request(ctx, m)
}

// RequestAtMostOnce is Request at QoS 0. Without a responder it times out, because the server does not report missing subscribers.
func (c *Client) RequestAtMostOnce(ctx context.Context, m Publication) (*Message, error) {
	m.QoS = packets.AtMostOnce
	return c.request(ctx, m)
}

func (c *Client) request(ctx context.Context, m Publication) (*Message, error) {
	if c.options.Version != packets.V5 {
		return nil, failure(ErrNotSupported, "request", "requests require MQTT 5.0")
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeouts.Request)
		defer cancel()
	}
	response, err := c.exchange(ctx, m)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && (errors.Is(err, ErrCanceled) || errors.Is(err, ErrUnacknowledged)) {
		return nil, &Error{Code: ErrRequestTimeout, Operation: "request", Detail: m.Topic, Err: causeOf(ctx)}
	}
	if err != nil {
		return nil, err
	}
	if sentence, failed := response.UserProperty(failureProperty); failed && len(response.Payload()) == 0 {
		return nil, failure(ErrRequestFailed, "request", "%s", sentence)
	}
	return response, nil
}

// exchange publishes a request, and waits for its response.
func (c *Client) exchange(ctx context.Context, m Publication) (*Message, error) {
	if ctx.Err() != nil {
		return nil, contextError(ErrCanceled, "request", ctx)
	}
	topic, listening, err := c.responseTopic(ctx)
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
			reason, err, _ := token.result()
			if err != nil {
				return nil, err
			}
			if reason == packets.ReasonNoMatchingSubscribers {
				return nil, &Error{Code: ErrNoResponder, Operation: "request", Detail: m.Topic, Reason: reason}
			}
			published = nil
		case <-listening.worker:
			// Responses no longer arrive: the server has refused to renew the subscription, or the client is closing.
			select {
			case message := <-response:
				return message, nil
			default:
			}
			token.Cancel()
			if err := listening.inbox.failure(); err != nil {
				return nil, err
			}
			return nil, c.endedError("request")
		case <-c.done:
			return nil, c.endedError("request")
		case <-ctx.Done():
			if token.Cancel() {
				return nil, contextError(ErrCanceled, "request", ctx)
			}
			return nil, contextError(ErrUnacknowledged, "request", ctx)
		}
	}
}

// responseTopic returns the response topic and the subscription to it, which is made the first time, and again if the server has refused
// to renew it.
func (c *Client) responseTopic(ctx context.Context) (string, *Subscription, error) {
	r := &c.requests
	r.openingOnce.Do(func() { r.opening = make(chan struct{}, 1) })
	select {
	case r.opening <- struct{}{}:
	case <-ctx.Done():
		return "", nil, contextError(ErrCanceled, "request", ctx)
	}
	defer func() { <-r.opening }()
	if r.listening != nil && !r.listening.inbox.hasEnded() {
		return r.topic, r.listening, nil
	}
	prefix := responseTopicPrefix
	if info := c.stats.server.Load(); info != nil && info.ResponseInformation != "" {
		prefix = strings.TrimSuffix(info.ResponseInformation, "/") + "/"
	}
	var random [12]byte
	_, _ = rand.Read(random[:])
	topic := prefix + hex.EncodeToString(random[:])
	r.mutex.Lock()
	if r.waiting == nil {
		r.waiting = map[uint64]chan *Message{}
	}
	r.mutex.Unlock()
	listening, err := c.Handle(ctx, topic, SubscribeOptions{QoS: packets.ExactlyOnce}, c.onResponse)
	if err != nil {
		return "", nil, err
	}
	r.topic, r.listening = topic, listening
	return topic, listening, nil
}

func (c *Client) onResponse(_ context.Context, m *Message) {
	r := &c.requests
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if correlation, _ := m.CorrelationData(); len(correlation) == 8 {
		select {
		case r.waiting[binary.BigEndian.Uint64(correlation)] <- m:
			return
		default:
		}
	}
	r.late++
}

// ResponseFailure is an error of a [Responder] with a text for people. The requester gets it with [ErrRequestFailed].
type ResponseFailure string

// Error returns the text.
func (f ResponseFailure) Error() string { return string(f) }

// Responder makes the response to a request. Its Topic, QoS and CorrelationData are set by Respond. An error that is, or wraps, a
// [ResponseFailure] is sent to the requester; any other error is logged here, and the requester gets only "the responder failed", because
// its text may contain secrets.
type Responder func(ctx context.Context, request *Message) (Publication, error)

// Respond answers requests: it is Handle with a function whose result is published to the response topic of the request, with its
// correlation data, at its QoS. The QoS of options is not used: a request arrives at the QoS at which it was published. The result for a
// message without a response topic is dropped.
func (c *Client) Respond(ctx context.Context, filter string, options SubscribeOptions, respond Responder) (*Subscription, error) {
	if c.options.Version != packets.V5 {
		return nil, failure(ErrNotSupported, "respond", "requests require MQTT 5.0")
	}
	if respond == nil {
		return nil, failure(ErrInvalidArgument, "respond", "%q has no responder", filter)
	}
	options.QoS = packets.ExactlyOnce
	return c.Handle(ctx, filter, options, func(ctx context.Context, m *Message) {
		response, err := respond(ctx, m)
		if err != nil {
			c.log.Warn("mqtt: a responder failed", "topic", m.Topic(), "error", err)
			response = failedResponse(err)
		}
		if err := c.answer(ctx, m, response); err != nil {
			c.log.Warn("mqtt: could not publish a response", "topic", m.Topic(), "error", err)
			// The response may be too large. A failure saves the requester from waiting for the timeout.
			_ = c.answer(ctx, m, failedResponse(err))
		}
	})
}

// answer publishes a response, if one is requested.
func (c *Client) answer(ctx context.Context, request *Message, response Publication) error {
	topic, isWanted := request.ResponseTopic()
	if !isWanted {
		return nil
	}
	response.Topic, response.QoS = topic, request.QoS()
	response.CorrelationData, _ = request.CorrelationData()
	_, err := c.PublishAsync(ctx, response)
	return err
}

func failedResponse(err error) Publication {
	sentence := unnamedFailure
	var named ResponseFailure
	if errors.As(err, &named) {
		sentence = string(named)
	}
	return Publication{UserProperties: []UserProperty{{failureProperty, sentence}}}
}
