package client

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

const (
	// readBufferBytes is the size of the read buffer.
	readBufferBytes = 32 * 1024
	// keptBufferBytes is the capacity above which an output buffer is not reused.
	keptBufferBytes = 1024 * 1024
	// goodbyeTimeout limits the wait for the connection to accept DISCONNECT.
	goodbyeTimeout = time.Second
	// lazySync is the maximum time that a change stays unsynced if no output depends on it.
	lazySync = 100 * time.Millisecond
)

// connection is one network connection with a reader and a writer.
type connection struct {
	client *Client
	conn   net.Conn
	wake   chan struct{}
	// stop is closed to end the connection, ended when both goroutines have ended.
	stop, ended chan struct{}
	once        sync.Once
	err         error

	// These are guarded by the client's mutex. idle: the writer waits. syncAt: when it syncs the store although no output
	// depends on it; zero for never. last: the last output, after which the connection ends with the error farewell.
	idle     bool
	syncAt   time.Time
	last     []byte
	farewell error

	// Used only by the reader.
	reader *packets.Reader
	// head holds the first bytes from the server, enough for a CONNACK of 3.1.1.
	head    []byte
	aliases *session.IncomingAliases
	// hasToldUnrouted: a message without a subscription has been logged.
	hasToldUnrouted bool
	router          router
	// receivedAt is the time of the last received bytes, in nanoseconds since opened.
	opened     time.Time
	receivedAt atomic.Int64
	readPaused atomic.Bool
}

// connect makes a connection and serves it until it ends. served reports whether the server accepted it.
func (c *Client) connect() (served bool, err error) {
	ctx, cancel := context.WithTimeout(c.life, c.options.Timeouts.Connect)
	defer cancel()
	c.log.Debug("mqtt: connecting")
	clean := !c.keepsSession() || c.options.Version == packets.V5 && !c.knowsSession()
	n, connAck, info, err := c.open(ctx, clean)
	if err == nil && c.options.Version != packets.V5 && info.SessionPresent && !c.knowsSession() {
		// Before 5.0 a clean session also ends with its connection. So a leftover session is discarded by a separate
		// connection, and a new one is started [MQTT-3.2.2-4].
		n.leaveAtOnce()
		if n, _, _, err = c.open(ctx, true); err == nil {
			n.leaveAtOnce()
			n, connAck, info, err = c.open(ctx, false)
		}
	}
	if err != nil {
		return false, err
	}
	cancel()
	defer n.end(errors.New("the attempt was abandoned"))
	n.aliases = session.NewIncomingAliases(uint16(c.options.Limits.TopicAliasMaximum))
	n.router.init()
	if err := c.begin(n, connAck, info); err != nil {
		return false, err
	}
	n.serve(info)
	return true, n.err
}

// open dials and performs the handshake.
func (c *Client) open(ctx context.Context, clean bool) (*connection, *packets.ConnAck, ServerInfo, error) {
	conn, err := dial(ctx, c.target, &c.options)
	if err != nil {
		return nil, nil, ServerInfo{}, c.dialFailure(ctx, err)
	}
	if conn == nil {
		return nil, nil, ServerInfo{}, failure(ErrInvalidOptions, "connect", "Options.Dial returned neither a connection nor an error")
	}
	n := &connection{
		client: c, conn: conn, opened: time.Now(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	n.reader = packets.NewReader(bufio.NewReaderSize(counted{n}, readBufferBytes), packets.Options{
		Version: c.options.Version, MaxPacketSize: uint32(c.options.Limits.MaximumPacketSize),
	})
	connAck, info, err := n.handshake(ctx, clean)
	if err != nil {
		n.end(err)
		return nil, nil, info, err
	}
	return n, connAck, info, nil
}

// leaveAtOnce sends DISCONNECT on a connection that was not started, so that no will is published.
func (n *connection) leaveAtOnce() {
	disconnect := &packets.Disconnect{}
	disconnect.SetVersion(n.client.options.Version)
	_ = n.conn.SetWriteDeadline(time.Now().Add(goodbyeTimeout))
	_, _ = disconnect.WriteTo(n.conn)
	n.end(errors.New("the connection only discarded a session"))
}

// begin attaches the connection to the session.
func (c *Client) begin(n *connection, connAck *packets.ConnAck, info ServerInfo) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.life.Err() != nil {
		return closedError("connect", nil)
	}
	limits := session.Limits{
		ReceiveMaximum: info.ReceiveMaximum, MaximumQoS: info.MaximumQoS, RetainAvailable: info.RetainAvailable,
		MaximumPacketSize: info.MaximumPacketSize, TopicAliasMaximum: int(connAck.TopicAliasMaximum()),
	}
	c.clientID = info.ClientID
	c.session.Connected(info.ClientID, info.SessionPresent, limits, time.Now())
	c.current = n
	c.renewSubscriptions(info.SessionPresent)
	c.stats.connects.Add(1)
	c.stats.server.Store(&info)
	c.broadcast()
	c.log.Info("mqtt: connected", "session_present", info.SessionPresent, "version", c.options.Version)
	if call := c.options.OnConnect; call != nil {
		c.events.add(func() { call(info) })
	}
	return nil
}

func (n *connection) serve(info ServerInfo) {
	c := n.client
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		defer both.Done()
		n.write(session.NewKeepAlive(info.KeepAlive, c.options.Timeouts.Ping, time.Now()))
	}()
	go func() {
		defer both.Done()
		n.end(n.read())
	}()
	select {
	case <-n.stop:
	case <-c.life.Done():
		n.end(context.Cause(c.life))
	}
	both.Wait()
	c.mutex.Lock()
	if c.current == n {
		c.current = nil
		c.session.Disconnected()
		c.forgetRequests()
	}
	c.broadcast()
	c.mutex.Unlock()
	close(n.ended)
}

// end closes the connection. Only the first error counts.
func (n *connection) end(err error) {
	n.once.Do(func() {
		n.err = err
		close(n.stop)
		_ = n.conn.Close()
	})
}

// finish makes a packet the last one that is sent. The client's mutex is held.
func (n *connection) finish(last *packets.Disconnect, err error) {
	c := n.client
	if c.current != n {
		return
	}
	if last.WellFormed() == nil {
		_ = c.session.Append(last)
	}
	n.last, _ = c.session.TakeOutput(nil, time.Now())
	n.farewell = err
	if n.last == nil {
		n.last = []byte{}
	}
	c.current = nil
	c.session.Disconnected()
	c.forgetRequests()
	// A write that the server does not accept must not delay the end.
	_ = n.conn.SetWriteDeadline(time.Now().Add(goodbyeTimeout))
	signal(n.wake)
}

// write is the writer. It sends all pending output with one call, while more accumulates.
func (n *connection) write(alive session.KeepAlive) {
	c := n.client
	var buffer []byte
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	received := int64(0)
	for {
		now := time.Now()
		if at := n.receivedAt.Load(); at != received {
			received = at
			alive.Received(n.opened.Add(time.Duration(at)))
		}
		c.mutex.Lock()
		if n.last != nil {
			last, farewell := n.last, n.farewell
			c.mutex.Unlock()
			n.writeLast(last)
			n.end(farewell)
			return
		}
		ping, lost := alive.Check(now)
		if lost && !n.readPaused.Load() {
			c.mutex.Unlock()
			n.end(failure(ErrKeepAliveTimeout, "connection", "%v", c.options.Timeouts.Ping))
			return
		}
		if ping {
			_ = c.session.Append(pingReq(c.options.Version)) // [MQTT-3.1.2-20]
		}
		if !c.session.HasOutput() {
			wait := untilNext(&alive, now)
			if c.session.IsUnsynced() {
				if n.syncAt.IsZero() {
					n.syncAt = now.Add(lazySync)
				}
				wait = min(wait, n.syncAt.Sub(now))
			}
			if wait <= 0 {
				n.syncAt = time.Time{}
				c.session.TakeUnsynced()
				c.mutex.Unlock()
				if !c.syncStore(n) {
					return
				}
				continue
			}
			n.idle = true
			c.mutex.Unlock()
			timer.Reset(wait)
			select {
			case <-n.wake:
			case <-timer.C:
			case <-n.stop:
				return
			}
			c.mutex.Lock()
			n.idle = false
			c.mutex.Unlock()
			continue
		}
		n.syncAt = time.Time{}
		wasFull := c.session.OutputIsFull()
		output, sync := c.session.TakeOutput(buffer, now)
		if wasFull {
			c.broadcast()
		}
		c.mutex.Unlock()
		if sync && !c.syncStore(n) {
			return
		}
		_ = n.conn.SetWriteDeadline(now.Add(c.options.Timeouts.Write))
		if _, err := n.conn.Write(output); err != nil {
			n.end(wrap(ErrConnectionLost, "write", err))
			return
		}
		c.stats.bytesSent.Add(uint64(len(output)))
		alive.Sent(now)
		if buffer = output; cap(buffer) > keptBufferBytes {
			buffer = nil
		}
	}
}

// syncStore syncs the changes that the output depends on.
func (c *Client) syncStore(n *connection) bool {
	err := c.options.Store.Sync()
	if err == nil {
		return true
	}
	c.mutex.Lock()
	c.session.MarkUnsynced()
	c.mutex.Unlock()
	n.end(wrap(ErrStore, "sync", err))
	return false
}

func (n *connection) writeLast(last []byte) {
	_ = n.conn.SetWriteDeadline(time.Now().Add(goodbyeTimeout))
	if c := n.client; c.options.Store != nil && c.options.Store.Sync() != nil {
		// The packets that depend on it must not be sent; closing without DISCONNECT does no harm.
		last = nil
	}
	_, _ = n.conn.Write(last)
}

func untilNext(alive *session.KeepAlive, now time.Time) time.Duration {
	next := alive.Next()
	if next.IsZero() {
		return time.Hour
	}
	// At least a little, for a ping whose answer is overdue while the reader pauses.
	return max(next.Sub(now), 10*time.Millisecond)
}

func pingReq(version packets.Version) *packets.PingReq {
	ping := &packets.PingReq{}
	ping.SetVersion(version)
	return ping
}
