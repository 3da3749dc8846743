package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// maxWaiting limits the messages that wait behind one for which the client's queue is full.
const maxWaiting = 100_000

// agent is one client.
type agent struct {
	address string
	// publishes run one after another, so that they keep their order.
	publishes chan func()
	// taken is closed when commands may use the client.
	taken chan struct{}

	mutex         sync.Mutex
	output        io.Writer
	client        *client.Client
	subscriptions []*client.Subscription
	// held messages wait for the command acknowledge, by payload.
	held map[string]*client.Message
}

func newAgent(address string, output io.Writer) *agent {
	a := &agent{
		address: address, output: output, publishes: make(chan func(), maxWaiting), taken: make(chan struct{}),
		held: map[string]*client.Message{},
	}
	go func() {
		for publish := range a.publishes {
			publish()
		}
	}()
	return a
}

// end closes the client, if it is open.
func (a *agent) end() {
	close(a.publishes)
	if c := a.current(); c != nil {
		_ = c.Close(context.Background())
	}
}

func (a *agent) say(format string, arguments ...any) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	_, _ = fmt.Fprintf(a.output, format+"\n", arguments...)
}

// outcome is a code, and the reason code of a packet, if any.
func outcome(err error) string {
	var known *client.Error
	if !errors.As(err, &known) {
		return "unknown " + err.Error()
	}
	text := string(known.Code)
	if known.Reason != 0 {
		text += " " + reason(known.Reason)
	}
	if known.Code == client.ErrRequestFailed {
		text += " " + known.Detail
	}
	return text
}

func reason(code packets.ReasonCode) string { return fmt.Sprintf("0x%02x", uint8(code)) }

func digit(flag bool) string {
	if flag {
		return "1"
	}
	return "0"
}

func level(text string) packets.QoS {
	number, _ := strconv.ParseUint(text, 10, 8)
	return packets.QoS(number)
}

func (a *agent) options(words string) client.Options {
	o := client.Options{
		Logger: slog.New(slog.DiscardHandler),
		OnConnect: func(info client.ServerInfo) {
			<-a.taken
			a.say("connected %s", digit(info.SessionPresent))
		},
		OnDisconnect:    func(err error) { a.say("disconnected %s", outcome(err)) },
		OnAttemptFailed: func(err error) { a.say("attempt %s", outcome(err)) },
		OnHeldUp:        func(s *client.Subscription) { a.say("held_up %s", strings.Join(s.Filters(), " ")) },
	}
	number := func(text string) time.Duration {
		value, _ := strconv.ParseInt(text, 10, 64)
		return time.Duration(value)
	}
	for _, word := range strings.Fields(words) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "client":
			o.ClientID = value
		case "version":
			o.Version = packets.Version(level(value))
		case "expiry":
			o.SessionExpiry = client.NoSession
			if value != "0" {
				o.SessionExpiry = number(value) * time.Second
			}
		case "resume":
			o.Resume = true
		case "user":
			o.Username = value
		case "password":
			o.Password = []byte(value)
		case "attempts_ms":
			o.Reconnect.Max = number(value) * time.Millisecond
		case "connect_ms":
			o.Timeouts.Connect = number(value) * time.Millisecond
		case "queue":
			o.Limits.MaxInboxMessages = int(number(value))
		case "timeout_ms":
			o.Timeouts.Request = number(value) * time.Millisecond
		}
	}
	return o
}

func (a *agent) connect(words []string) {
	go func() {
		c, err := client.Connect(context.Background(), a.address, a.options(words[0]))
		if err != nil {
			a.say("failed connect %s", outcome(err))
			return
		}
		a.take(c)
	}()
}

func (a *agent) start(words []string) {
	c, err := client.New(a.address, a.options(words[0]))
	if err != nil {
		a.say("failed connect %s", outcome(err))
		return
	}
	a.take(c)
}

func (a *agent) take(c *client.Client) {
	a.mutex.Lock()
	a.client = c
	a.mutex.Unlock()
	close(a.taken)
	go func() {
		<-c.Done()
		if err := c.Err(); err != nil {
			a.say("ended %s", outcome(err))
		}
	}()
}

// current is the client, or nil.
func (a *agent) current() *client.Client {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.client
}

func (a *agent) subscribe(words []string) { a.handle(words, false) }

func (a *agent) hold(words []string) { a.handle(words, true) }

func (a *agent) handle(words []string, holds bool) {
	c, filter := a.current(), words[1]
	options := client.SubscribeOptions{QoS: level(words[0]), ManualAck: holds}
	go func() {
		handler := func(_ context.Context, m *client.Message) {
			if holds {
				a.mutex.Lock()
				a.held[string(m.Payload())] = m
				a.mutex.Unlock()
			}
			a.say("message %s %d %s %s", m.Topic(), m.QoS(), digit(m.Retain()), m.Payload())
		}
		subscription, err := c.Handle(context.Background(), filter, options, handler)
		a.subscribed(subscription, err)
		if err != nil {
			return
		}
		<-subscription.Done()
		if err := subscription.Err(); errors.Is(err, client.ErrSubscribeRefused) {
			a.say("lost %s %s", filter, outcome(err))
		}
	}()
}

// stall subscribes and does not read the messages.
func (a *agent) stall(words []string) {
	c := a.current()
	go func() {
		subscription, err := c.Subscribe(context.Background(), words[1], client.SubscribeOptions{QoS: level(words[0])})
		a.subscribed(subscription, err)
	}()
}

// stumble subscribes, and panics in a loop over the messages at the first one.
func (a *agent) stumble(words []string) {
	c := a.current()
	go func() {
		subscription, err := c.Subscribe(context.Background(), words[1], client.SubscribeOptions{QoS: level(words[0])})
		a.subscribed(subscription, err)
		if err != nil {
			return
		}
		defer func() { a.say("stumbled %v", recover()) }()
		for m := range subscription.Messages(context.Background()) {
			a.say("message %s %d %s %s", m.Topic(), m.QoS(), digit(m.Retain()), m.Payload())
			panic(string(m.Payload()))
		}
	}()
}

func (a *agent) acknowledge(words []string) {
	a.mutex.Lock()
	message := a.held[words[0]]
	a.mutex.Unlock()
	message.Ack()
	a.say("acknowledged %s", words[0])
}

func (a *agent) subscribed(subscription *client.Subscription, err error) {
	if err != nil {
		a.say("failed subscribe %s", outcome(err))
		return
	}
	a.mutex.Lock()
	a.subscriptions = append(a.subscriptions, subscription)
	a.mutex.Unlock()
	a.say("subscribed %s %d", subscription.Filters()[0], subscription.QoS())
}

func (a *agent) unsubscribe(words []string) {
	subscription := a.newest(words[0])
	go func() {
		if subscription == nil {
			a.say("failed unsubscribe %s", client.ErrInvalidArgument)
			return
		}
		if err := subscription.Unsubscribe(context.Background()); err != nil {
			a.say("failed unsubscribe %s", outcome(err))
			return
		}
		a.say("unsubscribed %s", words[0])
	}()
}

// newest removes and returns the newest subscription with that filter.
func (a *agent) newest(filter string) *client.Subscription {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for at := len(a.subscriptions) - 1; at >= 0; at-- {
		if found := a.subscriptions[at]; found.Filters()[0] == filter {
			a.subscriptions = append(a.subscriptions[:at], a.subscriptions[at+1:]...)
			return found
		}
	}
	return nil
}

func (a *agent) publish(words []string) {
	c, payload := a.current(), words[2]
	message := client.Publication{Topic: words[1], Payload: []byte(payload), QoS: level(words[0])}
	a.publishes <- func() {
		token, err := c.PublishAsync(context.Background(), message)
		if err != nil {
			a.say("failed publish %s %s", outcome(err), payload)
			return
		}
		go func() {
			code, err := token.Wait(context.Background())
			if err != nil {
				a.say("failed publish %s %s", outcome(err), payload)
				return
			}
			a.say("published %s %s", payload, reason(code))
		}()
	}
}

func (a *agent) respond(words []string) {
	c, filter, text := a.current(), words[0], words[2]
	var responder client.Responder
	switch words[1] {
	case "echo":
		responder = func(_ context.Context, m *client.Message) (client.Publication, error) {
			return client.Publication{Payload: m.Payload()}, nil
		}
	case "failure":
		responder = func(context.Context, *client.Message) (client.Publication, error) {
			return client.Publication{}, client.ResponseFailure(text)
		}
	default:
		responder = func(context.Context, *client.Message) (client.Publication, error) {
			return client.Publication{}, errors.New(text)
		}
	}
	go func() {
		a.subscribed(c.Respond(context.Background(), filter, client.SubscribeOptions{}, responder))
	}()
}

func (a *agent) request(words []string) {
	c, message := a.current(), client.Publication{Topic: words[1], Payload: []byte(words[2]), QoS: level(words[0])}
	ask := c.Request
	if message.QoS == packets.AtMostOnce {
		ask = c.RequestAtMostOnce
	}
	go func() {
		response, err := ask(context.Background(), message)
		if err != nil {
			a.say("failed request %s", outcome(err))
			return
		}
		a.say("response %s", response.Payload())
	}()
}

func (a *agent) close([]string) {
	c := a.current()
	go func() {
		if c != nil {
			_ = c.Close(context.Background())
		}
		a.say("closed")
	}()
}
