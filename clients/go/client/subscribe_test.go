package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// asked is a request to the server: a filter with its options, or an unsubscription.
type asked struct {
	filter  string
	options packets.SubscriptionOptions
	ends    bool
}

// asks is a server that reports the requests, and refuses those that refuse selects.
func asks(t *testing.T, refuse func(asked) bool) (*fake, <-chan asked) {
	t.Helper()
	all := make(chan asked, 100)
	return newFake(t, server.Hooks{
		Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
			answer, err := packets.NewSubAck(p.PacketID())
			orPanic(err)
			for filter, options := range p.Requests() {
				each := asked{filter: filter, options: options}
				all <- each
				reason := packets.ReasonCode(options.QoS)
				if refuse != nil && refuse(each) {
					reason = packets.ReasonNotAuthorized
					if c.Version() != packets.V5 {
						reason = packets.ReasonUnspecifiedError // The only one before 5.0.
					}
				}
				orPanic(answer.Add(reason))
			}
			return c.Send(answer)
		},
		Unsubscribe: func(c *server.Conn, p *packets.Unsubscribe) error {
			for filter := range p.Filters() {
				all <- asked{filter: filter, ends: true}
			}
			return server.AcceptUnsubscribe(c, p)
		},
	}), all
}

func TestTwoSubscriptionsToOneFilterShareIt(t *testing.T) {
	ctx := testContext(t)
	f, all := asks(t, nil)
	c := f.connect(client.Options{})
	next := func(want asked) {
		t.Helper()
		if got := await(t, all); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	subscribe := func(o client.SubscribeOptions) *client.Subscription {
		t.Helper()
		s, err := c.Subscribe(ctx, "a", o)
		must(t, err)
		return s
	}
	quiet := subscribe(client.SubscribeOptions{QoS: qos0, NoLocal: true})
	next(asked{"a", packets.SubscriptionOptions{QoS: qos0, NoLocal: true}, false})
	loud := subscribe(client.SubscribeOptions{QoS: qos2, RetainAsPublished: true})
	next(asked{"a", packets.SubscriptionOptions{QoS: qos2, RetainAsPublished: true}, false})
	if quiet.QoS() != qos2 || loud.QoS() != qos2 {
		t.Errorf("granted %v and %v", quiet.QoS(), loud.QoS())
	}
	lesser := subscribe(client.SubscribeOptions{QoS: qos1})
	next(asked{"a", packets.SubscriptionOptions{QoS: qos2, RetainAsPublished: true}, false})
	// Its options are not needed by others, so its end changes nothing.
	must(t, lesser.Unsubscribe(ctx))
	// The options of the other remain, without a new delivery of retained messages.
	must(t, loud.Unsubscribe(ctx))
	next(asked{"a", packets.SubscriptionOptions{QoS: qos0, NoLocal: true, RetainHandling: packets.DoNotSend}, false})
	must(t, quiet.Unsubscribe(ctx))
	next(asked{"a", packets.SubscriptionOptions{}, true})
}

func TestBeforeV5EndingOneOfTwoSubscriptionsSendsNothing(t *testing.T) {
	ctx := testContext(t)
	f, all := asks(t, nil)
	c := f.connect(client.Options{Version: packets.V311})
	low, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos0})
	must(t, err)
	high, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos2})
	must(t, err)
	must(t, high.Unsubscribe(ctx))
	must(t, low.Unsubscribe(ctx))
	for _, want := range []asked{
		{"a", packets.SubscriptionOptions{QoS: qos0}, false}, {"a", packets.SubscriptionOptions{QoS: qos2}, false}, {"a", packets.SubscriptionOptions{}, true},
	} {
		if got := await(t, all); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// The server keeps the granted options when it refuses others.
func TestRefusedSecondSubscriptionKeepsTheFirst(t *testing.T) {
	ctx := testContext(t)
	f, all := asks(t, func(each asked) bool { return each.options.QoS == qos2 })
	c := f.connect(client.Options{})
	first, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos1})
	must(t, err)
	_, err = c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos2})
	if e := wantError(t, err, client.ErrSubscribeRefused); e.Reason != packets.ReasonNotAuthorized {
		t.Errorf("got %v", e)
	}
	message, err := packets.NewPublish("a", []byte("still"))
	must(t, err)
	must(t, f.server.Connections()[0].Send(message))
	if m := receive(t, first); string(m.Payload()) != "still" {
		t.Errorf("got %v", m)
	}
	must(t, first.Unsubscribe(ctx))
	for _, want := range []asked{
		{"a", packets.SubscriptionOptions{QoS: qos1}, false}, {"a", packets.SubscriptionOptions{QoS: qos2}, false}, {"a", packets.SubscriptionOptions{}, true},
	} {
		if got := await(t, all); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// No caller waits for a subscription of the options, so its state can be queried.
func TestRefusedSubscriptionOptionsAreReported(t *testing.T) {
	handler := func(context.Context, *client.Message) {}
	for _, version := range versions {
		f, all := asks(t, func(each asked) bool { return each.filter == "secret" })
		c := f.start(client.Options{Version: version, Subscriptions: []client.InitialSubscription{
			{Filter: "a", Options: client.SubscribeOptions{QoS: qos1}, Handler: handler},
			{Filter: "secret", Handler: handler},
		}})
		await(t, all)
		await(t, all)
		initial := c.InitialSubscriptions()
		await(t, initial[1].Done())
		if e := wantError(t, initial[1].Err(), client.ErrSubscribeRefused); e.Detail != "secret" || !e.Reason.IsError() {
			t.Errorf("%v: got %v", version, e)
		}
		if len(initial) != 2 || initial[0].Err() != nil || !slices.Equal(initial[0].Filters(), []string{"a"}) || initial[0].QoS() != qos1 {
			t.Errorf("%v: got %v", version, initial)
		}
	}
}

func TestSeveralFiltersAreOneSubscription(t *testing.T) {
	ctx := testContext(t)
	for _, version := range versions {
		c := echo(t).connect(client.Options{Version: version})
		sub, err := c.Subscribe(ctx, "a/#", client.SubscribeOptions{QoS: qos1, MoreFilters: []string{"b", "a/+", "b"}})
		must(t, err)
		if got := sub.Filters(); !slices.Equal(got, []string{"a/#", "b", "a/+"}) || sub.QoS() != qos1 {
			t.Errorf("got %q at %v", got, sub.QoS())
		}
		for _, topic := range []string{"a/1", "b", "c", "a/2"} {
			must(t, c.Publish(ctx, client.Publication{Topic: topic, QoS: qos1}))
		}
		// Each once, although two filters match.
		for _, want := range []string{"a/1", "b", "a/2"} {
			m := receive(t, sub)
			if m.Topic() != want {
				t.Errorf("got %s, want %s", m.Topic(), want)
			}
			m.Ack()
		}
		must(t, sub.Unsubscribe(ctx))
		_, err = sub.Receive(ctx)
		wantError(t, err, client.ErrUnsubscribed)
	}
	f, all := asks(t, func(each asked) bool { return each.filter == "secret" })
	c := f.connect(client.Options{})
	_, err := c.Handle(ctx, "a", client.SubscribeOptions{MoreFilters: []string{"secret"}}, func(context.Context, *client.Message) {})
	wantError(t, err, client.ErrSubscribeRefused)
	// Nothing of it remains.
	for _, want := range []asked{{filter: "a"}, {filter: "secret"}, {filter: "a", ends: true}} {
		if got := await(t, all); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	_, err = c.Subscribe(ctx, "a", client.SubscribeOptions{MoreFilters: []string{"b/#/c"}})
	if !errors.Is(wantError(t, err, client.ErrInvalidArgument), packets.CauseTopicFilterMultiLevel) {
		t.Errorf("got %v", err)
	}
}
