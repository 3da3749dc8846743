package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// handlerGrace is how long Close waits for handlers whose contexts it has ended.
const handlerGrace = time.Second

// SubscribeOptions are what a subscription can be told. NoLocal, RetainAsPublished, RetainHandling and UserProperties need 5.0.
type SubscribeOptions struct {
	// QoS is the highest at which messages shall come.
	QoS packets.QoS
	// NoLocal leaves out what this client publishes.
	NoLocal bool
	// RetainAsPublished leaves the retain flag of messages as it was published.
	RetainAsPublished bool
	RetainHandling    packets.RetainHandling
	UserProperties    []UserProperty
	// ManualAck leaves it to the application to call [Message.Ack]. Otherwise a message is acknowledged when its handler
	// returns, or when the loop over [Subscription.Messages] asks for the next or is left.
	ManualAck bool
}

// Subscription is a topic filter for which this client gets messages. It is renewed whenever the server has lost it.
type Subscription struct {
	client *Client
	filter string
	manual bool
	inbox  *inbox
	entry  *filterEntry
	// worker is closed when the handler is not called any more; nil without one.
	worker chan struct{}
	// quit ends the taking of messages for the handler.
	quit context.CancelFunc
}

// Subscribe asks for messages, and returns when the server has agreed: at once if there is a connection, else when there is one.
// If ctx ends first there is no subscription. Take the messages with [Subscription.Messages] or [Subscription.Receive].
//
// Of two subscriptions of the same filter each gets all messages; the server is asked for both together.
func (c *Client) Subscribe(ctx context.Context, filter string, options SubscribeOptions) (*Subscription, error) {
	return c.subscribe(ctx, filter, options, nil)
}

// Handle is Subscribe with a function that is called with each message. See [Handler] for what it may do.
func (c *Client) Handle(ctx context.Context, filter string, options SubscribeOptions, handler Handler) (*Subscription, error) {
	return c.subscribe(ctx, filter, options, handler)
}

func (c *Client) subscribe(ctx context.Context, filter string, o SubscribeOptions, handler Handler) (*Subscription, error) {
	if err := c.checkSubscribe(filter, &o); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	if c.ended || c.closing {
		defer c.mutex.Unlock()
		return nil, closedError("subscribe", c.failure)
	}
	if err := c.serverTakes(filter); err != nil {
		c.mutex.Unlock()
		return nil, err
	}
	s := c.newSubscription(filter, o, handler)
	asked := c.askSubscribe(s.entry, true)
	c.mutex.Unlock()
	if err := c.waitRequest(ctx, asked, "subscribe"); err != nil {
		c.mutex.Lock()
		c.removeSubscription(s)
		c.mutex.Unlock()
		s.discard()
		return nil, err
	}
	return s, nil
}

// checkSubscribe says what the server would, without asking it.
func (c *Client) checkSubscribe(filter string, o *SubscribeOptions) error {
	if err := packets.CheckTopicFilter(filter); err != nil {
		return wrap(ErrInvalidFilter, "subscribe", err)
	}
	if o.QoS > packets.ExactlyOnce {
		return failure(ErrInvalidOptions, "subscribe", "%v is unknown", o.QoS)
	}
	isPlain := !o.NoLocal && !o.RetainAsPublished && o.RetainHandling == 0 && len(o.UserProperties) == 0
	if c.options.Version != packets.V5 && !isPlain {
		return failure(ErrNotSupported, "subscribe", "NoLocal, RetainAsPublished, RetainHandling and UserProperties need MQTT 5.0")
	}
	_, _, shared := packets.SplitShare(filter)
	if shared && o.NoLocal {
		return failure(ErrInvalidOptions, "subscribe", "NoLocal is not for shared subscriptions (MQTT-3.8.3-4)")
	}
	return nil
}

// serverTakes says whether the server offers such subscriptions. The mutex is held.
func (c *Client) serverTakes(filter string) error {
	info := c.stats.server.Load()
	if c.current == nil || info == nil || c.options.Version != packets.V5 {
		return nil
	}
	_, topicFilter, shared := packets.SplitShare(filter)
	switch {
	case shared && !info.SharedSubscriptions:
		return failure(ErrNotSupported, "subscribe", "the server has no shared subscriptions")
	case packets.HasWildcard(topicFilter) && !info.WildcardSubscriptions:
		return failure(ErrNotSupported, "subscribe", "the server has no wildcards")
	}
	return nil
}

// newSubscription adds a subscription here. The mutex is held.
func (c *Client) newSubscription(filter string, o SubscribeOptions, handler Handler) *Subscription {
	s := &Subscription{
		client: c, filter: filter, manual: o.ManualAck,
		inbox: newInbox(c.options.MaxInboxMessages, c.options.MaxInboxBytes),
	}
	c.addToEntry(s, o)
	if handler != nil {
		s.startWorker(handler)
	}
	return s
}

// startWorker calls the handler with one message after another, on a goroutine that ends with the inbox or the client. The mutex
// is held.
func (s *Subscription) startWorker(handler Handler) {
	s.worker = make(chan struct{})
	s.client.workers[s] = struct{}{}
	take, quit := context.WithCancel(s.client.work)
	s.quit = quit
	ctx := context.WithValue(s.client.work, workerKey{}, s)
	go func() {
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
			handler(ctx, m)
			if !s.manual {
				m.Ack()
			}
		}
	}()
}

// stopWorkers lets no more handlers begin, and waits for those that run, but for one that it is called from.
func (c *Client) stopWorkers(ctx context.Context) error {
	own, _ := ctx.Value(workerKey{}).(*Subscription)
	var running []*Subscription
	c.mutex.Lock()
	for s := range c.workers {
		s.quit()
		if s != own {
			running = append(running, s)
		}
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

// Filter gives the topic filter.
func (s *Subscription) Filter() string { return s.filter }

// QoS gives the highest at which messages come, as the server granted it last.
func (s *Subscription) QoS() packets.QoS {
	s.client.mutex.Lock()
	defer s.client.mutex.Unlock()
	return s.entry.qos
}

// ID gives the subscription identifier with which the server marks messages; 0 if it does not.
func (s *Subscription) ID() uint32 {
	if info := s.client.stats.server.Load(); info == nil || !info.SubscriptionIdentifiers {
		return 0
	}
	return s.entry.id
}

// Receive waits for a message. It gives [ErrCanceled] when ctx ends, [ErrClosed] when the subscription or the client did,
// or the error for which it did. The message is acknowledged by [Message.Ack] only, whatever [SubscribeOptions.ManualAck] says.
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

// Messages gives the messages one after another, for a loop:
//
//	for message, err := range subscription.Messages(ctx) { … }
//
// It ends with an error when ctx ends, the client fails or the server refuses to renew the subscription; without one after
// Unsubscribe or Close. Unless the subscription has [SubscribeOptions.ManualAck], a message is acknowledged when the loop
// asks for the next one or is left. Leaving the loop does not end the subscription: call Unsubscribe.
func (s *Subscription) Messages(ctx context.Context) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		for {
			m, err := s.Receive(ctx)
			if err != nil {
				if !errors.Is(err, ErrClosed) {
					yield(nil, err)
				}
				return
			}
			goOn := yield(m, nil)
			if !s.manual {
				m.Ack()
			}
			if !goOn {
				return
			}
		}
	}
}

// Unsubscribe ends the subscription, and returns when the server knows. Messages that came before are still given to a handler;
// without one they are acknowledged and dropped, so take first what is wanted. If ctx ends before the server has answered,
// the subscription has ended here all the same. It may be called from the subscription's own handler.
func (s *Subscription) Unsubscribe(ctx context.Context) error {
	c := s.client
	c.mutex.Lock()
	asked := c.removeSubscription(s)
	ended := c.ended
	c.mutex.Unlock()
	s.discard()
	if ended || asked == nil {
		return nil
	}
	return c.waitRequest(ctx, asked, "unsubscribe")
}

func (s *Subscription) discard() {
	s.inbox.end(nil)
	if s.worker == nil {
		for _, m := range s.inbox.discard() {
			m.Ack()
		}
	}
}
