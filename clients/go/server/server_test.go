package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

const testTime = 20 * time.Second

func TestConnectIsTheFirstPacketAndUnique(t *testing.T) {
	ping := &packets.PingReq{}
	for _, version := range []packets.Version{packets.V311, packets.V5} {
		peer := open(t, server.Options{})
		peer.send(ping)
		peer.expectEnd() // [MQTT-3.1.0-1], and no DISCONNECT [MQTT-3.14.0-1].

		peer = open(t, server.Options{})
		peer.connect(version, 0)
		peer.send(ping)
		peer.expect("PINGRESP")
		peer.connectAgain(version)
		if version == packets.V5 {
			peer.expect("DISCONNECT Protocol Error (0x82)")
		}
		peer.expectEnd() // [MQTT-3.1.0-2]
	}
}

func TestErrorsEndAConnectionWithTheirReason(t *testing.T) {
	peer := open(t, server.Options{Hooks: server.Hooks{
		Publish: func(*server.Conn, *packets.Publish) error {
			return &server.Error{Reason: packets.ReasonQuotaExceeded, Err: io.EOF}
		},
	}})
	peer.connect(packets.V5, 0)
	message, _ := packets.NewPublish("a", nil)
	peer.send(message)
	peer.expect("DISCONNECT Quota exceeded (0x97)")
	peer.expectEnd()

	peer = open(t, server.Options{MaximumPacketSize: 20})
	peer.connect(packets.V5, 0)
	message.SetPayload(make([]byte, 20))
	peer.send(message)
	peer.expect("DISCONNECT Packet too large (0x95)")
	peer.expectEnd()

	peer = open(t, server.Options{})
	peer.connect(packets.V5, 0)
	peer.write([]byte{0xFF, 0xFF, 0xFF})
	peer.expect("DISCONNECT Malformed Packet (0x81)")
	peer.expectEnd()
}

func TestRefusedClientsReceiveConnAck(t *testing.T) {
	for name, connect := range map[string]func(*server.Conn, *packets.Connect) (*packets.ConnAck, error){
		"by CONNACK": func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) {
			return packets.NewConnAck(packets.ReasonNotAuthorized)
		},
		"by an error": func(*server.Conn, *packets.Connect) (*packets.ConnAck, error) {
			return nil, &server.Error{Reason: packets.ReasonNotAuthorized}
		},
	} {
		peer := open(t, server.Options{Hooks: server.Hooks{Connect: connect}})
		peer.connectAgain(packets.V5)
		if got := peer.read(); got != "CONNACK Not authorized (0x87)" {
			t.Errorf("%s: got %s", name, got)
		}
		peer.expectEnd()
	}
}

func TestDefaultHandlersFollowTheProtocol(t *testing.T) {
	for _, version := range []packets.Version{packets.V311, packets.V5} {
		peer := open(t, server.Options{})
		peer.connect(version, 0)
		message, _ := packets.NewPublish("a", nil)
		for _, qos := range []packets.QoS{0, 1, 2} {
			_ = message.SetQoS(qos)
			if qos > 0 {
				_ = message.SetPacketID(packets.PacketID(qos))
			}
			peer.send(message)
		}
		peer.expect("PUBACK Success (0x00)")
		peer.expect("PUBREC Success (0x00)")
		release, _ := packets.NewPubRel(2)
		peer.send(release)
		peer.expect("PUBCOMP Success (0x00)")
		subscribe, _ := packets.NewSubscribe(3)
		_ = subscribe.Add("a", packets.SubscriptionOptions{QoS: 2})
		_ = subscribe.Add("b/#", packets.SubscriptionOptions{})
		peer.send(subscribe)
		peer.expect("SUBACK")
		unsubscribe, _ := packets.NewUnsubscribe(4)
		_ = unsubscribe.Add("a")
		peer.send(unsubscribe)
		peer.expect("UNSUBACK")
		received, _ := packets.NewPubRec(5)
		peer.send(received)
		peer.expect("PUBREL Success (0x00)")
		peer.send(&packets.Disconnect{})
		peer.expectEnd()
	}
}

func TestSilentClientIsDisconnected(t *testing.T) {
	closed := make(chan error, 1)
	peer := open(t, server.Options{Hooks: server.Hooks{Closed: func(_ *server.Conn, err error) { closed <- err }}})
	peer.connect(packets.V5, 1)
	peer.expect("DISCONNECT Keep Alive timeout (0x8D)") // [MQTT-3.1.2-22]
	peer.expectEnd()
	var reasoned *server.Error
	if err := <-closed; !errors.As(err, &reasoned) || reasoned.Reason != packets.ReasonKeepAliveTimeout {
		t.Errorf("got %v", err)
	}
	open(t, server.Options{ConnectTimeout: 10 * time.Millisecond}).expectEnd()
}

func TestStalledClientUsesBoundedMemory(t *testing.T) {
	full := make(chan error, 1)
	peer := open(t, server.Options{MaxOutputBytes: 10_000, Hooks: server.Hooks{Connected: func(c *server.Conn) error {
		message, err := packets.NewPublish("a", make([]byte, 1000))
		for err == nil {
			err = c.Send(message)
		}
		full <- err
		return nil
	}}})
	peer.connectAgain(packets.V5)
	if err := <-full; !errors.Is(err, server.ErrOutputFull) {
		t.Errorf("got %v", err)
	}
}

func TestCloseNotifiesClients(t *testing.T) {
	s := server.New(server.Options{})
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(far) }()
	peer := &peer{t: t, conn: near, version: packets.V5}
	peer.connect(packets.V5, 0)
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	peer.expect("DISCONNECT Server shutting down (0x8B)")
	peer.expectEnd()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	<-served
	_, another := net.Pipe()
	if err := s.ServeConn(another); !errors.Is(err, server.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestCloseDoesNotWaitForAHookForever(t *testing.T) {
	called, proceed := make(chan struct{}), make(chan struct{})
	s := server.New(server.Options{Hooks: server.Hooks{Ping: func(*server.Conn, *packets.PingReq) error {
		close(called)
		<-proceed
		return nil
	}}})
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(far) }()
	peer := &peer{t: t, conn: near, version: packets.V5}
	peer.connect(packets.V5, 0)
	peer.send(&packets.PingReq{})
	<-called
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	peer.expectEnd()
	close(proceed)
	<-served
}

func TestServeEndsWithItsContextAndLimitsConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{MaxConnections: 1})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	dial := func() *peer {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return &peer{t: t, conn: conn, version: packets.V5}
	}
	first := dial()
	first.connect(packets.V5, 0)
	dial().expectEnd()
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// Its connections remain open until it is closed.
	first.send(&packets.PingReq{})
	first.expect("PINGRESP")
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// peer is the other end of a connection.
type peer struct {
	t       *testing.T
	conn    net.Conn
	version packets.Version
}

func open(t *testing.T, o server.Options) *peer {
	t.Helper()
	s := server.New(o)
	near, far := net.Pipe()
	go func() { _ = s.ServeConn(far) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = near.Close()
		_ = s.Close(ctx)
	})
	return &peer{t: t, conn: near, version: packets.V5}
}

func (p *peer) connect(version packets.Version, keepAlive uint16) {
	p.t.Helper()
	p.version = version
	connect, _ := packets.NewConnect("one")
	connect.SetKeepAlive(keepAlive)
	p.send(connect)
	p.expect("CONNACK Success (0x00)")
}

func (p *peer) connectAgain(version packets.Version) {
	p.t.Helper()
	p.version = version
	connect, _ := packets.NewConnect("one")
	p.send(connect)
}

func (p *peer) send(packet packets.Packet) {
	p.t.Helper()
	packet.SetVersion(p.version)
	bytes, err := packet.AppendTo(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(bytes)
}

func (p *peer) write(bytes []byte) {
	p.t.Helper()
	_ = p.conn.SetWriteDeadline(time.Now().Add(testTime))
	if _, err := p.conn.Write(bytes); err != nil {
		p.t.Fatal(err)
	}
}

// read describes the next packet, or the end.
func (p *peer) read() string {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(testTime))
	packet, err := packets.ReadPacket(p.conn, packets.Options{Version: p.version})
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return "end"
		}
		return err.Error()
	}
	text := packet.Type().String()
	if reasoned, ok := packet.(interface{ Reason() packets.ReasonCode }); ok {
		text += " " + reasoned.Reason().String()
	}
	return text
}

func (p *peer) expect(want string) {
	p.t.Helper()
	if got := p.read(); got != want {
		p.t.Fatalf("got %s, want %s", got, want)
	}
}

func (p *peer) expectEnd() {
	p.t.Helper()
	p.expect("end")
}
