package client_test

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// sends is a server whose messages the test chooses.
type sends struct {
	*fake
	mutex sync.Mutex
	ids   map[string]uint32
}

func newSends(t *testing.T) *sends {
	s := &sends{ids: map[string]uint32{}}
	s.fake = newFake(t, server.Hooks{Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		for filter := range p.Requests() {
			s.ids[filter], _ = p.SubscriptionIdentifier()
		}
		return server.Grant(c, p)
	}})
	return s
}

// id is the subscription identifier of a filter.
func (s *sends) id(filter string) uint32 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.ids[filter]
}

func (s *sends) send(topic, payload string, ids ...uint32) {
	p, err := packets.NewPublish(topic, []byte(payload))
	must(s.t, err)
	for _, id := range ids {
		must(s.t, p.AddSubscriptionIdentifier(id))
	}
	must(s.t, s.server.Connections()[0].Send(p))
}

func TestMessageReachesMatchingSubscriptions(t *testing.T) {
	ctx := testContext(t)
	s := newSends(t)
	unrouted := make(chan string, 10)
	c := s.connect(client.Options{Unrouted: func(_ context.Context, m *client.Message) { unrouted <- m.Topic() }})
	subs := map[string]*client.Subscription{}
	for _, filter := range []string{"a/b", "a/+", "a/#", "$share/g/a/b", "other"} {
		sub, err := c.Subscribe(ctx, filter, client.SubscribeOptions{QoS: qos1})
		must(t, err)
		subs[filter] = sub
		if sub.QoS() != qos1 {
			t.Errorf("%s: granted %v", filter, sub.QoS())
		}
		if sub.ID() == 0 || sub.ID() != s.id(filter) || sub.Filters()[0] != filter {
			t.Errorf("%s: identifier %d, the server has %d", filter, sub.ID(), s.id(filter))
		}
	}
	twin, err := c.Subscribe(ctx, "a/b", client.SubscribeOptions{})
	must(t, err)
	s.send("a/b", "one copy for two", s.id("a/+"), s.id("a/#"))
	s.send("a/b", "a copy for one", s.id("a/b"))
	s.send("a/b", "of the share", s.id("$share/g/a/b"))
	s.send("a/b", "of an earlier process", 999)
	s.send("a/b", "of a server without identifiers")
	s.send("a", "parent", s.id("a/#"))
	s.send("nobody", "?")
	s.send("other", "fence")
	if m := receive(t, subs["other"]); string(m.Payload()) != "fence" {
		t.Fatalf("got %v", m)
	}
	all := []string{"of an earlier process", "of a server without identifiers"}
	for _, each := range []struct {
		sub  *client.Subscription
		want []string
	}{
		{subs["a/+"], append([]string{"one copy for two"}, all...)},
		{subs["a/#"], append(append([]string{"one copy for two"}, all...), "parent")},
		{subs["a/b"], append([]string{"a copy for one"}, all...)},
		{twin, append([]string{"a copy for one"}, all...)},
		{subs["$share/g/a/b"], append([]string{"of the share"}, all...)},
	} {
		for _, want := range each.want {
			if m := receive(t, each.sub); string(m.Payload()) != want {
				t.Errorf("%s: got %q, want %q", each.sub.Filters()[0], m.Payload(), want)
			}
		}
	}
	if topic := await(t, unrouted); topic != "nobody" {
		t.Errorf("got %q", topic)
	}
	// The filter remains while one of the two subscriptions exists.
	must(t, subs["a/b"].Unsubscribe(ctx))
	must(t, subs["a/b"].Unsubscribe(ctx))
	s.send("a/b", "for the twin", s.id("a/b"))
	if m := receive(t, twin); string(m.Payload()) != "for the twin" {
		t.Errorf("got %q", m.Payload())
	}
	_, err = subs["a/b"].Receive(ctx)
	wantError(t, err, client.ErrUnsubscribed)
}

func TestServerTopicAliasesAreResolved(t *testing.T) {
	ctx := testContext(t)
	s := newSends(t)
	c := s.connect(client.Options{Limits: client.Limits{TopicAliasMaximum: 2}})
	sub, err := c.Subscribe(ctx, "#", client.SubscribeOptions{})
	must(t, err)
	send := func(topic string, alias uint16) {
		p := &packets.Publish{}
		must(t, p.SetTopicAlias(alias))
		must(t, p.SetTopic(topic))
		must(t, s.server.Connections()[0].Send(p))
	}
	send("first", 1)
	send("", 1)
	send("second", 2)
	send("third", 1)
	send("", 2)
	send("", 1)
	for _, want := range []string{"first", "first", "second", "third", "second", "third"} {
		if got := receive(t, sub).Topic(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	failures := c.Stats().Failures
	send("beyond", 3)
	eventually(t, "the connection is left", func() bool { return c.Stats().Failures > failures })
}

// Whatever is lost, connections and sessions of the server, every QoS 1 message arrives, and every QoS 2 token either means
// delivery, or reports the lost session.
func TestLostSessionsReportLostMessages(t *testing.T) {
	for seed := range int64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			random := rand.New(rand.NewSource(seed))
			b := newBroker()
			b.window = 1 + random.Intn(10)
			faults := 0
			b.cut = func(string) (bool, bool) {
				if faults < 60 && random.Intn(8) == 0 {
					faults++
					return random.Intn(2) == 0, true
				}
				return false, false
			}
			b.forgets = func() bool { return faults < 60 && random.Intn(3) == 0 }
			f := newFake(t, b.hooks())
			c := f.start(client.Options{Version: versions[seed%2], ClientID: "one", SessionExpiry: time.Minute})
			var tokens []*client.Token
			var qoses []packets.QoS
			for number := range 80 {
				qos := packets.QoS(1 + number%2)
				token, err := c.PublishAsync(ctx, client.Publication{Topic: "a", Payload: []byte(fmt.Sprint(number)), QoS: qos})
				must(t, err)
				tokens, qoses = append(tokens, token), append(qoses, qos)
			}
			for number, token := range tokens {
				err := outcome(ctx, token)
				if err != nil && qoses[number] == qos1 {
					t.Errorf("number %d: %v", number, err)
				} else if err != nil {
					wantError(t, err, client.ErrSessionLost)
				}
				published, _ := b.state()
				if err == nil && !slices.Contains(published, fmt.Sprint(number)) {
					t.Errorf("number %d is lost", number)
				}
			}
			closeNow(t, c)
		})
	}
}
