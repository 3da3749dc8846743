package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

func TestConnectContainsTheOptions(t *testing.T) {
	for _, version := range versions {
		will, err := packets.NewWill("gone", []byte("bye"))
		must(t, err)
		must(t, will.SetQoS(qos1))
		connects := make(chan *packets.Connect, 1)
		f := newFake(t, server.Hooks{Connect: func(_ *server.Conn, p *packets.Connect) (*packets.ConnAck, error) {
			connects <- p.Clone()
			return packets.NewConnAck(packets.ReasonSuccess)
		}})
		o := client.Options{
			Version: version, ClientID: "one", Username: "user", Password: []byte("secret"), Will: will,
			KeepAlive: 90 * time.Second, SessionExpiry: 1500 * time.Millisecond, Limits: client.Limits{ReceiveMaximum: 7},
		}
		if version == packets.V5 {
			o.UserProperties = []client.UserProperty{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}
		}
		f.connect(o)
		p := await(t, connects)
		username, _ := p.UserName()
		password, _ := p.Password()
		if p.Version() != version || p.ClientID() != "one" || username != "user" || string(password) != "secret" ||
			p.KeepAlive() != 90 || !p.CleanStart() && version == packets.V5 || p.Will() == nil || p.Will().Topic() != "gone" {
			t.Errorf("%v", p)
		}
		if version == packets.V5 && (p.SessionExpiryInterval() != 2 || p.ReceiveMaximum() != 7) {
			t.Errorf("%v", p)
		}
	}
}

func TestPermanentRefusalsEndTheClient(t *testing.T) {
	for _, version := range versions {
		for reason, permanent := range map[packets.ReasonCode]bool{
			packets.ReasonBadUserNameOrPassword: true, packets.ReasonNotAuthorized: true,
			packets.ReasonClientIdentifierNotValid: true, packets.ReasonServerUnavailable: false,
		} {
			attempts := atomic.Int64{}
			f := newFake(t, server.Hooks{Connect: func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) {
				if attempts.Add(1) == 3 {
					return packets.NewConnAck(packets.ReasonSuccess)
				}
				return packets.NewConnAck(reason)
			}})
			c := f.start(client.Options{Version: version})
			if !permanent {
				must(t, c.AwaitConnection(testContext(t)))
				continue
			}
			await(t, c.Done())
			if e := wantError(t, c.Err(), client.ErrConnectionRefused); e.Reason != reason {
				t.Errorf("got %v, want %v", e, reason)
			}
			if attempts.Load() != 1 {
				t.Errorf("%v: %d attempts", reason, attempts.Load())
			}
		}
	}
}

func TestTakenOverClientDoesNotReconnect(t *testing.T) {
	f := newFake(t, server.Hooks{})
	c := f.connect(client.Options{OnDisconnect: func(err error) { t.Errorf("it is going to connect again after %v", err) }})
	token := make(chan error, 1)
	sub, err := c.Subscribe(testContext(t), "a", client.SubscribeOptions{})
	must(t, err)
	go func() {
		for _, err := range sub.Messages(testContext(t)) {
			token <- err
		}
	}()
	f.server.Connections()[0].Close(packets.ReasonSessionTakenOver)
	await(t, c.Done())
	if e := wantError(t, c.Err(), client.ErrSessionTakenOver); e.Reason != packets.ReasonSessionTakenOver {
		t.Errorf("got %v", e)
	}
	wantError(t, await(t, token), client.ErrSessionTakenOver)
	_, err = c.PublishAsync(testContext(t), client.Publication{Topic: "a", QoS: qos1})
	wantError(t, err, client.ErrClosed)
	if !errors.Is(err, client.ErrSessionTakenOver) {
		t.Errorf("%v does not say why", err)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]client.Options{
		"version":         {Version: packets.V31},
		"receive maximum": {Limits: client.Limits{ReceiveMaximum: 65_536}},
		"negative":        {Limits: client.Limits{MaxQueuedMessages: -1}},
		"auth":            {Version: packets.V311, Authenticator: &challenge{}},
		"password alone":  {Version: packets.V311, Password: []byte("x")},
		"negative time":   {Timeouts: client.Timeouts{Ping: -1}},
		"keep alive":      {KeepAlive: 20 * time.Hour},
		"time for none":   {KeepAlive: -time.Second},
		"no session":      {SessionExpiry: -time.Second},
		"pauses":          {Reconnect: client.Reconnect{Min: time.Minute, Max: time.Second}},
		"subscriptions":   {Subscriptions: []client.InitialSubscription{{Filter: "a"}}},
	} {
		_, err := client.New("mqtt://fake", o)
		if !errors.Is(err, client.ErrInvalidOptions) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestBrokenHandshakeClosesTheConnection(t *testing.T) {
	for name, answer := range map[string][]byte{
		"a session after a clean start [MQTT-3.2.2-4]": {0x20, 3, 1, 0, 0},
		"PINGRESP before CONNACK [MQTT-3.2.0-1]":       {0xD0, 0},
		"AUTH without a method [MQTT-4.12.0-6]":        {0xF0, 6, 0x18, 4, 0x15, 0, 1, 'x'},
		"no packet":                                    {0xFF, 0xFF},
	} {
		f := newFake(t, server.Hooks{Connect: func(c *server.Conn, _ *packets.Connect) (*packets.ConnAck, error) {
			orPanic(c.SendRaw(answer))
			return nil, nil
		}})
		err := firstFailure(t, "mqtt://fake", f.options(client.Options{}))
		if !errors.Is(err, client.ErrProtocol) && !errors.Is(err, client.ErrHandshake) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestConnAckOfAnotherVersionIsUnderstood(t *testing.T) {
	for name, test := range map[string]struct {
		answer []byte
		code   client.Code
		reason packets.ReasonCode
	}{
		"no MQTT":                              {[]byte("SSH-2.0-OpenSSH_9.2p1\r\n"), client.ErrHandshake, 0},
		"a success in 3.1.1":                   {[]byte{0x20, 2, 0, 0}, client.ErrHandshake, 0},
		"a refusal of the version in 3.1.1":    {[]byte{0x20, 2, 0, 1}, client.ErrUnsupportedProtocolVersion, 0x84},
		"a refusal of the identifier in 3.1.1": {[]byte{0x20, 2, 0, 2}, client.ErrConnectionRefused, 0x85},
		"a refusal of the password in 3.1.1":   {[]byte{0x20, 2, 0, 4}, client.ErrConnectionRefused, 0x86},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, server.Hooks{Connect: func(c *server.Conn, _ *packets.Connect) (*packets.ConnAck, error) {
				// In two pieces, as it may arrive. The first may be enough for the client to disconnect.
				orPanic(c.SendRaw(test.answer[:3]))
				if err := c.SendRaw(test.answer[3:]); err != nil && !errors.Is(err, net.ErrClosed) {
					orPanic(err)
				}
				return nil, nil
			}})
			e := wantError(t, firstFailure(t, "mqtt://fake", f.options(client.Options{})), test.code)
			if e.Reason != test.reason {
				t.Errorf("reason %v", e.Reason)
			}
		})
	}
}

func TestSilentServerIsDetected(t *testing.T) {
	var pings atomic.Int64
	hooks := server.Hooks{Connect: func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) {
		ack, err := packets.NewConnAck(packets.ReasonSuccess)
		ack.SetServerKeepAlive(1) // [MQTT-3.1.2-21]
		return ack, err
	}}
	hooks.Ping = func(c *server.Conn, _ *packets.PingReq) error {
		pings.Add(1)
		return c.Send(&packets.PingResp{})
	}
	answered := newFake(t, hooks).connect(client.Options{Timeouts: client.Timeouts{Ping: testTime}})
	hooks.Ping = func(*server.Conn, *packets.PingReq) error { return nil }
	lost := make(chan error, 1)
	silent := newFake(t, hooks).connect(client.Options{Timeouts: client.Timeouts{Ping: 50 * time.Millisecond}, OnDisconnect: func(err error) {
		select {
		case lost <- err:
		default:
		}
	}})
	wantError(t, await(t, lost), client.ErrKeepAliveTimeout)
	eventually(t, "a new connection", func() bool { return silent.Stats().Connects >= 2 })
	eventually(t, "a ping after an answer", func() bool { return pings.Load() >= 2 })
	if connects := answered.Stats().Connects; connects != 1 {
		t.Errorf("%d connections with a server that answers", connects)
	}
}

func TestSubscriptionsAreRenewedWhenTheSessionIsLost(t *testing.T) {
	for _, version := range versions {
		ctx := testContext(t)
		b := newBroker()
		var forget atomic.Bool
		b.forgets = forget.Load
		f := newFake(t, b.hooks())
		infos := make(chan client.ServerInfo, 10)
		c := f.connect(client.Options{
			Version: version, ClientID: "one", SessionExpiry: time.Minute, OnConnect: func(info client.ServerInfo) { infos <- info },
		})
		await(t, infos)
		sub, err := c.Subscribe(ctx, "a", client.SubscribeOptions{QoS: qos1})
		must(t, err)
		gone, err := c.Subscribe(ctx, "gone", client.SubscribeOptions{})
		must(t, err)
		must(t, gone.Unsubscribe(ctx))
		count := func() int {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			return b.subscribe
		}
		f.cut()
		if info := await(t, infos); !info.SessionPresent || count() != 2 {
			t.Errorf("%v: session present %v, %d SUBSCRIBE packets", version, info.SessionPresent, count())
		}
		forget.Store(true)
		f.cut()
		if info := await(t, infos); info.SessionPresent {
			t.Error("the session is present")
		}
		eventually(t, "the subscription is renewed", func() bool { return count() == 3 })
		b.publish("a", "again", qos1)
		if m := receive(t, sub); string(m.Payload()) != "again" {
			t.Errorf("got %v", m)
		}
		closeNow(t, c)
	}
}

// When the session is lost, unacknowledged QoS 1 messages are sent again; those of QoS 2 fail, because their delivery is
// unknown.
func TestLostSessionIsReported(t *testing.T) {
	ctx := testContext(t)
	var reached atomic.Int64
	var mute atomic.Bool
	mute.Store(true)
	var mutex sync.Mutex
	var got []string
	f := newFake(t, server.Hooks{
		Publish: func(c *server.Conn, p *packets.Publish) error {
			reached.Add(1)
			if mute.Load() {
				return nil
			}
			mutex.Lock()
			got = append(got, fmt.Sprintf("%s dup=%v", p.Payload(), p.Dup()))
			mutex.Unlock()
			return server.Acknowledge(c, p)
		},
	})
	c := f.connect(client.Options{Limits: client.Limits{MaxInFlight: 3}})
	publish := func(text string, qos packets.QoS) *client.Token {
		token, err := c.PublishAsync(ctx, client.Publication{Topic: "a", Payload: []byte(text), QoS: qos})
		must(t, err)
		return token
	}
	first, second, third := publish("one", qos1), publish("two", qos2), publish("three", qos1)
	queued := publish("four", qos2)
	eventually(t, "three are sent", func() bool { return reached.Load() == 3 })
	mute.Store(false)
	f.cut()
	must(t, outcome(ctx, first))
	wantError(t, outcome(ctx, second), client.ErrSessionLost)
	must(t, outcome(ctx, third))
	must(t, outcome(ctx, queued))
	mutex.Lock()
	defer mutex.Unlock()
	if want := []string{"one dup=false", "three dup=false", "four dup=false"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestRefusedSubscriptionReportsTheReason(t *testing.T) {
	ctx := testContext(t)
	var refuse atomic.Bool
	f := newFake(t, server.Hooks{Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
		if !refuse.Load() {
			return server.Grant(c, p)
		}
		ack, err := packets.NewSubAck(p.PacketID())
		orPanic(ack.Add(packets.ReasonNotAuthorized))
		orPanic(ack.SetReasonString("not for you"))
		return errors.Join(err, c.Send(ack))
	}})
	c := f.connect(client.Options{})
	kept, err := c.Subscribe(ctx, "kept", client.SubscribeOptions{})
	must(t, err)
	refuse.Store(true)
	_, err = c.Subscribe(ctx, "a", client.SubscribeOptions{})
	if e := wantError(t, err, client.ErrSubscribeRefused); e.Reason != packets.ReasonNotAuthorized || e.ReasonString != "not for you" {
		t.Errorf("got %v", e)
	}
	// This server has no sessions: after a cut the other subscription is refused too, with an error.
	if kept.Err() != nil || isDone(kept) {
		t.Errorf("it has not ended: %v", kept.Err())
	}
	f.cut()
	await(t, kept.Done())
	wantError(t, kept.Err(), client.ErrSubscribeRefused)
	_, err = kept.Receive(ctx)
	if e := wantError(t, err, client.ErrSubscribeRefused); e.Reason != packets.ReasonNotAuthorized {
		t.Errorf("got %v", e)
	}
}

func isDone(s *client.Subscription) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func TestEndedSubscriptionHasNoError(t *testing.T) {
	ctx := testContext(t)
	c := newFake(t, newBroker().hooks()).connect(client.Options{})
	ended, err := c.Subscribe(ctx, "a", client.SubscribeOptions{})
	must(t, err)
	must(t, ended.Unsubscribe(ctx))
	closed, err := c.Handle(ctx, "b", client.SubscribeOptions{}, func(context.Context, *client.Message) {})
	must(t, err)
	must(t, c.Close(ctx))
	for _, s := range []*client.Subscription{ended, closed} {
		if !isDone(s) || s.Err() != nil {
			t.Errorf("%v: done %v, %v", s.Filters(), isDone(s), s.Err())
		}
	}
}

func TestSubscriptionWaitsForConnectionOrContext(t *testing.T) {
	f := newFake(t, server.Hooks{})
	f.setDown(true)
	c := f.start(client.Options{})
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := c.Subscribe(short, "a", client.SubscribeOptions{})
	wantError(t, err, client.ErrCanceled)
	made := make(chan error)
	go func() {
		_, err := c.Subscribe(testContext(t), "b", client.SubscribeOptions{})
		made <- err
	}()
	f.setDown(false)
	must(t, await(t, made))
}

func TestCloseDeliversAndDisconnects(t *testing.T) {
	ctx := testContext(t)
	goodbyes := make(chan *packets.Disconnect, 1)
	var delivered atomic.Int64
	f := newFake(t, server.Hooks{
		Publish: func(c *server.Conn, p *packets.Publish) error {
			delivered.Add(1)
			return server.Acknowledge(c, p)
		},
		Disconnect: func(_ *server.Conn, p *packets.Disconnect) { goodbyes <- p.Clone() },
	})
	c := f.connect(client.Options{Limits: client.Limits{MaxInFlight: 2}})
	for range 100 {
		_, err := c.PublishAsync(ctx, client.Publication{Topic: "a", QoS: qos2})
		must(t, err)
		must(t, c.Publish(ctx, client.Publication{Topic: "a"}))
	}
	must(t, c.Close(ctx))
	p := await(t, goodbyes)
	expiry, set := p.SessionExpiryInterval()
	if p.Reason() != packets.ReasonNormalDisconnection || !set || expiry != 0 {
		t.Errorf("got %v", p)
	}
	if delivered.Load() != 200 {
		t.Errorf("%d messages were delivered", delivered.Load())
	}
	wantError(t, c.Publish(ctx, client.Publication{Topic: "a"}), client.ErrClosed)
	_, err := c.Subscribe(ctx, "a", client.SubscribeOptions{})
	wantError(t, err, client.ErrClosed)
	must(t, c.Close(ctx))
	if c.Err() != nil {
		t.Errorf("got %v", c.Err())
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	for _, state := range []string{"connected", "down", "busy", "handshake"} {
		ctx := testContext(t)
		f := echo(t)
		if state == "handshake" {
			f = newFake(t, server.Hooks{Connect: func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) {
				time.Sleep(20 * time.Millisecond)
				return packets.NewConnAck(packets.ReasonSuccess)
			}})
		}
		if state == "down" {
			f.setDown(true)
		}
		c := f.start(client.Options{
			Unrouted:  func(context.Context, *client.Message) {},
			OnConnect: func(client.ServerInfo) {}, OnDisconnect: func(error) {},
		})
		if state == "busy" {
			must(t, c.AwaitConnection(ctx))
			_, err := c.Handle(ctx, "a", client.SubscribeOptions{QoS: qos1}, func(ctx context.Context, m *client.Message) {
				_, _ = c.PublishAsync(ctx, client.Publication{Topic: "a", QoS: qos1})
			})
			must(t, err)
			must(t, c.Publish(ctx, client.Publication{Topic: "a", QoS: qos1}))
		}
		crash(c)
		serverClosed, cancel := context.WithCancel(ctx)
		cancel()
		_ = f.server.Close(serverClosed)
		if left := goroutinesLeft(); left != "" && t.Name() == "TestCloseLeavesNoGoroutine" {
			t.Fatalf("%s:\n%s", state, left)
		}
	}
}

// challenge is an authentication of two steps.
type challenge struct{ finished atomic.Int64 }

func (*challenge) Method() string                        { return "CHALLENGE" }
func (*challenge) Begin(context.Context) ([]byte, error) { return []byte("begin"), nil }
func (a *challenge) Finish(data []byte) error {
	if string(data) != "welcome" {
		return fmt.Errorf("the server said %q", data)
	}
	a.finished.Add(1)
	return nil
}

func (*challenge) Continue(_ context.Context, data []byte) ([]byte, error) {
	return append([]byte("answer to "), data...), nil
}

func TestEnhancedAuthentication(t *testing.T) {
	ctx := testContext(t)
	auth := func(reason packets.ReasonCode, data string) *packets.Auth {
		p, err := packets.NewAuth(reason, "CHALLENGE")
		orPanic(err)
		orPanic(p.SetAuthenticationData([]byte(data)))
		return p
	}
	// The handshake is scripted, because the hooks begin after CONNECT.
	answers := make(chan string, 10)
	var good atomic.Bool
	good.Store(true)
	f := newFake(t, server.Hooks{
		Connect: func(c *server.Conn, p *packets.Connect) (*packets.ConnAck, error) {
			method, _ := p.AuthenticationMethod()
			data, _ := p.AuthenticationData()
			answers <- method + " " + string(data)
			ack, err := packets.NewConnAck(packets.ReasonSuccess)
			orPanic(err)
			orPanic(ack.SetAuthenticationMethod("CHALLENGE"))
			orPanic(ack.SetAuthenticationData([]byte("welcome")))
			return ack, c.Send(auth(packets.ReasonContinueAuthentication, "first"))
		},
		Auth: func(c *server.Conn, p *packets.Auth) error {
			data, _ := p.AuthenticationData()
			answers <- string(data)
			switch {
			case p.Reason() == packets.ReasonReAuthenticate:
				return c.Send(auth(packets.ReasonContinueAuthentication, "again"))
			case string(data) == "answer to again" && good.Load():
				return c.Send(auth(packets.ReasonSuccess, "welcome"))
			case string(data) == "answer to again":
				return &server.Error{Reason: packets.ReasonNotAuthorized}
			}
			return nil
		},
	})
	authenticator := &challenge{}
	c := f.connect(client.Options{Authenticator: authenticator})
	for _, want := range []string{"CHALLENGE begin", "answer to first"} {
		if got := await(t, answers); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	must(t, c.Reauthenticate(ctx))
	if authenticator.finished.Load() != 2 {
		t.Errorf("%d times finished", authenticator.finished.Load())
	}
	good.Store(false)
	if err := c.Reauthenticate(ctx); err == nil {
		t.Error("the refusal was not noticed")
	}
	await(t, c.Done())
	if e := wantError(t, c.Err(), client.ErrServerDisconnected); e.Reason != packets.ReasonNotAuthorized {
		t.Errorf("got %v", e)
	}
}

func TestEarlierSessionIsResumed(t *testing.T) {
	for _, version := range versions {
		testAnEarlierSessionIsTakenUp(t, version)
	}
}

func testAnEarlierSessionIsTakenUp(t *testing.T, version packets.Version) {
	b := newBroker()
	f := newFake(t, b.hooks())
	first := f.connect(client.Options{Version: version, ClientID: "one", SessionExpiry: time.Minute})
	_, err := first.Subscribe(testContext(t), "a", client.SubscribeOptions{QoS: qos1})
	must(t, err)
	closeNow(t, first)
	b.publish("a", "meanwhile", qos1)
	got := make(chan string, 1)
	second := f.connect(client.Options{
		Version: version, ClientID: "one", Resume: true, Unrouted: func(_ context.Context, m *client.Message) { got <- string(m.Payload()) },
	})
	if payload := await(t, got); payload != "meanwhile" {
		t.Errorf("got %q", payload)
	}
	if info, _ := second.Server(); !info.SessionPresent {
		t.Error("the session is not present")
	}
	// Without Resume it is discarded.
	closeNow(t, second)
	third := f.connect(client.Options{Version: version, ClientID: "one"})
	if info, _ := third.Server(); info.SessionPresent {
		t.Error("the session is present")
	}
	closeNow(t, third)
}

func TestStoreBelongsToOneClientIdentifier(t *testing.T) {
	memory := store.NewMemory()
	f := newFake(t, server.Hooks{})
	closeNow(t, f.connect(client.Options{ClientID: "one", Store: memory}))
	_, err := client.New("mqtt://fake", f.options(client.Options{ClientID: "two", Store: memory}))
	wantError(t, err, client.ErrInvalidOptions)
	again := f.connect(client.Options{Store: memory})
	if again.ClientID() != "one" {
		t.Errorf("got %q", again.ClientID())
	}
}
