package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// testTime limits every wait.
const testTime = 30 * time.Second

const (
	qos0 = packets.AtMostOnce
	qos1 = packets.AtLeastOnce
	qos2 = packets.ExactlyOnce
)

var (
	errCut       = errors.New("the test cuts the connection")
	errTakenOver = errors.New("the client identifier is in use by a new connection")
)

func TestMain(m *testing.M) {
	code := m.Run()
	if left := goroutinesLeft(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left after all tests:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// goroutinesLeft returns the stacks of the client's and the server's goroutines, after a grace period.
func goroutinesLeft() string {
	deadline := time.Now().Add(testTime)
	for {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for _, stack := range strings.Split(string(stacks), "\n\n") {
			if strings.Contains(stack, "clients/go/client.") || strings.Contains(stack, "clients/go/server.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		time.Sleep(time.Millisecond)
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// fake is a server whose connections are pipes.
type fake struct {
	t      *testing.T
	server *server.Server
	mutex  sync.Mutex
	down   bool
	dials  int
}

func newFake(t *testing.T, hooks server.Hooks) *fake {
	t.Helper()
	f := &fake{t: t, server: server.New(server.Options{Hooks: hooks})}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = f.server.Close(ctx)
	})
	return f
}

func (f *fake) dial(ctx context.Context) (net.Conn, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.dials++
	if f.down {
		return nil, errors.New("the fake server is down")
	}
	near, far := net.Pipe()
	go func() { _ = f.server.ServeConn(far) }()
	return near, nil
}

// setDown refuses new connections, and cuts existing ones.
func (f *fake) setDown(down bool) {
	f.mutex.Lock()
	f.down = down
	f.mutex.Unlock()
	if down {
		f.cut()
	}
}

func (f *fake) cut() {
	for _, c := range f.server.Connections() {
		c.Abort()
	}
}

func (f *fake) options(o client.Options) client.Options {
	o.Dial = f.dial
	o.Logger = slog.New(slog.DiscardHandler)
	if o.Reconnect.Min == 0 {
		o.Reconnect.Min, o.Reconnect.Max = 10*time.Microsecond, time.Millisecond
	}
	return o
}

// start creates a client, which is closed at the end of the test.
func (f *fake) start(o client.Options) *client.Client {
	f.t.Helper()
	c, err := client.New("mqtt://fake", f.options(o))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { closeNow(f.t, c) })
	return c
}

// connect is start, and waits for the connection.
func (f *fake) connect(o client.Options) *client.Client {
	f.t.Helper()
	c := f.start(o)
	must(f.t, c.AwaitConnection(testContext(f.t)))
	return c
}

func closeNow(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// firstFailure returns the error of the first attempt to connect.
func firstFailure(t *testing.T, address string, o client.Options) error {
	t.Helper()
	c, err := client.Connect(testContext(t), address, o)
	if err == nil {
		closeNow(t, c)
		t.Fatal("it is connected")
	}
	return err
}

// crash closes a client without letting it finish anything.
func crash(c *client.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, code client.Code) *client.Error {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %v", err, code)
	}
	var typed *client.Error
	if !errors.As(err, &typed) {
		t.Fatalf("%T is no *client.Error", err)
	}
	return typed
}

// outcome waits for a published message.
func outcome(ctx context.Context, token *client.Token) error {
	_, err := token.Wait(ctx)
	return err
}

func receive(t *testing.T, s *client.Subscription) *client.Message {
	t.Helper()
	m, err := s.Receive(testContext(t))
	must(t, err)
	return m
}

// await receives from a channel with a time limit.
func await[T any](t *testing.T, channel <-chan T) T {
	t.Helper()
	select {
	case value := <-channel:
		return value
	case <-time.After(testTime):
		t.Fatalf("nothing came within %v", testTime)
		panic("unreachable")
	}
}

// eventually polls until check returns true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(testTime)
	for !check() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, testTime)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// broker is a small broker with sessions, to test delivery. It has one client; it keeps the client's publications, and sends
// the client those of the test. At each step (a packet received, or one to send) it asks whether to cut the connection.
type broker struct {
	mutex sync.Mutex
	// cut is called for each step; it may cut the connection before or after it.
	cut func(step string) (before, after bool)
	// forgets is called at CONNECT and returns whether the session is lost.
	forgets func() bool
	window  int
	conn    *server.Conn
	// ready is the connection on which pending packets have been sent again: new messages follow them.
	ready  *server.Conn
	exists bool
	// published is what the client published and the broker accepted.
	published []string
	opened    map[packets.PacketID]bool
	outbox    []*outboxMessage
	lastID    packets.PacketID
	filters   map[string]packets.QoS
	steps     int
	subscribe int
}

type outboxMessage struct {
	id                 packets.PacketID
	qos                packets.QoS
	topic, payload     string
	attempted, release bool
}

func newBroker() *broker {
	return &broker{
		cut: func(string) (bool, bool) { return false, false }, forgets: func() bool { return false },
		window: 65_535, opened: map[packets.PacketID]bool{}, filters: map[string]packets.QoS{},
	}
}

func (b *broker) hooks() server.Hooks {
	return server.Hooks{
		Connect: b.onConnect, Connected: b.onConnected, Publish: b.onPublish, PubAck: b.onPubAck, PubRec: b.onPubRec,
		PubRel: b.onPubRel, PubComp: b.onPubComp, Subscribe: b.onSubscribe,
		Closed: func(c *server.Conn, _ error) {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			if b.conn == c {
				b.conn = nil
			}
		},
	}
}

// step runs do unless the connection is cut before it. The mutex is held.
func (b *broker) step(c *server.Conn, name string, do func() error) error {
	if b.conn != c {
		// The hook was called before the connection was cut, and had to wait while the client reconnected.
		return errTakenOver
	}
	b.steps++
	before, after := b.cut(name)
	if before {
		c.Abort()
		return errCut
	}
	if err := do(); err != nil {
		return err
	}
	if after {
		return errCut
	}
	return nil
}

func (b *broker) send(c *server.Conn, p packets.Packet, err error) error {
	if err != nil {
		return err
	}
	return b.step(c, "send "+p.Type().String(), func() error { return c.Send(p) })
}

func (b *broker) onConnect(c *server.Conn, p *packets.Connect) (*packets.ConnAck, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	present := b.exists && !p.CleanStart() && !b.forgets()
	if !present {
		clear(b.opened)
		clear(b.filters)
		b.outbox = nil
	}
	b.exists = p.Version() == packets.V5 || !p.CleanStart()
	b.conn = c
	answer, err := packets.NewConnAck(packets.ReasonSuccess)
	if err != nil {
		return nil, err
	}
	if p.Version() == packets.V5 {
		orPanic(answer.SetReceiveMaximum(uint16(b.window)))
	}
	orPanic(answer.SetSessionPresent(present))
	return answer, b.step(c, "CONNECT", func() error { return nil })
}

func orPanic(err error) {
	if err != nil {
		panic(err)
	}
}

func (b *broker) onConnected(c *server.Conn) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.conn != c {
		return errTakenOver
	}
	for _, m := range b.outbox {
		if err := b.transmit(c, m); err != nil {
			return err
		}
	}
	b.ready = c
	return nil
}

func (b *broker) transmit(c *server.Conn, m *outboxMessage) error {
	if m.release {
		rel, err := packets.NewPubRel(m.id)
		return b.send(c, rel, err)
	}
	p, err := packets.NewPublish(m.topic, []byte(m.payload))
	if err != nil {
		return err
	}
	orPanic(p.SetQoS(m.qos))
	if m.qos != qos0 {
		orPanic(p.SetPacketID(m.id))
		orPanic(p.SetDup(m.attempted))
	}
	m.attempted = true
	return b.send(c, p, nil)
}

// publish sends a message to the client.
func (b *broker) publish(topic, payload string, qos packets.QoS) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	m := &outboxMessage{qos: qos, topic: topic, payload: payload}
	if qos != qos0 {
		b.lastID++
		m.id = b.lastID
		b.outbox = append(b.outbox, m)
	}
	if c := b.conn; c != nil && c == b.ready && b.transmit(c, m) != nil {
		c.Abort()
	}
}

func (b *broker) onPublish(c *server.Conn, p *packets.Publish) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	err := b.step(c, "PUBLISH", func() error {
		if p.QoS() != qos2 || !b.opened[p.PacketID()] {
			b.published = append(b.published, string(p.Payload()))
		}
		if p.QoS() == qos2 {
			b.opened[p.PacketID()] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch p.QoS() {
	case qos1:
		ack, err := packets.NewPubAck(p.PacketID())
		return b.send(c, ack, err)
	case qos2:
		rec, err := packets.NewPubRec(p.PacketID())
		return b.send(c, rec, err)
	}
	return nil
}

func (b *broker) onPubRel(c *server.Conn, p *packets.PubRel) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	err := b.step(c, "PUBREL", func() error {
		delete(b.opened, p.PacketID())
		return nil
	})
	if err != nil {
		return err
	}
	comp, err := packets.NewPubComp(p.PacketID())
	return b.send(c, comp, err)
}

func (b *broker) onPubAck(c *server.Conn, p *packets.PubAck) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.step(c, "PUBACK", func() error { return b.finish(p.PacketID(), qos1) })
}

func (b *broker) onPubRec(c *server.Conn, p *packets.PubRec) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	err := b.step(c, "PUBREC", func() error {
		for _, m := range b.outbox {
			if m.id == p.PacketID() {
				m.release = true
				return nil
			}
		}
		return fmt.Errorf("PUBREC without a message: %d", p.PacketID())
	})
	if err != nil {
		return err
	}
	rel, err := packets.NewPubRel(p.PacketID())
	return b.send(c, rel, err)
}

func (b *broker) onPubComp(c *server.Conn, p *packets.PubComp) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.step(c, "PUBCOMP", func() error { return b.finish(p.PacketID(), qos2) })
}

func (b *broker) finish(id packets.PacketID, qos packets.QoS) error {
	for at, m := range b.outbox {
		if m.id == id && m.qos == qos {
			b.outbox = slices.Delete(b.outbox, at, at+1)
			return nil
		}
	}
	return fmt.Errorf("acknowledgement without a message: %d", id)
}

func (b *broker) onSubscribe(c *server.Conn, p *packets.Subscribe) error {
	b.mutex.Lock()
	for filter, options := range p.Requests() {
		b.filters[filter] = options.QoS
	}
	b.subscribe++
	b.mutex.Unlock()
	return server.Grant(c, p)
}

func (b *broker) state() (published []string, undelivered int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return slices.Clone(b.published), len(b.outbox)
}
