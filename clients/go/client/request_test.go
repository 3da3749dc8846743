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

// upper answers with the payload in upper case, and fails in two ways.
func upper(_ context.Context, m *client.Message) (client.Publication, error) {
	switch string(m.Payload()) {
	case "":
		return client.Publication{}, fmt.Errorf("upper: %w", client.ResponseFailure("there is nothing to do"))
	case "crash":
		return client.Publication{Payload: []byte("half")}, errors.New("the password is secret")
	}
	return client.Publication{Payload: []byte(strings.ToUpper(string(m.Payload())))}, nil
}

func TestRequestsAreAnswered(t *testing.T) {
	ctx := testContext(t)
	c := echo(t).connect(client.Options{})
	responder, err := c.Respond(ctx, "upper", client.SubscribeOptions{}, upper)
	must(t, err)
	if responder.QoS() != qos2 {
		t.Errorf("requests come at %v", responder.QoS())
	}
	results := make(chan error)
	for number := range 20 {
		go func() {
			text := fmt.Sprint("question ", number)
			ask := c.Request
			if number%4 == 3 {
				ask = c.RequestAtMostOnce
			}
			response, err := ask(ctx, client.Publication{Topic: "upper", Payload: []byte(text), QoS: packets.QoS(number % 3)})
			want := max(packets.QoS(number%3), qos1)
			if number%4 == 3 {
				want = qos0
			}
			if err == nil && (string(response.Payload()) != strings.ToUpper(text) || response.QoS() != want) {
				err = fmt.Errorf("%q was answered with %q at %v", text, response.Payload(), response.QoS())
			}
			results <- err
		}()
	}
	for range 20 {
		must(t, await(t, results))
	}
}

func TestFailedResponderReportsAnError(t *testing.T) {
	ctx := testContext(t)
	c := echo(t).connect(client.Options{})
	_, err := c.Respond(ctx, "upper", client.SubscribeOptions{}, upper)
	must(t, err)
	for payload, sentence := range map[string]string{"": "there is nothing to do", "crash": "the responder failed"} {
		_, err := c.Request(ctx, client.Publication{Topic: "upper", Payload: []byte(payload)})
		e := wantError(t, err, client.ErrRequestFailed)
		if e.Detail != sentence || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
	// On the wire: an empty payload, and the text.
	sub, err := c.Subscribe(ctx, "answers", client.SubscribeOptions{QoS: qos1})
	must(t, err)
	must(t, c.Publish(ctx, client.Publication{
		Topic: "upper", Payload: []byte("crash"), ResponseTopic: "answers", CorrelationData: []byte{1, 2, 3}, QoS: qos1,
	}))
	m := receive(t, sub)
	sentence, _ := m.UserProperty("error")
	correlation, _ := m.CorrelationData()
	if len(m.Payload()) != 0 || sentence != "the responder failed" || string(correlation) != "\x01\x02\x03" || m.QoS() != qos1 {
		t.Errorf("got %v %q", m, m.Payload())
	}
}

// A response that the client cannot publish becomes a failure: the requester does not wait for its timeout.
func TestUnpublishableResponseIsAFailure(t *testing.T) {
	ctx := testContext(t)
	c := echo(t).connect(client.Options{})
	_, err := c.Respond(ctx, "bad", client.SubscribeOptions{}, func(context.Context, *client.Message) (client.Publication, error) {
		return client.Publication{ContentType: "\x00"}, nil
	})
	must(t, err)
	_, err = c.Request(ctx, client.Publication{Topic: "bad"})
	if e := wantError(t, err, client.ErrRequestFailed); e.Detail != "the responder failed" {
		t.Errorf("got %v", err)
	}
}

// After a reconnection a server may refuse the subscription to responses, and allow it again later: requests recover.
func TestRequestsWorkAfterRefusedResponseSubscription(t *testing.T) {
	ctx := testContext(t)
	var isRefused atomic.Bool
	asked := make(chan struct{}, 10)
	f := newFake(t, server.Hooks{
		Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
			answer, err := packets.NewSubAck(p.PacketID())
			orPanic(err)
			reason := packets.ReasonSuccess
			if isRefused.Load() {
				reason = packets.ReasonNotAuthorized
			}
			orPanic(answer.Add(reason))
			return c.Send(answer)
		},
		Publish: func(c *server.Conn, p *packets.Publish) error {
			if err := server.Acknowledge(c, p); err != nil {
				return err
			}
			if p.Topic() == "silent" {
				asked <- struct{}{}
				return nil
			}
			topic, _ := p.ResponseTopic()
			correlation, _ := p.CorrelationData()
			response, err := packets.NewPublish(topic, []byte("yes"))
			orPanic(err)
			orPanic(response.SetCorrelationData(correlation))
			return c.Send(response)
		},
	})
	c := f.connect(client.Options{})
	_, err := c.Request(ctx, client.Publication{Topic: "ready"})
	must(t, err)
	pending := make(chan error, 1)
	go func() {
		_, err := c.Request(ctx, client.Publication{Topic: "silent"})
		pending <- err
	}()
	await(t, asked)
	isRefused.Store(true)
	f.cut()
	wantError(t, await(t, pending), client.ErrSubscribeRefused)
	_, err = c.Request(ctx, client.Publication{Topic: "ready"})
	wantError(t, err, client.ErrSubscribeRefused)
	isRefused.Store(false)
	response, err := c.Request(ctx, client.Publication{Topic: "ready"})
	must(t, err)
	if string(response.Payload()) != "yes" {
		t.Errorf("got %s", response.Payload())
	}
}

func TestRequestWithoutAResponderFailsAtOnce(t *testing.T) {
	ctx := testContext(t)
	f := newFake(t, server.Hooks{Publish: func(c *server.Conn, p *packets.Publish) error {
		switch p.QoS() {
		case qos1:
			ack, err := packets.NewPubAck(p.PacketID())
			return errors.Join(err, ack.SetReason(packets.ReasonNoMatchingSubscribers), c.Send(ack))
		case qos2:
			rec, err := packets.NewPubRec(p.PacketID())
			return errors.Join(err, rec.SetReason(packets.ReasonNoMatchingSubscribers), c.Send(rec))
		}
		return nil
	}})
	c := f.connect(client.Options{})
	for _, qos := range []packets.QoS{qos0, qos1, qos2} {
		_, err := c.Request(ctx, client.Publication{Topic: "nobody", QoS: qos})
		if e := wantError(t, err, client.ErrNoResponder); e.Reason != packets.ReasonNoMatchingSubscribers || e.Detail != "nobody" {
			t.Errorf("got %v", e)
		}
	}
}

func TestRequestTimesOut(t *testing.T) {
	release := make(chan struct{})
	c := echo(t).connect(client.Options{Timeouts: client.Timeouts{Request: 20 * time.Millisecond}})
	_, err := c.Respond(testContext(t), "slow", client.SubscribeOptions{}, func(context.Context, *client.Message) (client.Publication, error) {
		<-release
		return client.Publication{}, nil
	})
	must(t, err)
	ask := func(ctx context.Context) error {
		_, err := c.Request(ctx, client.Publication{Topic: "slow"})
		return err
	}
	err = ask(context.Background())
	if e := wantError(t, err, client.ErrRequestTimeout); !errors.Is(err, context.DeadlineExceeded) || e.Detail != "slow" {
		t.Errorf("got %v", err)
	}
	short, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	wantError(t, ask(short), client.ErrRequestTimeout)
	// A cancelled context is not a timeout: the request was sent.
	eventually(t, "the others are sent", func() bool { return c.Stats().Held == 0 })
	acknowledged := c.Stats().Acknowledged
	ctx, stop := context.WithTimeout(context.Background(), testTime)
	canceled := make(chan error)
	go func() { canceled <- ask(ctx) }()
	eventually(t, "it is sent", func() bool { return c.Stats().Acknowledged > acknowledged })
	stop()
	wantError(t, await(t, canceled), client.ErrUnacknowledged)
	// Late responses are dropped and counted. The first two requests may have timed out before they were sent.
	sent := c.Stats().Acknowledged
	close(release)
	eventually(t, "the late ones are counted", func() bool { return c.Stats().LateResponses == sent })
}

func TestRequestWithoutAResponseTopicIsHandled(t *testing.T) {
	ctx := testContext(t)
	c := echo(t).connect(client.Options{})
	ran := make(chan string, 1)
	_, err := c.Respond(ctx, "log", client.SubscribeOptions{}, func(_ context.Context, m *client.Message) (client.Publication, error) {
		ran <- string(m.Payload())
		return client.Publication{Payload: []byte("for nobody")}, nil
	})
	must(t, err)
	published := c.Stats().Sent + c.Stats().Queued
	must(t, c.Publish(ctx, client.Publication{Topic: "log", Payload: []byte("x"), QoS: qos1}))
	if payload := await(t, ran); payload != "x" {
		t.Errorf("got %q", payload)
	}
	closeNow(t, c)
	if now := c.Stats().Sent + c.Stats().Queued; now != published+1 {
		t.Errorf("%d messages were published", now-published)
	}
}
