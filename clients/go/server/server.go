package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tautwire/tautwire/clients/go/internal/websocket"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// The defaults of [Options], each for the option of its name.
const (
	DefaultMaximumPacketSize = 16 * 1024 * 1024
	DefaultMaxOutputBytes    = 4 * 1024 * 1024
	DefaultMaxConnections    = 100_000
	DefaultConnectTimeout    = 10 * time.Second
	DefaultWriteTimeout      = 30 * time.Second
)

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("server: it was closed [server_closed]")

// ErrOutputFull means that a client does not take what is sent to it: [Options.MaxOutputBytes] is reached.
var ErrOutputFull = errors.New("server: the output of the connection is full [output_full]")

// Error ends a connection with a reason, in CONNACK or DISCONNECT.
type Error struct {
	Reason packets.ReasonCode
	// Err is the cause, if there is another error.
	Err error
}

// Error gives one line.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("server: %v: %v", e.Reason, e.Err)
	}
	return fmt.Sprintf("server: %v", e.Reason)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Options adjust a server. The zero value is right for most.
type Options struct {
	Hooks Hooks
	// MaximumPacketSize bounds incoming packets, in bytes. Tell it to clients of 5.0 in CONNACK.
	MaximumPacketSize int
	// MaxOutputBytes bounds what waits to be written to a connection; beyond it [Conn.Send] fails with [ErrOutputFull].
	MaxOutputBytes int
	// MaxConnections bounds connections at once. Further ones are closed, and logged.
	MaxConnections int
	// ConnectTimeout bounds the time from accepting a connection to CONNECT, TLS and WebSocket included.
	ConnectTimeout time.Duration
	// WriteTimeout bounds a write that a client does not take.
	WriteTimeout time.Duration
	// TLS makes it a server of mqtts, or wss.
	TLS *tls.Config
	// WebSocket makes it a server of MQTT over WebSocket at WebSocketPath; an empty path allows all.
	WebSocket     bool
	WebSocketPath string
	// Logger is told of connections at Debug and of trouble at Warn; nil for no logs.
	Logger *slog.Logger
}

// Server serves MQTT connections. Make it with [New].
type Server struct {
	options Options

	mutex       sync.Mutex
	closed      bool
	listeners   map[net.Listener]struct{}
	connections map[*Conn]struct{}
	running     sync.WaitGroup
}

// New makes a server.
func New(options Options) *Server {
	for _, each := range []struct {
		value    *int
		standard int
	}{
		{&options.MaximumPacketSize, DefaultMaximumPacketSize}, {&options.MaxOutputBytes, DefaultMaxOutputBytes},
		{&options.MaxConnections, DefaultMaxConnections},
	} {
		if *each.value <= 0 {
			*each.value = each.standard
		}
	}
	if options.ConnectTimeout <= 0 {
		options.ConnectTimeout = DefaultConnectTimeout
	}
	if options.WriteTimeout <= 0 {
		options.WriteTimeout = DefaultWriteTimeout
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	options.Hooks = options.Hooks.withDefaults()
	return &Server{options: options, listeners: map[net.Listener]struct{}{}, connections: map[*Conn]struct{}{}}
}

// acceptRetry is the wait after an error of accepting that may pass, such as too many open files.
const acceptRetry = 10 * time.Millisecond

// Serve accepts connections until ctx ends or the server is closed, and returns the cause: the context's, [ErrClosed], or an
// error of the listener. It closes the listener. Connections go on until Close.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	s.mutex.Lock()
	if s.closed {
		s.mutex.Unlock()
		return ErrClosed
	}
	s.listeners[listener] = struct{}{}
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		delete(s.listeners, listener)
		s.mutex.Unlock()
	}()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err == nil {
			if !s.start(conn) {
				_ = conn.Close()
			}
			continue
		}
		s.mutex.Lock()
		closed := s.closed
		s.mutex.Unlock()
		switch {
		case closed:
			return ErrClosed
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("server: accept: %w", err)
		}
		s.options.Logger.Warn("server: accept", "error", err)
		timer := time.NewTimer(acceptRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// ServeConn serves one connection, of whatever kind, and returns when it has ended, with the error that Hooks.Closed gets.
func (s *Server) ServeConn(conn net.Conn) error {
	c := s.add(conn)
	if c == nil {
		_ = conn.Close()
		return ErrClosed
	}
	return s.serve(c)
}

func (s *Server) start(conn net.Conn) bool {
	c := s.add(conn)
	if c == nil {
		return false
	}
	go func() { _ = s.serve(c) }()
	return true
}

func (s *Server) add(conn net.Conn) *Conn {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil
	}
	if len(s.connections) >= s.options.MaxConnections {
		s.options.Logger.Warn("server: a connection was refused", "max_connections", s.options.MaxConnections)
		return nil
	}
	c := newConn(s, conn)
	s.connections[c] = struct{}{}
	s.running.Add(1)
	return c
}

func (s *Server) serve(c *Conn) error {
	defer s.running.Done()
	err := s.prepare(c)
	if err == nil {
		err = c.run()
	}
	c.Abort()
	s.mutex.Lock()
	delete(s.connections, c)
	s.mutex.Unlock()
	s.options.Logger.Debug("server: a connection ended", "remote", c.RemoteAddr(), "client_id", c.ClientID(), "error", err)
	return err
}

// prepare does the handshakes below MQTT.
func (s *Server) prepare(c *Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.ConnectTimeout)
	defer cancel()
	if s.options.TLS != nil {
		secured := tls.Server(c.transport(), s.options.TLS)
		if err := secured.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("server: TLS: %w", err)
		}
		c.wrap(secured)
	}
	if s.options.WebSocket {
		wrapped, err := websocket.Server(ctx, c.transport(), s.options.WebSocketPath)
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		c.wrap(wrapped)
	}
	return nil
}

// Connections gives the connections of now, those that have not finished the handshake too.
func (s *Server) Connections() []*Conn {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := make([]*Conn, 0, len(s.connections))
	for c := range s.connections {
		all = append(all, c)
	}
	return all
}

// hookGrace is how long Close waits for hooks of connections that it has cut.
const hookGrace = time.Second

// Close stops accepting, tells clients of 5.0 that the server shuts down, ends all connections, and waits until that is done or ctx
// ends. Connections that do not take the message in time are cut, and hooks that do not return within a second of that are left running.
func (s *Server) Close(ctx context.Context) error {
	s.mutex.Lock()
	s.closed = true
	for listener := range s.listeners {
		_ = listener.Close()
	}
	s.mutex.Unlock()
	for _, c := range s.Connections() {
		c.Close(packets.ReasonServerShuttingDown)
	}
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.Connections() {
		c.Abort()
	}
	grace := time.NewTimer(hookGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	return context.Cause(ctx)
}
