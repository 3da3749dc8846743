package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tautwire/tautwire/clients/go/packets"
)

const (
	readBufferBytes = 16 * 1024
	keptBufferBytes = 256 * 1024
	// closeTimeout limits the wait for a client to read the remaining output before the connection is closed.
	closeTimeout = time.Second
)

// Conn is a connection of a client. Its methods may be called from any goroutine.
type Conn struct {
	// Value is for the application. The server does not use it.
	Value any

	server  *Server
	conn    net.Conn
	connect *packets.Connect
	version packets.Version

	mutex  sync.Mutex
	output []byte
	// finishing: no more output is accepted. failed: the connection has ended.
	finishing bool
	failed    bool
	// accepted says that CONNACK was sent; before that there is no DISCONNECT [MQTT-3.14.0-1].
	accepted bool
	wake     chan struct{}
	stop     chan struct{}
	once     sync.Once
}

func newConn(s *Server, conn net.Conn) *Conn {
	return &Conn{server: s, conn: conn, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// RemoteAddr returns the client's network address.
func (c *Conn) RemoteAddr() net.Addr { return c.transport().RemoteAddr() }

func (c *Conn) transport() net.Conn {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.conn
}

// wrap adds TLS or WebSocket to the connection.
func (c *Conn) wrap(conn net.Conn) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.conn = conn
}

// ClientID returns the client identifier of CONNECT; empty before that.
func (c *Conn) ClientID() string {
	if connect := c.Connect(); connect != nil {
		return connect.ClientID()
	}
	return ""
}

// Connect returns the client's CONNECT, which must not be modified; nil before it arrives.
func (c *Conn) Connect() *packets.Connect {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.connect
}

// Version returns the protocol version of the client.
func (c *Conn) Version() packets.Version {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.version
}

// Send queues packets to be written together. It does not block: it returns [ErrOutputFull] if the client does not read its
// output, [net.ErrClosed] if the connection has ended, or the error of a packet that is not well formed in the client's version.
// It queues either all packets or none.
func (c *Conn) Send(all ...packets.Packet) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.send(all...)
}

// send is Send with the mutex held.
func (c *Conn) send(all ...packets.Packet) error {
	start := len(c.output)
	for _, p := range all {
		p.SetVersion(c.version)
		output, err := p.AppendTo(c.output)
		if err != nil {
			c.output = c.output[:start]
			return err
		}
		c.output = output
	}
	return c.queued(start)
}

// SendRaw queues raw bytes, such as packets that are not well formed, for tests.
func (c *Conn) SendRaw(bytes []byte) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	start := len(c.output)
	c.output = append(c.output, bytes...)
	return c.queued(start)
}

// queued keeps the bytes appended from start on, if they may be sent. The mutex is held.
func (c *Conn) queued(start int) error {
	switch {
	case c.failed || c.finishing:
		c.output = c.output[:start]
		return net.ErrClosed
	case start > 0 && len(c.output) > c.server.options.MaxOutputBytes:
		c.output = c.output[:start]
		return ErrOutputFull
	}
	c.signal()
	return nil
}

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Close sends the queued packets, then DISCONNECT with the reason to a client of 5.0, and ends the connection. It does not
// block.
func (c *Conn) Close(reason packets.ReasonCode) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.finishing || c.failed {
		return
	}
	if c.accepted && c.version == packets.V5 {
		if disconnect, err := packets.NewDisconnect(reason); err == nil {
			c.output, _ = disconnect.AppendTo(c.output)
		}
	}
	c.finishing = true
	// A client that does not read must not delay the end.
	_ = c.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	_ = c.conn.SetReadDeadline(time.Now())
	c.signal()
}

// Abort cuts the connection without DISCONNECT. It does not wait for a running hook: code that takes over a session
// [MQTT-3.1.4-3] waits for [Hooks.Closed] of the older connection, or ignores later calls of its hooks.
func (c *Conn) Abort() {
	c.mutex.Lock()
	c.failed = true
	conn := c.conn
	c.mutex.Unlock()
	c.once.Do(func() {
		close(c.stop)
		_ = conn.Close()
	})
}

// run serves the connection until it ends.
func (c *Conn) run() error {
	written := make(chan struct{})
	defer func() { <-written }()
	defer c.Abort()
	go func() {
		defer close(written)
		c.write()
	}()
	if err := c.await(c.server.options.ConnectTimeout); err != nil {
		return err
	}
	reader := packets.NewReader(bufio.NewReaderSize(c.conn, readBufferBytes), packets.Options{
		MaxPacketSize: uint32(min(c.server.options.MaximumPacketSize, packets.MaxPacketSize)),
	})
	first, err := reader.Next()
	if err != nil {
		return fmt.Errorf("server: before CONNECT: %w", err)
	}
	connect, ok := first.(*packets.Connect)
	if !ok {
		// [MQTT-3.1.0-1]
		return &Error{Reason: packets.ReasonProtocolError, Err: fmt.Errorf("%v before CONNECT", first.Type())}
	}
	connect = connect.Clone()
	c.mutex.Lock()
	c.connect, c.version = connect, connect.Version()
	c.mutex.Unlock()
	limits := reader.Options()
	limits.Version = connect.Version()
	reader.SetOptions(limits)
	err = c.serve(connect, reader)
	c.end(err)
	<-written
	c.server.options.Hooks.Closed(c, err)
	return err
}

func (c *Conn) serve(connect *packets.Connect, reader *packets.Reader) error {
	hooks := &c.server.options.Hooks
	connAck, err := hooks.Connect(c, connect)
	if err != nil || connAck == nil {
		var refusal *Error
		if errors.As(err, &refusal) {
			if connAck, _ = packets.NewConnAck(refusal.Reason); connAck != nil {
				_ = c.Send(connAck)
			}
		}
		return err
	}
	// Both with the mutex held: Close sends DISCONNECT only after CONNACK.
	c.mutex.Lock()
	err = c.send(connAck)
	c.accepted = err == nil && connAck.Reason() == packets.ReasonSuccess
	c.mutex.Unlock()
	if err != nil {
		return err
	}
	if connAck.Reason() != packets.ReasonSuccess {
		// [MQTT-3.2.2-7]
		return &Error{Reason: connAck.Reason()}
	}
	if err := hooks.Connected(c); err != nil {
		return err
	}
	// [MQTT-3.1.2-22]
	patience := time.Duration(connect.KeepAlive()) * time.Second * 3 / 2
	if keepAlive, ok := connAck.ServerKeepAlive(); ok {
		patience = time.Duration(keepAlive) * time.Second * 3 / 2
	}
	for {
		if err := c.await(patience); err != nil {
			return err
		}
		p, err := reader.Next()
		if err != nil {
			return c.readError(err)
		}
		if disconnect, ok := p.(*packets.Disconnect); ok {
			hooks.Disconnect(c, disconnect)
			return nil
		}
		if err := c.handle(p); err != nil {
			return err
		}
	}
}

// await sets the deadline for the next packet, unless the connection is being closed.
func (c *Conn) await(patience time.Duration) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.finishing || c.failed {
		return net.ErrClosed
	}
	deadline := time.Time{}
	if patience > 0 {
		deadline = time.Now().Add(patience)
	}
	return c.conn.SetReadDeadline(deadline)
}

func (c *Conn) readError(err error) error {
	c.mutex.Lock()
	closing := c.finishing
	c.mutex.Unlock()
	var malformed *packets.Error
	var timeout net.Error
	switch {
	case closing:
		return net.ErrClosed
	case errors.Is(err, io.ErrUnexpectedEOF):
	case errors.As(err, &malformed):
		return &Error{Reason: malformed.Reason(), Err: err}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Reason: packets.ReasonKeepAliveTimeout, Err: err}
	case errors.Is(err, io.EOF):
		return fmt.Errorf("server: the client left without DISCONNECT: %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("server: read: %w", err)
}

func (c *Conn) handle(p packets.Packet) error {
	hooks := &c.server.options.Hooks
	switch p := p.(type) {
	case *packets.Publish:
		return hooks.Publish(c, p)
	case *packets.PubAck:
		return hooks.PubAck(c, p)
	case *packets.PubRec:
		return hooks.PubRec(c, p)
	case *packets.PubRel:
		return hooks.PubRel(c, p)
	case *packets.PubComp:
		return hooks.PubComp(c, p)
	case *packets.Subscribe:
		return hooks.Subscribe(c, p)
	case *packets.Unsubscribe:
		return hooks.Unsubscribe(c, p)
	case *packets.PingReq:
		return hooks.Ping(c, p)
	case *packets.Auth:
		return hooks.Auth(c, p)
	}
	// A second CONNECT [MQTT-3.1.0-2], or a packet that only servers send.
	return &Error{Reason: packets.ReasonProtocolError, Err: fmt.Errorf("unexpected %v", p.Type())}
}

// end closes the connection with the reason of an error.
func (c *Conn) end(err error) {
	var reasoned *Error
	if errors.As(err, &reasoned) {
		c.Close(reasoned.Reason)
		return
	}
	c.mutex.Lock()
	c.finishing = true
	_ = c.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	c.signal()
	c.mutex.Unlock()
}

// write sends all queued output with one call, while more accumulates.
func (c *Conn) write() {
	var spare []byte
	for {
		c.mutex.Lock()
		output, finishing := c.output, c.finishing
		c.output = spare[:0]
		if len(output) > 0 && !finishing {
			_ = c.conn.SetWriteDeadline(time.Now().Add(c.server.options.WriteTimeout))
		}
		c.mutex.Unlock()
		if len(output) > 0 {
			if _, err := c.conn.Write(output); err != nil {
				c.Abort()
				return
			}
			if spare = output; cap(spare) > keptBufferBytes {
				spare = nil
			}
			continue
		}
		spare = output
		if finishing {
			c.Abort()
			return
		}
		select {
		case <-c.wake:
		case <-c.stop:
			return
		}
	}
}
