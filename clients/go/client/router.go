package client

import (
	"slices"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// MaxRoutes is how many topics the client caches with their subscriptions. Beyond that it clears the cache.
const MaxRoutes = 4096

// router finds the subscriptions that match a message. Only the reader uses it.
type router struct {
	seen    uint64
	exact   map[string]*filterEntry
	general []*filterEntry
	byTopic map[string]*route
	scratch []*Subscription
}

// route is the cached result for a topic.
type route struct {
	entries []*filterEntry
	// all are the subscriptions of all entries; byEntry are those of each.
	all     []*Subscription
	byEntry [][]*Subscription
}

func (r *router) init() {
	r.exact, r.byTopic = map[string]*filterEntry{}, map[string]*route{}
}

// route returns the subscriptions of a message, valid until the next call. A server that sends one copy for each subscription marks each
// copy with its identifier [MQTT-3.3.4-5], so that the copy is only for that one. Unknown identifiers are of an earlier process, and are
// ignored.
func (r *router) route(c *Client, p *packets.Publish) []*Subscription {
	if r.seen != c.changes.Load() {
		r.renew(c)
	}
	found := r.byTopic[p.TopicView()]
	if found == nil {
		found = r.find(p.Topic())
	}
	receivers := found.all
	if len(found.entries) > 1 && p.Properties().Has(packets.SubscriptionIdentifier) {
		receivers = r.marked(found, p)
	}
	if len(receivers) == 0 && c.unrouted != nil {
		r.scratch = append(r.scratch[:0], c.unrouted)
		return r.scratch
	}
	return receivers
}

func (r *router) marked(found *route, p *packets.Publish) []*Subscription {
	r.scratch = r.scratch[:0]
	for id := range p.SubscriptionIdentifiers() {
		for i, entry := range found.entries {
			if entry.id == id {
				r.scratch = appendNew(r.scratch, found.byEntry[i])
			}
		}
	}
	if len(r.scratch) == 0 {
		return found.all
	}
	return r.scratch
}

// renew applies changed subscriptions.
func (r *router) renew(c *Client) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	r.seen = c.changes.Load()
	clear(r.exact)
	clear(r.byTopic)
	r.general = r.general[:0]
	for filter, entry := range c.entries {
		// The content is never changed, only replaced.
		copied := *entry
		if _, _, shared := packets.SplitShare(filter); shared || packets.HasWildcard(entry.match) {
			r.general = append(r.general, &copied)
		} else {
			r.exact[entry.match] = &copied
		}
	}
	slices.SortFunc(r.general, func(a, b *filterEntry) int { return int(a.id) - int(b.id) })
}

func (r *router) find(topic string) *route {
	found := &route{}
	add := func(entry *filterEntry) {
		found.entries = append(found.entries, entry)
		found.byEntry = append(found.byEntry, entry.wanted)
		found.all = appendNew(found.all, entry.wanted)
	}
	if entry := r.exact[topic]; entry != nil {
		add(entry)
	}
	for _, entry := range r.general {
		if packets.MatchTopic(entry.match, topic) {
			add(entry)
		}
	}
	if len(r.byTopic) >= MaxRoutes {
		clear(r.byTopic)
	}
	r.byTopic[topic] = found
	return found
}

// appendNew appends those that are not in the slice: a subscription may have several matching filters.
func appendNew(to, from []*Subscription) []*Subscription {
	for _, s := range from {
		if !slices.Contains(to, s) {
			to = append(to, s)
		}
	}
	return to
}
