package client

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// handlerGrace is how long Close waits for handlers after it has ended their contexts.
const handlerGrace = time.Second

// SubscribeOptions configure a subscription. NoLocal, RetainAsPublished, RetainHandling and UserProperties require 5.0.
type SubscribeOptions struct {
	// QoS is the maximum QoS of the messages.
	QoS packets.QoS
	// MoreFilters are further topic filters of the same subscription.
	MoreFilters []string
	// NoLocal excludes messages that this client publishes.
	NoLocal bool
	// RetainAsPublished keeps the retain flag of messages as published.
	RetainAsPublished bool
	RetainHandling    packets.RetainHandling
	UserProperties    []UserProperty
	// ManualAck requires the application to call [Message.Ack]. Otherwise a message is acknowledged when its handler returns, or when the loop
	// over [Subscription.Messages] requests the next one or ends.
	ManualAck bool
}

// Subscription is a subscription to one or more topic filters. It is renewed if the server has lost it.
type Subscription struct {
	client  *Client
	filters []string
	options SubscribeOptions
	inbox   *inbox
	entries []*filterEntry
	// worker is closed when the handler is no longer called; nil without a handler.
	worker chan struct{}
	// quit stops taking messages for the handler.
	quit context.CancelFunc
}

// Subscribe subscribes and returns when the server has granted it: at once if there is a connection, otherwise when there is one. If ctx
// ends first, there is no subscription. Read the messages with [Subscription.Messages] or [Subscription.Receive].
//
// Each of two subscriptions to the same filter gets all messages. For the server they are one subscription: the highest QoS, NoLocal if
// both request it, RetainAsPublished if one does. A message that matches several filters of one subscription arrives once.
func (c *Client) Subscribe(ctx context.Context, filter string, options SubscribeOptions) (*Subscription, error) {
	return c.subscribe(ctx, filter, options, nil)
}

// InitialSubscriptions returns those of [Options.Subscriptions], in their order. If the server refuses one, at the first connection or when
// it is renewed, its [Subscription.Done] is closed and [Subscription.Err] returns the reason.
func (c *Client) InitialSubscriptions() []*Subscription { return slices.Clone(c.initial) }

// Handle is Subscribe with a handler for each message. See [Handler] for what it may do.
func (c *Client) Handle(ctx context.Context, filter string, options SubscribeOptions, handler Handler) (*Subscription, error) {
	if handler == nil {
		return nil, failure(ErrInvalidArgument, "subscribe", "the handler for %q is nil: use Subscribe to receive without one", filter)
	}
	return c.subscribe(ctx, filter, options, handler)
}

func (c *Client) subscribe(ctx context.Context, filter string, o SubscribeOptions, handler Handler) (*Subscription, error) {
	filters, err := c.checkSubscribe(filter, &o)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, contextError(ErrCanceled, "subscribe", ctx)
	}
	c.mutex.Lock()
	if c.ended || c.closing {
		defer c.mutex.Unlock()
		return nil, closedError("subscribe", c.failure)
	}
	if err := c.serverTakes(filters); err != nil {
		c.mutex.Unlock()
		return nil, err
	}
	s := c.newSubscription(filters, o, handler)
	asked := c.askFor(s)
	c.mutex.Unlock()
	if err := c.waitRequests(ctx, asked, "subscribe"); err != nil {
		c.mutex.Lock()
		c.removeSubscription(s)
		c.mutex.Unlock()
		s.discard()
		return nil, err
	}
	return s, nil
}

// checkSubscribe validates the arguments locally. It returns the filters without duplicates.
func (c *Client) checkSubscribe(first string, o *SubscribeOptions) ([]string, error) {
	if o.QoS > packets.ExactlyOnce {
		return nil, failure(ErrInvalidArgument, "subscribe", "%v is unknown", o.QoS)
	}
	isPlain := !o.NoLocal && !o.RetainAsPublished && o.RetainHandling == 0 && len(o.UserProperties) == 0
	if c.options.Version != packets.V5 && !isPlain {
		return nil, failure(ErrNotSupported, "subscribe", "NoLocal, RetainAsPublished, RetainHandling and UserProperties require MQTT 5.0")
	}
	filters := make([]string, 0, 1+len(o.MoreFilters))
	for _, filter := range append([]string{first}, o.MoreFilters...) {
		if err := packets.CheckTopicFilter(filter); err != nil {
			return nil, invalid("subscribe", err)
		}
		if _, _, shared := packets.SplitShare(filter); shared && o.NoLocal {
			return nil, failure(ErrInvalidArgument, "subscribe", "NoLocal is not allowed for shared subscriptions (MQTT-3.8.3-4)")
		}
		if !slices.Contains(filters, filter) {
			filters = append(filters, filter)
		}
	}
	return filters, nil
}

// serverTakes checks whether the server supports these filters. The mutex is held.
func (c *Client) serverTakes(filters []string) error {
	info := c.stats.server.Load()
	if c.current == nil || info == nil || c.options.Version != packets.V5 {
		return nil
	}
	for _, filter := range filters {
		_, topicFilter, shared := packets.SplitShare(filter)
		switch {
		case shared && !info.SharedSubscriptions:
			return failure(ErrNotSupported, "subscribe", "shared subscriptions, %s", filter)
		case packets.HasWildcard(topicFilter) && !info.WildcardSubscriptions:
			return failure(ErrNotSupported, "subscribe", "wildcards, %s", filter)
		}
	}
	return nil
}

// newSubscription adds a subscription here. The mutex is held.
func (c *Client) newSubscription(filters []string, o SubscribeOptions, handler Handler) *Subscription {
	s := &Subscription{
		client: c, filters: filters, options: o, inbox: newInbox(c.options.Limits.MaxInboxMessages, c.options.Limits.MaxInboxBytes),
	}
	c.addToEntries(s)
	if handler != nil {
		s.startWorker(handler)
	}
	return s
}

// startWorker calls the handler with one message after another, on a goroutine that ends with the inbox or the client. The mutex is held.
func (s *Subscription) startWorker(handler Handler) {
	s.worker = make(chan struct{})
	s.client.workers[s] = struct{}{}
	take, quit := context.WithCancel(s.client.work)
	s.quit = quit
	go runCallbacks(func() {
		defer func() {
			quit()
			s.client.mutex.Lock()
			delete(s.client.workers, s)
			s.client.mutex.Unlock()
			close(s.worker)
		}()
		for take.Err() == nil {
			m, err := s.inbox.take(take)
			if m == nil || err != nil {
				return
			}
			handler(s.client.work, m)
			if !s.options.ManualAck {
				m.Ack()
			}
		}
	})
}

// stopWorkers starts no more handlers, and waits for running ones.
func (c *Client) stopWorkers(ctx context.Context) error {
	var running []*Subscription
	c.mutex.Lock()
	for s := range c.workers {
		s.quit()
		running = append(running, s)
	}
	c.mutex.Unlock()
	var late *time.Timer
	for _, s := range running {
		if late == nil {
			select {
			case <-s.worker:
				continue
			case <-ctx.Done():
				c.endWork(closedError("handler", nil))
				late = time.NewTimer(handlerGrace)
				defer late.Stop()
			}
		}
		select {
		case <-s.worker:
		case <-late.C:
			return wrap(ErrClosed, "close", errors.New("a handler has not returned"))
		}
	}
	return nil
}

// Filters returns the topic filters.
func (s *Subscription) Filters() []string { return slices.Clone(s.filters) }

// QoS returns the QoS that the server granted last; the lowest of several filters.
func (s *Subscription) QoS() packets.QoS {
	s.client.mutex.Lock()
	defer s.client.mutex.Unlock()
	granted := packets.ExactlyOnce
	for _, entry := range s.entries {
		granted = min(granted, entry.qos)
	}
	return granted
}

// Dropped returns the number of QoS 0 messages that found the inbox full and were dropped.
func (s *Subscription) Dropped() uint64 {
	s.inbox.mutex.Lock()
	defer s.inbox.mutex.Unlock()
	return s.inbox.dropped
}

// ID returns the subscription identifier of the first filter; 0 if there is none.
func (s *Subscription) ID() uint32 {
	if info := s.client.stats.server.Load(); info == nil || !info.SubscriptionIdentifiers {
		return 0
	}
	return s.entries[0].id
}

// Done returns a channel that is closed when the subscription has ended: by Unsubscribe, with the client, or because the server has refused
// to renew it. See [Subscription.Err]. A handler may still have earlier messages.
func (s *Subscription) Done() <-chan struct{} { return s.inbox.finished }

// Err returns the error that ended the subscription; nil while it is active, and after Unsubscribe and Close.
func (s *Subscription) Err() error {
	err := s.inbox.failure()
	if errors.Is(err, ErrUnsubscribed) {
		return nil
	}
	return err
}

// Receive waits for a message. It returns [ErrCanceled] when ctx ends, [ErrUnsubscribed] after Unsubscribe, [ErrClosed] after Close, or the
// error that ended the client or the subscription. Only [Message.Ack] acknowledges the message, whatever [SubscribeOptions.ManualAck] is.
func (s *Subscription) Receive(ctx context.Context) (*Message, error) {
	m, err := s.inbox.take(ctx)
	switch {
	case m != nil:
		return m, nil
	case ctx.Err() != nil:
		return nil, contextError(ErrCanceled, "receive", ctx)
	case err != nil:
		return nil, err
	}
	return nil, closedError("receive", nil)
}

// Messages returns an iterator over the messages:
//
//	for message, err := range subscription.Messages(ctx) { … }
//
// It ends with an error when ctx ends, the client fails or the server refuses to renew the subscription; without one after Unsubscribe or
// Close. Unless the subscription has [SubscribeOptions.ManualAck], a message is acknowledged when the loop requests the next one or ends.
// Leaving the loop does not end the subscription: call Unsubscribe.
func (s *Subscription) Messages(ctx context.Context) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		for {
			m, err := s.Receive(ctx)
			if err != nil {
				if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrUnsubscribed) {
					yield(nil, err)
				}
				return
			}
			goOn := yield(m, nil)
			if !s.options.ManualAck {
				m.Ack()
			}
			if !goOn {
				return
			}
		}
	}
}

// Unsubscribe ends the subscription, and returns when the server has confirmed it. Earlier messages still go to a handler; without a
// handler they are acknowledged and dropped, so read them first. If ctx ends before the server's answer, the subscription has ended here
// nevertheless. It may be called from the subscription's own handler.
func (s *Subscription) Unsubscribe(ctx context.Context) error {
	c := s.client
	c.mutex.Lock()
	asked := c.removeSubscription(s)
	ended := c.ended
	c.mutex.Unlock()
	s.discard()
	if ended {
		return nil
	}
	return c.waitRequests(ctx, asked, "unsubscribe")
}

func (s *Subscription) discard() {
	s.inbox.end(failure(ErrUnsubscribed, "receive", "%s", strings.Join(s.filters, ", ")))
	if s.worker == nil {
		for _, m := range s.inbox.discard() {
			m.Ack()
		}
	}
}
