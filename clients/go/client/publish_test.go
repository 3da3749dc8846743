package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

func TestMoreMessagesThanIdentifiersAreQueued(t *testing.T) {
	ctx := testContext(t)
	const messages = 70_000
	b := newBroker()
	f := newFake(t, b.hooks())
	f.setDown(true)
	c := f.start(client.Options{Limits: client.Limits{MaxInFlight: 60_000, MaxQueuedMessages: messages}})
	var last *client.Token
	for number := range messages {
		token, err := c.PublishAsync(ctx, client.Publication{Topic: "a", Payload: []byte(fmt.Sprint(number)), QoS: qos1})
		must(t, err)
		last = token
	}
	if held := c.Stats().Held; held != messages {
		t.Fatalf("%d are held", held)
	}
	f.setDown(false)
	must(t, outcome(ctx, last))
	published, _ := b.state()
	if len(published) != messages {
		t.Fatalf("%d arrived", len(published))
	}
	for number, payload := range published {
		if payload != fmt.Sprint(number) {
			t.Fatalf("number %d is %s", number, payload)
		}
	}
}

func TestFullQueueWaitsOrRejects(t *testing.T) {
	ctx := testContext(t)
	message := client.Publication{Topic: "a", Payload: make([]byte, 100), QoS: qos1}
	for name, limits := range map[string]client.Options{
		"messages": {Limits: client.Limits{MaxQueuedMessages: 2}}, "bytes": {Limits: client.Limits{MaxQueuedBytes: 250}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker()
			f := newFake(t, b.hooks())
			f.setDown(true)
			rejecting := limits
			rejecting.RejectWhenFull = true
			c := f.start(rejecting)
			for range 2 {
				_, err := c.PublishAsync(ctx, message)
				must(t, err)
			}
			_, err := c.PublishAsync(ctx, message)
			wantError(t, err, client.ErrQueueFull)
			closed, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_ = c.Close(closed)

			waiting := f.start(limits)
			first, err := waiting.PublishAsync(ctx, message)
			must(t, err)
			_, err = waiting.PublishAsync(ctx, message)
			must(t, err)
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			_, err = waiting.PublishAsync(short, message)
			wantError(t, err, client.ErrCanceled)
			// There is room once a message is withdrawn or delivered.
			queued := make(chan error)
			publish := func() {
				_, err := waiting.PublishAsync(ctx, message)
				queued <- err
			}
			go publish()
			if !first.Cancel() {
				t.Error("a waiting message is not withdrawn")
			}
			must(t, await(t, queued))
			wantError(t, outcome(ctx, first), client.ErrCanceled)
			go publish()
			f.setDown(false)
			must(t, await(t, queued))
			if full := waiting.Stats().QueueFull; full == 0 {
				t.Error("it was not counted")
			}
		})
	}
}

func TestQoS0WithoutAConnection(t *testing.T) {
	ctx := testContext(t)
	b := newBroker()
	f := newFake(t, b.hooks())
	f.setDown(true)
	plain := f.start(client.Options{})
	wantError(t, plain.Publish(ctx, client.Publication{Topic: "a"}), client.ErrNotConnected)
	if n := plain.Stats().NotConnected; n != 1 {
		t.Errorf("it was counted %d times", n)
	}
	closeNow(t, plain)
	queueing := f.start(client.Options{QueueQoS0: true})
	must(t, queueing.Publish(ctx, client.Publication{Topic: "a", Payload: []byte("kept")}))
	f.setDown(false)
	eventually(t, "it arrives", func() bool { published, _ := b.state(); return len(published) == 1 })
}

func TestFullOutputDelaysQoS0(t *testing.T) {
	ctx := testContext(t)
	gate := make(chan struct{})
	var arrived atomic.Int64
	f := newFake(t, server.Hooks{Publish: func(*server.Conn, *packets.Publish) error {
		<-gate
		arrived.Add(1)
		return nil
	}})
	c := f.connect(client.Options{Limits: client.Limits{MaxOutputBytes: 1000}})
	publishing, cancel := context.WithCancel(ctx)
	defer cancel()
	sent, failed := 0, make(chan error)
	go func() {
		var err error
		for ; err == nil; sent++ {
			err = c.Publish(publishing, client.Publication{Topic: "a", Payload: make([]byte, 1000)})
		}
		failed <- err
	}()
	eventually(t, "it waits and is counted", func() bool { return c.Stats().OutputFull > 0 })
	cancel()
	wantError(t, await(t, failed), client.ErrCanceled)
	close(gate)
	must(t, c.Publish(ctx, client.Publication{Topic: "a"}))
	eventually(t, "all arrive", func() bool { return arrived.Load() == int64(sent) })
}

func TestServerLimitsAreRespected(t *testing.T) {
	ctx := testContext(t)
	f := newFake(t, server.Hooks{Connect: func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) {
		ack, err := packets.NewConnAck(packets.ReasonSuccess)
		orPanic(ack.SetMaximumQoS(qos1))
		orPanic(ack.SetMaximumPacketSize(100))
		ack.SetRetainAvailable(false)
		ack.SetWildcardSubscriptionAvailable(false)
		ack.SetSharedSubscriptionAvailable(false)
		ack.SetSubscriptionIdentifierAvailable(false)
		return ack, err
	}})
	// Messages that were queued before the limits were known fail, too.
	f.setDown(true)
	c := f.start(client.Options{})
	early, err := c.PublishAsync(ctx, client.Publication{Topic: "a", QoS: qos2})
	must(t, err)
	f.setDown(false)
	wantError(t, outcome(ctx, early), client.ErrQoSNotSupported)
	must(t, c.AwaitConnection(ctx))
	wantError(t, c.Publish(ctx, client.Publication{Topic: "a", QoS: qos2}), client.ErrQoSNotSupported)
	wantError(t, c.Publish(ctx, client.Publication{Topic: "a", Retain: true}), client.ErrRetainNotSupported)
	wantError(t, c.Publish(ctx, client.Publication{Topic: "a", Retain: true, QoS: qos1}), client.ErrRetainNotSupported)
	wantError(t, c.Publish(ctx, client.Publication{Topic: "a", Payload: make([]byte, 100)}), client.ErrPacketTooLarge)
	wantError(t, c.Publish(ctx, client.Publication{Topic: "a", Payload: make([]byte, 100), QoS: qos1}), client.ErrPacketTooLarge)
	_, err = c.Subscribe(ctx, "a/#", client.SubscribeOptions{})
	wantError(t, err, client.ErrNotSupported)
	_, err = c.Subscribe(ctx, "$share/g/a", client.SubscribeOptions{})
	wantError(t, err, client.ErrNotSupported)
	sub, err := c.Subscribe(ctx, "a", client.SubscribeOptions{})
	must(t, err)
	if sub.ID() != 0 {
		t.Error("a subscription identifier was used")
	}
	must(t, c.Publish(ctx, client.Publication{Topic: "a", QoS: qos1}))
}

func TestServerReceiveMaximumIsRespected(t *testing.T) {
	for _, qos := range []packets.QoS{qos1, qos2} {
		ctx := testContext(t)
		var open, most atomic.Int64
		comes := make(chan packets.PacketID, 100)
		f := newFake(t, server.Hooks{
			Connect: func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) {
				ack, err := packets.NewConnAck(packets.ReasonSuccess)
				orPanic(ack.SetReceiveMaximum(3))
				return ack, err
			},
			Publish: func(_ *server.Conn, p *packets.Publish) error {
				most.Store(max(most.Load(), open.Add(1)))
				comes <- p.PacketID()
				return nil
			},
			PubRel: func(c *server.Conn, p *packets.PubRel) error {
				open.Add(-1)
				comp, err := packets.NewPubComp(p.PacketID())
				orPanic(err)
				return c.Send(comp)
			},
		})
		c := f.connect(client.Options{})
		var tokens []*client.Token
		for range 20 {
			token, err := c.PublishAsync(ctx, client.Publication{Topic: "a", QoS: qos})
			must(t, err)
			tokens = append(tokens, token)
		}
		for range 20 {
			id := await(t, comes)
			var answer packets.Packet
			if qos == qos1 {
				answer, _ = packets.NewPubAck(id)
				open.Add(-1)
			} else {
				answer, _ = packets.NewPubRec(id)
			}
			must(t, f.server.Connections()[0].Send(answer))
		}
		for _, token := range tokens {
			must(t, outcome(ctx, token))
		}
		if most.Load() > 3 {
			t.Errorf("%v: %d were unacknowledged at once", qos, most.Load())
		}
	}
}

func TestTopicAliasesSaveBytes(t *testing.T) {
	ctx := testContext(t)
	type arrival struct {
		topic   string
		alias   uint16
		payload string
		kind    string
	}
	comes := make(chan arrival, 100)
	f := newFake(t, server.Hooks{
		Connect: func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) {
			ack, err := packets.NewConnAck(packets.ReasonSuccess)
			ack.SetTopicAliasMaximum(2)
			return ack, err
		},
		Publish: func(c *server.Conn, p *packets.Publish) error {
			alias, _ := p.TopicAlias()
			kind, _ := p.ContentType()
			comes <- arrival{p.Topic(), alias, string(p.Payload()), kind}
			return server.Acknowledge(c, p)
		},
	})
	c := f.connect(client.Options{})
	send := func(topic, payload string, qos packets.QoS, want arrival) {
		t.Helper()
		must(t, c.Publish(ctx, client.Publication{Topic: topic, Payload: []byte(payload), QoS: qos, ContentType: want.kind}))
		if got := await(t, comes); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	long, other, third := "a/long/topic", "another/long/topic", "a/third/long/topic"
	send(long, "1", qos0, arrival{long, 1, "1", ""})
	send(long, "2", qos0, arrival{"", 1, "2", ""})
	send(long, "3", qos1, arrival{"", 1, "3", "text"})
	send(other, "4", qos2, arrival{other, 2, "4", "text"})
	send(other, "5", qos2, arrival{"", 2, "5", ""})
	send("short", "6", qos0, arrival{"short", 0, "6", ""})
	send(third, "7", qos0, arrival{third, 0, "7", ""})
	send(long, strings.Repeat("x", 5000), qos0, arrival{long, 0, strings.Repeat("x", 5000), ""})
	// The least recently used alias is replaced.
	for range 8 {
		send(other, "8", qos0, arrival{"", 2, "8", ""})
	}
	send(third, "9", qos0, arrival{third, 1, "9", ""})
	send(long, "10", qos0, arrival{long, 0, "10", ""})
	// A new connection starts without aliases [MQTT-3.3.2-7].
	connects := c.Stats().Connects
	f.cut()
	eventually(t, "a new connection", func() bool { return c.Stats().Connects > connects && c.Connected() })
	send(third, "11", qos0, arrival{third, 1, "11", ""})
}

func TestExpiryIncludesTheTimeInTheQueue(t *testing.T) {
	ctx := testContext(t)
	b := newBroker()
	f := newFake(t, b.hooks())
	f.setDown(true)
	c := f.start(client.Options{})
	late, err := c.PublishAsync(ctx, client.Publication{Topic: "a", QoS: qos1, Expiry: time.Second})
	must(t, err)
	lasting, err := c.PublishAsync(ctx, client.Publication{Topic: "a", Payload: []byte("lasting"), QoS: qos1, Expiry: time.Hour})
	must(t, err)
	time.Sleep(1100 * time.Millisecond) // The test needs real time to pass.
	f.setDown(false)
	wantError(t, outcome(ctx, late), client.ErrExpired)
	must(t, outcome(ctx, lasting))
	if published, _ := b.state(); len(published) != 1 || published[0] != "lasting" {
		t.Errorf("got %v", published)
	}
}

// Without an error, a deadline in the past would make a message that never expires.
func TestExpiredMessagesAreNotSent(t *testing.T) {
	ctx := testContext(t)
	c := echo(t).connect(client.Options{})
	sub, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos2})
	must(t, err)
	for qos := range qos2 + 1 {
		late := client.Publication{Topic: "a", Payload: []byte("late"), QoS: qos, Expiry: -time.Millisecond}
		wantError(t, c.Publish(ctx, late), client.ErrExpired)
		_, err = c.PublishAsync(ctx, late)
		wantError(t, err, client.ErrExpired)
	}
	must(t, c.Publish(ctx, client.Publication{Topic: "a", Payload: []byte("first"), QoS: qos1}))
	if m := receive(t, sub); string(m.Payload()) != "first" {
		t.Errorf("got %s", m.Payload())
	}
}

func TestRefusedMessagesFailWithTheReason(t *testing.T) {
	ctx := testContext(t)
	f := newFake(t, server.Hooks{Publish: func(c *server.Conn, p *packets.Publish) error {
		if p.QoS() == qos1 {
			ack, err := packets.NewPubAck(p.PacketID())
			orPanic(ack.SetReason(packets.ReasonQuotaExceeded))
			return errors.Join(err, c.Send(ack))
		}
		rec, err := packets.NewPubRec(p.PacketID())
		orPanic(rec.SetReason(packets.ReasonPayloadFormatInvalid))
		return errors.Join(err, c.Send(rec))
	}})
	c := f.connect(client.Options{})
	if e := wantError(t, c.Publish(ctx, client.Publication{Topic: "a", QoS: qos1}), client.ErrPublishRefused); e.Reason != packets.ReasonQuotaExceeded {
		t.Errorf("got %v", e)
	}
	if e := wantError(t, c.Publish(ctx, client.Publication{Topic: "a", QoS: qos2}), client.ErrPublishRefused); e.Reason != packets.ReasonPayloadFormatInvalid {
		t.Errorf("got %v", e)
	}
}

func TestContextCancelsWaitingNotDelivery(t *testing.T) {
	gate, arrived := make(chan struct{}), make(chan struct{}, 1)
	f := newFake(t, server.Hooks{Publish: func(c *server.Conn, p *packets.Publish) error {
		arrived <- struct{}{}
		<-gate
		return server.Acknowledge(c, p)
	}})
	c := f.connect(client.Options{Limits: client.Limits{MaxInFlight: 1}})
	sent, err := c.PublishAsync(testContext(t), client.Publication{Topic: "a", QoS: qos1})
	must(t, err)
	await(t, arrived)
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	// The window is full: this one is not sent.
	wantError(t, c.Publish(short, client.Publication{Topic: "b", QoS: qos1}), client.ErrCanceled)
	wantError(t, outcome(short, sent), client.ErrUnacknowledged)
	close(gate)
	must(t, outcome(testContext(t), sent))
}

func TestMalformedPublicationsAreRefused(t *testing.T) {
	ctx := testContext(t)
	c := echo(t).connect(client.Options{})
	for _, m := range []client.Publication{
		{Topic: ""}, {Topic: "a/#"}, {Topic: "a\x00"}, {Topic: "a", QoS: 3}, {Topic: "a", QoS: 3, Text: true},
		{Topic: "a", ResponseTopic: "+"}, {Topic: "a", UserProperties: []client.UserProperty{{Name: "\xff"}}},
		{Topic: strings.Repeat("x", 70_000)},
	} {
		err := c.Publish(ctx, m)
		wantError(t, err, client.ErrInvalidArgument)
		if malformed := (*packets.Error)(nil); !errors.As(err, &malformed) {
			t.Errorf("%v wraps no packets.Error", err)
		}
	}
	for _, filter := range []string{"", "a/#/b", "a+", "$share//a", "$share/g/"} {
		_, err := c.Subscribe(ctx, filter, client.SubscribeOptions{})
		wantError(t, err, client.ErrInvalidArgument)
	}
	_, err := c.Handle(ctx, "a", client.SubscribeOptions{}, nil)
	wantError(t, err, client.ErrInvalidArgument)
	_, err = c.Respond(ctx, "a", client.SubscribeOptions{}, nil)
	wantError(t, err, client.ErrInvalidArgument)
	old := echo(t).connect(client.Options{Version: packets.V311})
	wantError(t, old.Publish(ctx, client.Publication{Topic: "a", ContentType: "text/plain"}), client.ErrInvalidArgument)
	_, err = old.Subscribe(ctx, "a", client.SubscribeOptions{NoLocal: true})
	wantError(t, err, client.ErrNotSupported)
}
