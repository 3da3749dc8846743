package client

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// MaxPendingRequests bounds SUBSCRIBE and UNSUBSCRIBE packets that wait for an answer. Further ones are sent as answers come.
const MaxPendingRequests = 1024

// filterEntry is what the server knows: one filter, whoever here wants it.
type filterEntry struct {
	filter string
	// match is the filter without the name of a share.
	match   string
	id      uint32
	options SubscribeOptions
	wanted  []*Subscription
	// granted says that the server has agreed in its present session, to that QoS; latest is the SUBSCRIBE that was asked for last.
	granted bool
	qos     packets.QoS
	latest  *request
}

// request is a SUBSCRIBE or UNSUBSCRIBE that was asked for.
type request struct {
	entry *filterEntry
	// retainHandling is of this request alone: the entry's is for when it is renewed.
	retainHandling packets.RetainHandling
	unsubscribe    bool
	done           chan struct{}
	ended          bool
	err            error
}

func (r *request) finish(err error) {
	if !r.ended {
		r.ended, r.err = true, err
		close(r.done)
	}
}

// subscriptions are all that the client wants, guarded by its mutex.
type subscriptions struct {
	entries map[string]*filterEntry
	lastID  uint32
	// changes counts what routers have to take note of.
	changes atomic.Uint64
	// waitingRequests are to be sent, sentRequests to be answered.
	waitingRequests  []*request
	sentRequests     map[packets.PacketID]*request
	reauthentication *request
	unrouted         *Subscription
	// workers are the subscriptions whose handlers may be called.
	workers map[*Subscription]struct{}
}

func (s *subscriptions) init() {
	s.entries = map[string]*filterEntry{}
	s.sentRequests = map[packets.PacketID]*request{}
	s.workers = map[*Subscription]struct{}{}
}

// beginSubscriptions makes those of the options, before there is any connection.
func (c *Client) beginSubscriptions() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.options.Unrouted != nil {
		c.unrouted = &Subscription{client: c, inbox: newInbox(c.options.MaxInboxMessages, c.options.MaxInboxBytes)}
		c.unrouted.startWorker(c.options.Unrouted)
	}
	for _, each := range c.options.Subscriptions {
		if each.Handler == nil {
			return failure(ErrInvalidOptions, "subscribe", "Subscriptions: %q has no Handler", each.Filter)
		}
		if err := c.checkSubscribe(each.Filter, &each.Options); err != nil {
			return err
		}
		c.askSubscribe(c.newSubscription(each.Filter, each.Options, each.Handler).entry, true)
	}
	return nil
}

// addToEntry adds a subscription to those of its filter, which the server is asked for together.
func (c *Client) addToEntry(s *Subscription, o SubscribeOptions) {
	entry := c.entries[s.filter]
	if entry == nil {
		c.lastID++
		_, match, _ := packets.SplitShare(s.filter)
		entry = &filterEntry{filter: s.filter, match: match, id: c.lastID, options: o}
		c.entries[s.filter] = entry
	} else {
		entry.options.QoS = max(entry.options.QoS, o.QoS)
		entry.options.NoLocal = entry.options.NoLocal && o.NoLocal
		entry.options.RetainAsPublished = entry.options.RetainAsPublished || o.RetainAsPublished
		entry.options.RetainHandling = o.RetainHandling
		entry.options.UserProperties = o.UserProperties
	}
	s.entry = entry
	entry.wanted = append(slices.Clone(entry.wanted), s)
	c.changes.Add(1)
}

// askSubscribe asks the server for a filter, now or when there is a connection.
func (c *Client) askSubscribe(entry *filterEntry, send bool) *request {
	asked := &request{entry: entry, retainHandling: entry.options.RetainHandling, done: make(chan struct{})}
	entry.latest = asked
	c.waitingRequests = append(c.waitingRequests, asked)
	if send {
		c.sendRequests()
	}
	return asked
}

// removeSubscription takes a subscription away, and the filter if nobody else wants it. It answers what the server was asked, or
// nil if it need not be.
func (c *Client) removeSubscription(s *Subscription) *request {
	entry := s.entry
	at := slices.Index(entry.wanted, s)
	if at < 0 {
		return nil
	}
	entry.wanted = slices.Delete(slices.Clone(entry.wanted), at, at+1)
	c.changes.Add(1)
	if len(entry.wanted) > 0 {
		return nil
	}
	delete(c.entries, entry.filter)
	unsent := slices.IndexFunc(c.waitingRequests, func(r *request) bool { return r.entry == entry })
	if unsent >= 0 && !entry.granted {
		c.waitingRequests[unsent].finish(closedError("subscribe", nil))
		c.waitingRequests = slices.Delete(c.waitingRequests, unsent, unsent+1)
	}
	if _, began := c.session.Began(); !began {
		return nil
	}
	asked := &request{entry: entry, unsubscribe: true, done: make(chan struct{})}
	c.waitingRequests = append(c.waitingRequests, asked)
	c.sendRequests()
	return asked
}

// sendRequests sends what waits, as far as there is room.
func (c *Client) sendRequests() {
	for c.current != nil && len(c.waitingRequests) > 0 && len(c.sentRequests) < MaxPendingRequests {
		id := c.session.NewRequest()
		if id == 0 {
			break
		}
		asked := c.waitingRequests[0]
		c.waitingRequests = c.waitingRequests[1:]
		packet, err := c.requestPacket(asked, id)
		if err == nil {
			err = c.session.Append(packet)
		}
		if err != nil {
			c.session.EndRequest(id)
			asked.finish(fromSession("subscribe", err))
			continue
		}
		c.sentRequests[id] = asked
	}
	c.wakeWriter()
}

func (c *Client) requestPacket(asked *request, id packets.PacketID) (packets.Packet, error) {
	entry := asked.entry
	if asked.unsubscribe {
		p, err := packets.NewUnsubscribe(id)
		if err != nil {
			return nil, err
		}
		p.SetVersion(c.options.Version)
		return p, p.Add(entry.filter)
	}
	p, err := packets.NewSubscribe(id)
	if err != nil {
		return nil, err
	}
	p.SetVersion(c.options.Version)
	err = p.Add(entry.filter, packets.SubscriptionOptions{
		QoS: entry.options.QoS, NoLocal: entry.options.NoLocal, RetainAsPublished: entry.options.RetainAsPublished,
		RetainHandling: asked.retainHandling,
	})
	if err != nil {
		return nil, err
	}
	if info := c.stats.server.Load(); info != nil && info.SubscriptionIdentifiers {
		if err := p.SetSubscriptionIdentifier(entry.id); err != nil {
			return nil, err
		}
	}
	for _, property := range entry.options.UserProperties {
		if err := p.AddUserProperty(property.Name, property.Value); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// renewSubscriptions asks, on a new connection, for all that the server does not have.
func (c *Client) renewSubscriptions(present bool) {
	// What waits stays in its order: a subscription may follow upon the end of another of the same filter.
	kept := c.waitingRequests[:0]
	asked := map[*filterEntry]bool{}
	for _, each := range c.waitingRequests {
		if each.unsubscribe && !present {
			each.finish(nil)
			continue
		}
		kept = append(kept, each)
		asked[each.entry] = asked[each.entry] || !each.unsubscribe
	}
	c.waitingRequests = kept
	for _, entry := range c.entries {
		entry.granted = entry.granted && present
		if !entry.granted && !asked[entry] {
			c.askSubscribe(entry, false)
		}
	}
	c.sendRequests()
}

// forgetRequests puts what was not answered before a connection ended in line for the next.
func (c *Client) forgetRequests() {
	unanswered := make([]*request, 0, len(c.sentRequests))
	for _, id := range slices.Sorted(maps.Keys(c.sentRequests)) {
		unanswered = append(unanswered, c.sentRequests[id])
	}
	clear(c.sentRequests)
	c.waitingRequests = append(unanswered, c.waitingRequests...)
	if c.reauthentication != nil {
		c.reauthentication.finish(failure(ErrConnectionLost, "authenticate", "the connection ended meanwhile"))
		c.reauthentication = nil
	}
}

// failRequests ends all requests.
func (c *Client) failRequests(err error) {
	c.forgetRequests()
	for _, each := range c.waitingRequests {
		each.finish(err)
	}
	c.waitingRequests = nil
}

func (c *Client) waitRequest(ctx context.Context, asked *request, operation string) error {
	c.beginWait()
	defer c.endWait()
	select {
	case <-asked.done:
		return asked.err
	case <-ctx.Done():
		return contextError(ErrCanceled, operation, ctx)
	}
}

// onSubAck ends a SUBSCRIBE.
func (n *connection) onSubAck(
	id packets.PacketID, count int, reasonAt func(int) packets.ReasonCode, text func() (string, bool),
) error {
	asked, err := n.answered(id, false, count)
	if asked == nil || err != nil {
		return err
	}
	c := n.client
	reason := reasonAt(0)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !reason.IsError() {
		asked.entry.granted, asked.entry.qos = true, packets.QoS(reason)
		asked.finish(nil)
		return nil
	}
	rejected := &Error{Code: ErrRejected, Operation: "subscribe", Reason: reason}
	rejected.ReasonString, _ = text()
	asked.finish(rejected)
	entry := asked.entry
	if entry.latest != asked || c.entries[entry.filter] != entry {
		return nil
	}
	// Those who were there before are told; the one who asks gets the error.
	c.log.Warn("mqtt: the server refused a subscription", "filter", entry.filter, "reason", reason)
	delete(c.entries, entry.filter)
	c.changes.Add(1)
	ended := &Error{Code: ErrSubscriptionEnded, Operation: "receive", Reason: reason, ReasonString: rejected.ReasonString}
	for _, s := range entry.wanted {
		s.inbox.end(ended)
	}
	entry.wanted = nil
	return nil
}

// onUnsubAck ends an UNSUBSCRIBE.
func (n *connection) onUnsubAck(p *packets.UnsubAck) error {
	count := 1
	if n.client.options.Version == packets.V5 {
		count = p.Len()
	}
	asked, err := n.answered(p.PacketID(), true, count)
	if asked == nil || err != nil {
		return err
	}
	c := n.client
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if n.client.options.Version == packets.V5 && p.Reason(0).IsError() {
		asked.finish(&Error{Code: ErrRejected, Operation: "unsubscribe", Reason: p.Reason(0)})
		return nil
	}
	asked.finish(nil)
	return nil
}

// answered finds the request that an answer is for, and checks that it is one.
func (n *connection) answered(id packets.PacketID, unsubscribe bool, count int) (*request, error) {
	c := n.client
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.current != n {
		return nil, nil
	}
	asked := c.sentRequests[id]
	switch {
	case asked == nil || asked.unsubscribe != unsubscribe:
		return nil, failure(ErrProtocol, "subscribe", "the server answered a request that was not made")
	case count != 1:
		// [MQTT-3.8.4-6]
		return nil, failure(ErrProtocol, "subscribe", "the server answered one filter with %d reason codes", count)
	}
	delete(c.sentRequests, id)
	c.session.EndRequest(id)
	c.sendRequests()
	return asked, nil
}

// endSubscriptions ends all inboxes when the client does.
func (c *Client) endSubscriptions(err error) {
	for _, entry := range c.entries {
		for _, s := range entry.wanted {
			s.inbox.end(err)
		}
	}
	if c.unrouted != nil {
		c.unrouted.inbox.end(err)
	}
}
