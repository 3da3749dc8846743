package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// echo is a server that sends each client its own publications, at the same QoS.
func echo(t *testing.T) *fake {
	t.Helper()
	var lastID atomic.Uint32
	return newFake(t, server.Hooks{
		Publish: func(c *server.Conn, p *packets.Publish) error {
			if err := server.Acknowledge(c, p); err != nil {
				return err
			}
			back, err := packets.NewPublish(p.Topic(), p.Payload())
			if err != nil {
				return err
			}
			if p.QoS() != qos0 {
				orPanic(back.SetQoS(p.QoS()))
				orPanic(back.SetPacketID(packets.PacketID(lastID.Add(1)%60_000 + 1)))
			}
			orPanic(back.SetProperties(p.Properties()))
			back.RemoveProperty(packets.TopicAlias)
			return c.Send(back)
		},
	})
}

// A handler waits for its own publishes, subscribes, unsubscribes another and blocks, with a queue of one message: nothing
// blocks.
func TestHandlerCanCallAnything(t *testing.T) {
	for _, version := range versions {
		for _, qos := range []packets.QoS{qos0, qos1, qos2} {
			ctx := testContext(t)
			f := echo(t)
			c := f.connect(client.Options{Version: version, Limits: client.Limits{ReceiveMaximum: 3, MaxInFlight: 1, MaxQueuedMessages: 1}})
			done := make(chan error, 1)
			_, err := c.Handle(ctx, "in/#", client.SubscribeOptions{QoS: qos}, func(ctx context.Context, m *client.Message) {
				done <- func() error {
					var nested *client.Subscription
					answered := make(chan struct{})
					nested, err := c.Handle(ctx, "nested", client.SubscribeOptions{QoS: qos}, func(ctx context.Context, _ *client.Message) {
						if err := nested.Unsubscribe(ctx); err != nil {
							t.Error(err)
						}
						close(answered)
					})
					if err != nil {
						return err
					}
					if err := c.Publish(ctx, client.Publication{Topic: "nested", Payload: m.Payload(), QoS: qos}); err != nil {
						return err
					}
					await(t, answered)
					return c.Publish(ctx, client.Publication{Topic: "other", QoS: qos})
				}()
			})
			must(t, err)
			must(t, c.Publish(ctx, client.Publication{Topic: "in/a", Payload: []byte("x"), QoS: qos}))
			must(t, await(t, done))
			closeNow(t, c)
		}
	}
}

// A handler that blocks for ever blocks neither another, nor publishing, nor Close.
func TestBlockedHandlerDelaysNoOther(t *testing.T) {
	ctx := testContext(t)
	f := echo(t)
	c := f.connect(client.Options{})
	blocked := make(chan struct{})
	_, err := c.Handle(ctx, "blocked", client.SubscribeOptions{QoS: qos1}, func(ctx context.Context, _ *client.Message) {
		close(blocked)
		<-ctx.Done()
	})
	must(t, err)
	free, err := c.Subscribe(ctx, "free", client.SubscribeOptions{})
	must(t, err)
	must(t, c.Publish(ctx, client.Publication{Topic: "blocked", QoS: qos1}))
	await(t, blocked)
	for range 100 {
		must(t, c.Publish(ctx, client.Publication{Topic: "free", QoS: qos0}))
		receive(t, free)
	}
	must(t, c.Publish(ctx, client.Publication{Topic: "free", QoS: qos2}))
	// Close cuts it short, which is an error.
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := c.Close(short); err != nil {
		t.Fatal(err)
	}
}

// A handler that waits for the server while its own inbox overflows gets its answer: the client stops waiting for room.
func TestFullInboxDoesNotBlockAcknowledgements(t *testing.T) {
	ctx := testContext(t)
	f := echo(t)
	c := f.connect(client.Options{Limits: client.Limits{MaxInboxMessages: 4, MaxReadPause: testTime}})
	done := make(chan error, 1)
	flooded := make(chan struct{})
	var once atomic.Bool
	_, err := c.Handle(ctx, "flood", client.SubscribeOptions{}, func(ctx context.Context, _ *client.Message) {
		if once.CompareAndSwap(false, true) {
			<-flooded
			done <- c.Publish(ctx, client.Publication{Topic: "answer", QoS: qos2})
		}
	})
	must(t, err)
	for range 100 {
		must(t, c.Publish(ctx, client.Publication{Topic: "flood"}))
	}
	eventually(t, "the reader pauses", func() bool { return c.Stats().ReadPauses > 0 })
	close(flooded)
	must(t, await(t, done))
	if stats := c.Stats(); stats.DroppedIncoming == 0 {
		t.Errorf("nothing was dropped: %+v", stats)
	}
}

// A subscription that nobody reads is reported once, by name, and its messages are counted; the others go on.
func TestSlowConsumerIsReported(t *testing.T) {
	ctx := testContext(t)
	f := echo(t)
	heldUp := make(chan *client.Subscription, 10)
	c := f.connect(client.Options{
		Limits:   client.Limits{MaxInboxMessages: 4, MaxReadPause: 20 * time.Millisecond},
		OnHeldUp: func(s *client.Subscription) { heldUp <- s },
	})
	slow, err := c.Subscribe(ctx, "slow", client.SubscribeOptions{})
	must(t, err)
	fast, err := c.Subscribe(ctx, "fast", client.SubscribeOptions{})
	must(t, err)
	for range 100 {
		must(t, c.Publish(ctx, client.Publication{Topic: "slow"}))
	}
	must(t, c.Publish(ctx, client.Publication{Topic: "fast"}))
	_, err = fast.Receive(ctx)
	must(t, err)
	if s := await(t, heldUp); s != slow {
		t.Errorf("%v was reported", s.Filters())
	}
	if slow.Dropped() != 96 || fast.Dropped() != 0 || len(heldUp) != 0 {
		t.Errorf("dropped %d and %d, %d more reports", slow.Dropped(), fast.Dropped(), len(heldUp))
	}
}

// If no caller waits, a burst of QoS 0 waits for a slow handler instead of being dropped.
func TestSlowHandlerSlowsTheServer(t *testing.T) {
	ctx := testContext(t)
	f := echo(t)
	c := f.connect(client.Options{Limits: client.Limits{MaxInboxMessages: 4, MaxReadPause: testTime}})
	got := make(chan string)
	_, err := c.Handle(ctx, "burst", client.SubscribeOptions{}, func(_ context.Context, m *client.Message) {
		got <- string(m.Payload())
	})
	must(t, err)
	for number := range 200 {
		must(t, c.Publish(ctx, client.Publication{Topic: "burst", Payload: []byte(fmt.Sprint(number))}))
	}
	eventually(t, "the reader pauses", func() bool { return c.Stats().ReadPauses > 0 })
	for number := range 200 {
		if each := await(t, got); each != fmt.Sprint(number) {
			t.Fatalf("got %s, want %d", each, number)
		}
	}
	if stats := c.Stats(); stats.DroppedIncoming != 0 {
		t.Errorf("%d messages were dropped", stats.DroppedIncoming)
	}
}

func TestAcknowledgementsFollowMessageOrder(t *testing.T) {
	for _, qos := range []packets.QoS{qos1, qos2} {
		ctx := testContext(t)
		acknowledged := make(chan packets.PacketID, 10)
		f := newFake(t, server.Hooks{
			Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
				if err := server.Grant(c, p); err != nil {
					return err
				}
				for id := range packets.PacketID(4) {
					message, _ := packets.NewPublish("a", []byte{byte(id)})
					orPanic(message.SetQoS(qos))
					orPanic(message.SetPacketID(id + 1))
					orPanic(c.Send(message))
				}
				return nil
			},
			PubAck: func(_ *server.Conn, p *packets.PubAck) error { acknowledged <- p.PacketID(); return nil },
			PubRec: func(_ *server.Conn, p *packets.PubRec) error { acknowledged <- p.PacketID(); return nil },
		})
		c := f.connect(client.Options{Limits: client.Limits{ReceiveMaximum: 4}})
		sub, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos, ManualAck: true})
		must(t, err)
		var messages []*client.Message
		for range 4 {
			messages = append(messages, receive(t, sub))
		}
		for _, at := range []int{2, 1, 3} {
			messages[at].Ack()
		}
		// [MQTT-4.6.0-2] [MQTT-4.6.0-3]: the first holds them back.
		must(t, c.Publish(ctx, client.Publication{Topic: "fence", QoS: qos1}))
		if len(acknowledged) != 0 {
			t.Fatalf("%v: %d was acknowledged before the first", qos, <-acknowledged)
		}
		messages[0].Ack()
		messages[0].Ack()
		for id := packets.PacketID(1); id <= 4; id++ {
			if got := await(t, acknowledged); got != id {
				t.Fatalf("%v: got %d, want %d", qos, got, id)
			}
		}
	}
}

func TestExceededReceiveMaximumClosesTheConnection(t *testing.T) {
	ctx := testContext(t)
	reasons := make(chan packets.ReasonCode, 1)
	f := newFake(t, server.Hooks{
		Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
			orPanic(server.Grant(c, p))
			for id := range packets.PacketID(3) {
				message, _ := packets.NewPublish("a", nil)
				orPanic(message.SetQoS(qos1))
				orPanic(message.SetPacketID(id + 1))
				orPanic(c.Send(message))
			}
			return nil
		},
		Disconnect: func(_ *server.Conn, p *packets.Disconnect) {
			select {
			case reasons <- p.Reason():
			default:
			}
		},
	})
	c := f.connect(client.Options{Limits: client.Limits{ReceiveMaximum: 2}})
	_, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos1, ManualAck: true})
	must(t, err)
	if got := await(t, reasons); got != packets.ReasonReceiveMaximumExceeded {
		t.Fatalf("got %v", got)
	}
}

func TestRejectNotifiesTheServer(t *testing.T) {
	ctx := testContext(t)
	reasons := make(chan packets.ReasonCode, 1)
	f := newFake(t, server.Hooks{
		Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
			orPanic(server.Grant(c, p))
			message, _ := packets.NewPublish("a", nil)
			orPanic(message.SetQoS(qos1))
			orPanic(message.SetPacketID(7))
			return c.Send(message)
		},
		PubAck: func(_ *server.Conn, p *packets.PubAck) error { reasons <- p.Reason(); return nil },
	})
	c := f.connect(client.Options{})
	sub, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos1, ManualAck: true})
	must(t, err)
	m := receive(t, sub)
	if err := m.Reject(packets.ReasonBanned); err == nil {
		t.Error("Reject accepted a reason that PUBACK may not carry")
	}
	must(t, m.Reject(packets.ReasonPayloadFormatInvalid))
	if got := await(t, reasons); got != packets.ReasonPayloadFormatInvalid {
		t.Errorf("got %v", got)
	}
}

func TestLoopAcknowledgesHandledMessages(t *testing.T) {
	ctx := testContext(t)
	b := newBroker()
	f := newFake(t, b.hooks())
	c := f.connect(client.Options{})
	sub, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos1})
	must(t, err)
	for number := range 5 {
		b.publish("a", fmt.Sprint(number), qos1)
	}
	var got []string
	for m, err := range sub.Messages(ctx) {
		must(t, err)
		got = append(got, string(m.Payload()))
		if len(got) == 3 {
			break
		}
	}
	if want := []string{"0", "1", "2"}; !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	eventually(t, "three are acknowledged", func() bool { _, left := b.state(); return left == 2 })
	if held := c.Stats().Unacknowledged; held != 2 {
		t.Errorf("%d are unacknowledged", held)
	}
	// The rest remains, and the end of ctx ends the loop with an error.
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	count := 0
	for m, err := range sub.Messages(short) {
		if count++; count == 3 {
			if m != nil {
				t.Errorf("a message with an error")
			}
			wantError(t, err, client.ErrCanceled)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			continue
		}
		must(t, err)
		if count == 2 {
			cancel()
		}
	}
	if count != 3 {
		t.Errorf("the loop ran %d times", count)
	}
	// Messages that remain after Unsubscribe are acknowledged and dropped.
	b.publish("a", "left", qos1)
	eventually(t, "it arrived", func() bool { return c.Stats().Received == 6 })
	must(t, sub.Unsubscribe(ctx))
	eventually(t, "all are acknowledged", func() bool { _, left := b.state(); return left == 0 })
	for range sub.Messages(ctx) {
		t.Error("a message after Unsubscribe")
	}
}
