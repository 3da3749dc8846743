package client

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// MaxPendingRequests limits SUBSCRIBE and UNSUBSCRIBE packets without an answer. Further ones are sent as answers arrive.
const MaxPendingRequests = 1024

// filterEntry is one filter of the server's session, with all subscriptions here that use it.
type filterEntry struct {
	filter string
	// match is the filter without the $share prefix.
	match  string
	id     uint32
	wanted []*Subscription
	// asked is what was last requested from the server, by latest.
	asked  SubscribeOptions
	latest *request
	// granted says that the server has granted something in its current session: agreed, at qos.
	granted bool
	agreed  SubscribeOptions
	qos     packets.QoS
}

// merged returns the options to request, for all subscriptions to the filter.
func (e *filterEntry) merged() SubscribeOptions {
	all := e.wanted[0].options
	for _, s := range e.wanted[1:] {
		all.QoS = max(all.QoS, s.options.QoS)
		all.NoLocal = all.NoLocal && s.options.NoLocal
		all.RetainAsPublished = all.RetainAsPublished || s.options.RetainAsPublished
		all.RetainHandling = s.options.RetainHandling
		all.UserProperties = s.options.UserProperties
	}
	return all
}

// request is a pending SUBSCRIBE or UNSUBSCRIBE.
type request struct {
	entry       *filterEntry
	options     SubscribeOptions
	unsubscribe bool
	done        chan struct{}
	ended       bool
	err         error
}

func (r *request) finish(err error) {
	if !r.ended {
		r.ended, r.err = true, err
		close(r.done)
	}
}

// subscriptions are all subscriptions of the client, guarded by its mutex.
type subscriptions struct {
	entries map[string]*filterEntry
	lastID  uint32
	// changes counts the changes that routers have to apply.
	changes atomic.Uint64
	// waitingRequests are not sent yet, sentRequests are not answered yet.
	waitingRequests  []*request
	sentRequests     map[packets.PacketID]*request
	reauthentication *request
	unrouted         *Subscription
	// initial are those of the options, which do not change.
	initial []*Subscription
	// workers are the subscriptions whose handlers may be called.
	workers map[*Subscription]struct{}
}

func (s *subscriptions) init() {
	s.entries = map[string]*filterEntry{}
	s.sentRequests = map[packets.PacketID]*request{}
	s.workers = map[*Subscription]struct{}{}
}

// beginSubscriptions adds those of the options, before there is any connection.
func (c *Client) beginSubscriptions() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.options.Unrouted != nil {
		c.unrouted = &Subscription{client: c, inbox: newInbox(c.options.Limits.MaxInboxMessages, c.options.Limits.MaxInboxBytes)}
		c.unrouted.startWorker(c.options.Unrouted)
	}
	for _, each := range c.options.Subscriptions {
		if each.Handler == nil {
			return failure(ErrInvalidOptions, "subscribe", "Subscriptions: %q has no Handler", each.Filter)
		}
		filters, err := c.checkSubscribe(each.Filter, &each.Options)
		if err != nil {
			return err
		}
		s := c.newSubscription(filters, each.Options, each.Handler)
		c.initial = append(c.initial, s)
		c.askFor(s)
	}
	return nil
}

// addToEntries adds a subscription to the entries of its filters, which it shares with others.
func (c *Client) addToEntries(s *Subscription) {
	for _, filter := range s.filters {
		entry := c.entries[filter]
		if entry == nil {
			c.lastID++
			_, match, _ := packets.SplitShare(filter)
			entry = &filterEntry{filter: filter, match: match, id: c.lastID}
			c.entries[filter] = entry
		}
		s.entries = append(s.entries, entry)
		entry.wanted = append(slices.Clone(entry.wanted), s)
	}
	c.changes.Add(1)
}

// askFor requests the filters of a subscription, now or when there is a connection.
func (c *Client) askFor(s *Subscription) []*request {
	all := make([]*request, 0, len(s.entries))
	for _, entry := range s.entries {
		all = append(all, c.askSubscribe(entry))
	}
	c.sendRequests()
	return all
}

func (c *Client) askSubscribe(entry *filterEntry) *request {
	asked := &request{entry: entry, options: entry.merged(), done: make(chan struct{})}
	entry.asked, entry.latest = asked.options, asked
	c.waitingRequests = append(c.waitingRequests, asked)
	return asked
}

// removeSubscription removes a subscription, and filters without any other subscription. It returns the requests to wait for.
func (c *Client) removeSubscription(s *Subscription) []*request {
	var all []*request
	for _, entry := range s.entries {
		at := slices.Index(entry.wanted, s)
		if at < 0 {
			continue
		}
		entry.wanted = slices.Delete(slices.Clone(entry.wanted), at, at+1)
		c.changes.Add(1)
		if len(entry.wanted) > 0 {
			c.narrow(entry)
		} else if asked := c.endEntry(entry); asked != nil {
			all = append(all, asked)
		}
	}
	c.sendRequests()
	return all
}

// narrow requests the options of the remaining subscriptions. Before 5.0 that would deliver the retained messages again, and would
// change only the QoS, so the old options stay.
func (c *Client) narrow(entry *filterEntry) {
	options := entry.merged()
	isSame := options.QoS == entry.asked.QoS && options.NoLocal == entry.asked.NoLocal &&
		options.RetainAsPublished == entry.asked.RetainAsPublished
	if isSame || c.options.Version != packets.V5 {
		return
	}
	c.askSubscribe(entry).options.RetainHandling = packets.DoNotSend
}

// endEntry ends a filter without subscriptions. It returns the request, or nil if none is needed.
func (c *Client) endEntry(entry *filterEntry) *request {
	delete(c.entries, entry.filter)
	unsent := slices.IndexFunc(c.waitingRequests, func(r *request) bool { return r.entry == entry })
	if unsent >= 0 && !entry.granted {
		c.waitingRequests[unsent].finish(&Error{Code: ErrUnsubscribed, Operation: "subscribe", Detail: entry.filter})
		c.waitingRequests = slices.Delete(c.waitingRequests, unsent, unsent+1)
	}
	if _, began := c.session.Began(); !began {
		return nil
	}
	asked := &request{entry: entry, unsubscribe: true, done: make(chan struct{})}
	c.waitingRequests = append(c.waitingRequests, asked)
	return asked
}

// sendRequests sends the waiting requests, up to the limit.
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
		QoS: asked.options.QoS, NoLocal: asked.options.NoLocal, RetainAsPublished: asked.options.RetainAsPublished,
		RetainHandling: asked.options.RetainHandling,
	})
	if err != nil {
		return nil, err
	}
	if info := c.stats.server.Load(); info != nil && info.SubscriptionIdentifiers {
		if err := p.SetSubscriptionIdentifier(entry.id); err != nil {
			return nil, err
		}
	}
	for _, property := range asked.options.UserProperties {
		if err := p.AddUserProperty(property.Name, property.Value); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// renewSubscriptions requests, on a new connection, all that the server does not have.
func (c *Client) renewSubscriptions(present bool) {
	// Waiting requests keep their order: a subscription may follow the end of another one of the same filter.
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
			c.askSubscribe(entry)
		}
	}
	c.sendRequests()
}

// forgetRequests queues the unanswered requests of a connection that has ended for the next one.
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

// waitRequests waits for all requests, or for the first that fails.
func (c *Client) waitRequests(ctx context.Context, all []*request, operation string) error {
	for _, asked := range all {
		if err := c.waitRequest(ctx, asked, operation); err != nil {
			return err
		}
	}
	return nil
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

// onSubAck completes a SUBSCRIBE.
func (n *connection) onSubAck(
	id packets.PacketID, count int, reasonAt func(int) packets.ReasonCode, text func() (string, bool),
) error {
	asked, err := n.answered(id, false, count)
	if asked == nil || err != nil {
		return err
	}
	c := n.client
	entry, reason := asked.entry, reasonAt(0)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !reason.IsError() {
		entry.granted, entry.agreed, entry.qos = true, asked.options, packets.QoS(reason)
		asked.finish(nil)
		return nil
	}
	refused := &Error{Code: ErrSubscribeRefused, Operation: "subscribe", Detail: entry.filter, Reason: reason}
	refused.ReasonString, _ = text()
	asked.finish(refused)
	if entry.latest != asked || c.entries[entry.filter] != entry {
		return nil
	}
	if entry.granted {
		// The caller gets the error. The options that the server granted before remain.
		entry.asked = entry.agreed
		return nil
	}
	c.log.Warn("mqtt: the server refused a subscription", "filter", entry.filter, "reason", reason)
	delete(c.entries, entry.filter)
	c.changes.Add(1)
	ended := *refused
	ended.Operation = "receive"
	everybody := entry.wanted
	entry.wanted = nil
	for _, s := range everybody {
		s.inbox.end(&ended)
		c.removeSubscription(s)
	}
	return nil
}

// onUnsubAck completes an UNSUBSCRIBE.
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
		asked.finish(&Error{Code: ErrUnsubscribeRefused, Operation: "unsubscribe", Reason: p.Reason(0)})
		return nil
	}
	asked.finish(nil)
	return nil
}

// answered finds the request of an answer, and checks that they match.
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
		return nil, failure(ErrProtocol, "subscribe", "the server answered an unknown request")
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
