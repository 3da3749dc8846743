package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

func TestCanceledContextSendsNothing(t *testing.T) {
	var mutex sync.Mutex
	var came []string
	note := func(what string) {
		mutex.Lock()
		defer mutex.Unlock()
		came = append(came, what)
	}
	f := newFake(t, server.Hooks{
		Publish: func(c *server.Conn, p *packets.Publish) error {
			note("PUBLISH " + p.Topic())
			return server.Acknowledge(c, p)
		},
		Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
			note("SUBSCRIBE")
			return server.Grant(c, p)
		},
	})
	c := f.connect(client.Options{})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		for _, qos := range []packets.QoS{qos0, qos1, qos2} {
			wantError(t, c.Publish(ended, client.Publication{Topic: "a", QoS: qos}), client.ErrCanceled)
			_, err := c.PublishAsync(ended, client.Publication{Topic: "a", QoS: qos})
			wantError(t, err, client.ErrCanceled)
		}
		_, err := c.Subscribe(ended, "a", client.SubscribeOptions{})
		wantError(t, err, client.ErrCanceled)
		_, err = c.Request(ended, client.Publication{Topic: "a"})
		if !errors.Is(wantError(t, err, client.ErrCanceled), context.Canceled) {
			t.Errorf("%v does not wrap the context's error", err)
		}
	}
	must(t, c.Publish(testContext(t), client.Publication{Topic: "fence", QoS: qos1}))
	mutex.Lock()
	defer mutex.Unlock()
	if !slices.Equal(came, []string{"PUBLISH fence"}) {
		t.Errorf("got %q", came)
	}
}

// Close with a context other than the handler's own returns at once, and the handler's message is acknowledged.
func TestHandlerCanCloseClient(t *testing.T) {
	for _, inContext := range []string{"background", "handler's", "ended"} {
		acknowledged := make(chan packets.PacketID, 1)
		f := newFake(t, server.Hooks{
			Subscribe: func(c *server.Conn, p *packets.Subscribe) error {
				message, err := packets.NewPublish("stop", nil)
				orPanic(errors.Join(err, message.SetQoS(qos1), message.SetPacketID(7)))
				return errors.Join(server.Grant(c, p), c.Send(message))
			},
			PubAck: func(_ *server.Conn, p *packets.PubAck) error { acknowledged <- p.PacketID(); return nil },
		})
		c := f.connect(client.Options{Timeouts: client.Timeouts{Close: 2 * testTime}})
		closed := make(chan error, 2)
		_, err := c.Handle(testContext(t), "stop", client.SubscribeOptions{QoS: qos1}, func(ctx context.Context, _ *client.Message) {
			switch inContext {
			case "background":
				ctx = context.Background()
			case "ended":
				ended, cancel := context.WithCancel(ctx)
				cancel()
				ctx = ended
			}
			closed <- c.Close(ctx)
			closed <- c.Close(ctx)
		})
		must(t, err)
		must(t, await(t, closed))
		must(t, await(t, closed))
		await(t, c.Done())
		must(t, c.Err())
		must(t, c.Close(testContext(t)))
		if inContext != "ended" {
			if id := await(t, acknowledged); id != 7 {
				t.Errorf("%d was acknowledged", id)
			}
		}
	}
}

// From any depth of calls in its handler, with any context.
func TestNestedHandlerCanCloseClient(t *testing.T) {
	f := echo(t)
	c := f.connect(client.Options{Timeouts: client.Timeouts{Close: 2 * testTime}})
	closed := make(chan error, 1)
	var dive func(depth int)
	dive = func(depth int) {
		if depth == 0 {
			closed <- c.Close(context.Background())
			return
		}
		dive(depth - 1)
	}
	_, err := c.Handle(testContext(t), "stop", client.SubscribeOptions{}, func(context.Context, *client.Message) { dive(100) })
	must(t, err)
	must(t, c.Publish(testContext(t), client.Publication{Topic: "stop"}))
	must(t, await(t, closed))
	await(t, c.Done())
}

// Close of another client, from a handler or from a goroutine that a handler has started, returns after that client is
// closed.
func TestCloseWaitsUnlessCalledFromAHandler(t *testing.T) {
	ctx := testContext(t)
	f := echo(t)
	from, to := f.connect(client.Options{}), f.connect(client.Options{})
	ignore := func(context.Context, *client.Message) {}
	_, err := to.Handle(ctx, "to", client.SubscribeOptions{}, ignore)
	must(t, err)
	isOver := make(chan bool, 1)
	closeAndLook := func(c *client.Client) {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		select {
		case <-c.Done():
			isOver <- true
		default:
			isOver <- false
		}
	}
	_, err = from.Handle(ctx, "other", client.SubscribeOptions{}, func(context.Context, *client.Message) { closeAndLook(to) })
	must(t, err)
	_, err = from.Handle(ctx, "own", client.SubscribeOptions{}, func(context.Context, *client.Message) {
		go closeAndLook(from)
		// Until Close waits for this handler.
		for err := error(nil); !errors.Is(err, client.ErrClosed); {
			_, err = from.Subscribe(ctx, "another", client.SubscribeOptions{})
		}
	})
	must(t, err)
	for _, topic := range []string{"other", "own"} {
		must(t, from.Publish(ctx, client.Publication{Topic: topic}))
		if !await(t, isOver) {
			t.Errorf("%s: Close returned before the client was closed", topic)
		}
	}
}

func TestEventHandlerCanCloseClient(t *testing.T) {
	f := newFake(t, server.Hooks{})
	closed := make(chan error, 1)
	clients := make(chan *client.Client, 1)
	c := f.start(client.Options{Timeouts: client.Timeouts{Close: 2 * testTime}, OnConnect: func(client.ServerInfo) {
		closed <- (<-clients).Close(context.Background())
	}})
	clients <- c
	must(t, await(t, closed))
	await(t, c.Done())
}

func TestConnectReportsTheFirstFailure(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	closedPort := "mqtt://" + listener.Addr().String()
	must(t, listener.Close())
	e := wantError(t, firstFailure(t, closedPort, client.Options{}), client.ErrUnreachable)
	if !strings.Contains(e.Error(), strings.TrimPrefix(closedPort, "mqtt://")) {
		t.Errorf("%q does not name the address", e)
	}
	unknown := client.Options{Dial: func(context.Context) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}
	}}
	wantError(t, firstFailure(t, "mqtt://nowhere.invalid", unknown), client.ErrNameNotFound)
	for code, connect := range map[client.Code]func(*server.Conn) (*packets.ConnAck, error){
		client.ErrHandshake:      func(c *server.Conn) (*packets.ConnAck, error) { c.Abort(); return nil, errCut },
		client.ErrConnectTimeout: func(*server.Conn) (*packets.ConnAck, error) { <-t.Context().Done(); return nil, nil },
		client.ErrProtocol:       func(c *server.Conn) (*packets.ConnAck, error) { return nil, c.SendRaw([]byte{0xD0, 0}) },
		client.ErrConnectionRefused: func(*server.Conn) (*packets.ConnAck, error) {
			return packets.NewConnAck(packets.ReasonServerBusy)
		},
		client.ErrUnsupportedProtocolVersion: func(*server.Conn) (*packets.ConnAck, error) {
			return packets.NewConnAck(packets.ReasonUnsupportedProtocolVersion)
		},
		client.ErrRedirected: func(*server.Conn) (*packets.ConnAck, error) { return packets.NewConnAck(packets.ReasonServerMoved) },
	} {
		f := newFake(t, server.Hooks{Connect: func(c *server.Conn, _ *packets.Connect) (*packets.ConnAck, error) { return connect(c) }})
		o := f.options(client.Options{Timeouts: client.Timeouts{Connect: testTime}})
		if code == client.ErrConnectTimeout {
			o.Timeouts.Connect = 50 * time.Millisecond
		}
		o.OnAttemptFailed = func(err error) { t.Errorf("%s: it is going to try again after %v", code, err) }
		wantError(t, firstFailure(t, "mqtt://fake", o), code)
		if f.dials != 1 {
			t.Errorf("%s: %d attempts", code, f.dials)
		}
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	f := newFake(t, server.Hooks{Connect: func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) { <-t.Context().Done(); return nil, nil }})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := client.Connect(ctx, "mqtt://fake", f.options(client.Options{}))
	if !errors.Is(wantError(t, err, client.ErrCanceled), context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestNewKeepsRetryingAndReports(t *testing.T) {
	f := newFake(t, server.Hooks{})
	f.setDown(true)
	failures, losses := make(chan error, 3), make(chan error, 1000)
	var log safeBuffer
	o := f.options(client.Options{
		OnAttemptFailed: func(err error) {
			select {
			case failures <- err:
			default:
			}
		},
		OnDisconnect: func(err error) { losses <- err },
		Username:     "user", Password: []byte("secret"),
	})
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c, err := client.New("mqtt://fake", o)
	must(t, err)
	defer closeNow(t, c)
	for range 3 {
		wantError(t, await(t, failures), client.ErrUnreachable)
	}
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err = c.AwaitConnection(short)
	wantError(t, err, client.ErrCanceled)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("%v does not wrap the last attempt", err)
	}
	f.setDown(false)
	must(t, c.AwaitConnection(testContext(t)))
	if len(losses) != 0 {
		t.Errorf("got %v", <-losses)
	}
	f.cut()
	wantError(t, await(t, losses), client.ErrConnectionLost)
	if said := log.String(); !strings.Contains(said, "[unreachable]") || !strings.Contains(said, "[connection_lost]") || strings.Contains(said, "secret") {
		t.Errorf("the log says %s", said)
	}
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mutex sync.Mutex
	inner bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.inner.Write(p)
}

func (b *safeBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.inner.String()
}

// A context with a cause set by the application still counts as ended.
func TestApplicationCauseIsWrapped(t *testing.T) {
	cause := errors.New("the user has left")
	c := echo(t).connect(client.Options{})
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	past, end := context.WithDeadlineCause(context.Background(), time.Now(), cause)
	defer end()
	late, end := context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
	defer end()
	sub, err := c.Subscribe(testContext(t), "a", client.SubscribeOptions{})
	must(t, err)
	_, received := sub.Receive(canceled)
	_, tooLate := c.RequestAtMostOnce(past, client.Publication{Topic: "nobody"})
	_, asked := c.RequestAtMostOnce(late, client.Publication{Topic: "nobody"})
	for _, each := range []struct {
		err  error
		code client.Code
		ctx  error
	}{
		{c.Publish(canceled, client.Publication{Topic: "a"}), client.ErrCanceled, context.Canceled},
		{received, client.ErrCanceled, context.Canceled},
		{tooLate, client.ErrRequestTimeout, context.DeadlineExceeded},
		{asked, client.ErrRequestTimeout, context.DeadlineExceeded},
	} {
		wantError(t, each.err, each.code)
		if !errors.Is(each.err, each.ctx) || !errors.Is(each.err, cause) {
			t.Errorf("%v wraps not both %v and %v", each.err, each.ctx, cause)
		}
	}
}

func TestInvalidAddressesAreRefusedWithAHint(t *testing.T) {
	for address, hint := range map[string]string{
		"127.0.0.1:1883":                 `write "mqtt://127.0.0.1:1883"`,
		"localhost":                      `write "mqtt://localhost"`,
		"broker.example:1883":            `write "mqtt://broker.example:1883"`,
		"http://host":                    `the scheme "http" is not mqtt, mqtts, ws or wss`,
		"mqtt://":                        "write mqtt://HOST:PORT",
		"mqtt://[::1":                    "is not a URL",
		"mqtt://host:65536":              "the port 65536 is not in 1 to 65535",
		"mqtt://host:0":                  "the port 0 is not in 1 to 65535",
		"mqtt://host/mqtt":               "only ws:// and wss:// addresses have a path",
		"mqtt://host?a=b":                "only ws:// and wss:// addresses have a path",
		"mqtt://user:secret@host":        "Options.Password",
		"mqtt://user:sec/secret@host":    "write mqtt://HOST:PORT",
		"mqtt://user:%zzsecret@host":     "write mqtt://HOST:PORT",
		"user:secret@host:1883":          "write mqtt://HOST:PORT",
		"http://user:secret@host":        `the scheme "http" is not`,
		"mqtt://user:secret secret@host": "write mqtt://HOST:PORT",
	} {
		_, err := client.New(address, client.Options{})
		if said := wantError(t, err, client.ErrInvalidOptions).Error(); !strings.Contains(said, hint) || strings.Contains(said, "secret") {
			t.Errorf("%q: %s", address, said)
		}
	}
}

func TestTLSIsNeverSilentlyDisabled(t *testing.T) {
	for _, scheme := range []string{"mqtt", "tcp", "ws"} {
		_, err := client.New(scheme+"://host", client.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS13}})
		wantError(t, err, client.ErrInvalidOptions)
	}
}

func TestUnrequestedSessionEndsWithTheClient(t *testing.T) {
	for _, each := range []struct {
		name          string
		options       client.Options
		expiry        uint32
		isClean, ends bool
	}{
		{"5.0", client.Options{ClientID: "one"}, 300, true, true},
		{"5.0 with an expiry", client.Options{ClientID: "one", SessionExpiry: time.Minute}, 60, true, false},
		{"5.0 that resumes", client.Options{ClientID: "one", Resume: true}, 300, false, false},
		{"5.0 without a session", client.Options{ClientID: "one", SessionExpiry: client.NoSession}, 0, true, false},
		{"3.1.1", client.Options{Version: packets.V311, ClientID: "one"}, 0, true, false},
		{"3.1.1 with an expiry", client.Options{Version: packets.V311, ClientID: "one", SessionExpiry: time.Minute}, 0, false, false},
		{"3.1.1 without a name", client.Options{Version: packets.V311, SessionExpiry: time.Minute}, 0, true, false},
	} {
		connects, goodbyes := make(chan *packets.Connect, 1), make(chan *packets.Disconnect, 1)
		f := newFake(t, server.Hooks{
			Connect: func(_ *server.Conn, p *packets.Connect) (*packets.ConnAck, error) {
				connects <- p.Clone()
				return packets.NewConnAck(packets.ReasonSuccess)
			},
			Disconnect: func(_ *server.Conn, p *packets.Disconnect) { goodbyes <- p.Clone() },
		})
		closeNow(t, f.connect(each.options))
		connect, goodbye := await(t, connects), await(t, goodbyes)
		expiry, ends := goodbye.SessionExpiryInterval()
		if connect.SessionExpiryInterval() != each.expiry || connect.CleanStart() != each.isClean || ends != each.ends || expiry != 0 {
			t.Errorf("%s: %v, %v", each.name, connect, goodbye)
		}
	}
}

// Each handler gets its own copy.
func TestHandlersDoNotShareMessages(t *testing.T) {
	ctx := testContext(t)
	c := echo(t).connect(client.Options{})
	got := make(chan string, 2)
	for range 2 {
		_, err := c.Handle(ctx, "a", client.SubscribeOptions{QoS: qos1}, func(_ context.Context, m *client.Message) {
			payload := m.Payload()
			got <- string(payload)
			clear(payload)
		})
		must(t, err)
	}
	var turn atomic.Int64
	_, err := c.Handle(ctx, "+", client.SubscribeOptions{QoS: qos1}, func(_ context.Context, m *client.Message) {
		clear(m.Payload())
		turn.Add(1)
	})
	must(t, err)
	for range 50 {
		must(t, c.Publish(ctx, client.Publication{Topic: "a", Payload: []byte("whole"), QoS: qos1}))
		for range 2 {
			if payload := await(t, got); payload != "whole" {
				t.Fatalf("got %q", payload)
			}
		}
	}
}

func TestTokenReportsItsResult(t *testing.T) {
	ctx := testContext(t)
	gate := make(chan struct{})
	f := newFake(t, server.Hooks{Publish: func(c *server.Conn, p *packets.Publish) error {
		if p.QoS() == qos0 {
			return nil
		}
		<-gate
		ack, err := packets.NewPubAck(p.PacketID())
		reason := map[string]packets.ReasonCode{"nobody": packets.ReasonNoMatchingSubscribers, "full": packets.ReasonQuotaExceeded}
		orPanic(errors.Join(err, ack.SetReason(reason[p.Topic()])))
		return c.Send(ack)
	}})
	c := f.connect(client.Options{})
	publish := func(topic string, qos packets.QoS) *client.Token {
		token, err := c.PublishAsync(ctx, client.Publication{Topic: topic, QoS: qos})
		must(t, err)
		return token
	}
	plain := publish("plain", qos0)
	await(t, plain.Done())
	nobody, full := publish("nobody", qos1), publish("full", qos1)
	select {
	case <-nobody.Done():
		t.Error("it is done before the acknowledgement")
	default:
	}
	must(t, nobody.Err())
	close(gate)
	if reason, err := nobody.Wait(ctx); reason != packets.ReasonNoMatchingSubscribers || err != nil {
		t.Errorf("got %v, %v", reason, err)
	}
	await(t, full.Done())
	if e := wantError(t, full.Err(), client.ErrPublishRefused); e.Reason != packets.ReasonQuotaExceeded {
		t.Errorf("got %v", e)
	}
	if reason, err := full.Wait(ctx); reason != packets.ReasonQuotaExceeded || err == nil {
		t.Errorf("got %v, %v", reason, err)
	}
}

// Callers that wait for room are woken when there is much of it, and all of them get room.
func TestFullQueueDrains(t *testing.T) {
	ctx := testContext(t)
	b := newBroker()
	f := newFake(t, b.hooks())
	c := f.connect(client.Options{Limits: client.Limits{MaxQueuedMessages: 8, MaxInFlight: 2}})
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 100 {
				if _, err := c.PublishAsync(ctx, client.Publication{Topic: "a", QoS: qos1}); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	all.Wait()
	closeNow(t, c)
	if published, _ := b.state(); len(published) != 400 {
		t.Errorf("%d arrived", len(published))
	}
}
