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

// The defaults of [Options], each for the option of the same name.
const (
	DefaultMaximumPacketSize = 16 * 1024 * 1024
	DefaultMaxOutputBytes    = 4 * 1024 * 1024
	DefaultMaxConnections    = 100_000
	DefaultConnectTimeout    = 10 * time.Second
	DefaultWriteTimeout      = 30 * time.Second
)

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("server: the server was closed [server_closed]")

// ErrOutputFull means that a client does not read its output: [Options.MaxOutputBytes] is reached.
var ErrOutputFull = errors.New("server: the output of the connection is full [output_full]")

// Error ends a connection with a reason, in CONNACK or DISCONNECT.
type Error struct {
	Reason packets.ReasonCode
	// Err is the underlying error, if any.
	Err error
}

// Error returns one line.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("server: %v: %v", e.Reason, e.Err)
	}
	return fmt.Sprintf("server: %v", e.Reason)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Options configure a server. The zero value suits most programs.
type Options struct {
	Hooks Hooks
	// MaximumPacketSize limits incoming packets, in bytes. Announce it to clients of 5.0 in CONNACK.
	MaximumPacketSize int
	// MaxOutputBytes limits the unsent output of a connection; beyond it [Conn.Send] fails with [ErrOutputFull].
	MaxOutputBytes int
	// MaxConnections limits open connections. Further ones are closed, and logged.
	MaxConnections int
	// ConnectTimeout limits the time from accepting a connection to CONNECT, including TLS and WebSocket.
	ConnectTimeout time.Duration
	// WriteTimeout limits a write to a client.
	WriteTimeout time.Duration
	// TLS enables mqtts, or wss.
	TLS *tls.Config
	// WebSocket enables MQTT over WebSocket at WebSocketPath; an empty path allows all.
	WebSocket     bool
	WebSocketPath string
	// Logger logs connections at Debug and problems at Warn; nil for no logs.
	Logger *slog.Logger
}

// Server serves MQTT connections. Create it with [New].
type Server struct {
	options Options

	mutex       sync.Mutex
	closed      bool
	listeners   map[net.Listener]struct{}
	connections map[*Conn]struct{}
	running     sync.WaitGroup
}

// New creates a server.
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

// acceptRetry is the delay after a temporary accept error, such as too many open files.
const acceptRetry = 10 * time.Millisecond

// Serve accepts connections until ctx ends or the server is closed, and returns the cause: the context's error, [ErrClosed], or an error
// of the listener. It closes the listener. Connections remain open until Close.
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

// ServeConn serves one connection of any kind, and returns when it has ended, with the error for Hooks.Closed.
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
		s.options.Logger.Warn("server: refused a connection, the limit is reached", "max_connections", s.options.MaxConnections)
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
	s.options.Logger.Debug("server: connection ended", "remote", c.RemoteAddr(), "client_id", c.ClientID(), "error", err)
	return err
}

// prepare performs the TLS and WebSocket handshakes.
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

// Connections returns the current connections, including those that have not finished the handshake.
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

// Close stops accepting, sends DISCONNECT (Server shutting down) to clients of 5.0, closes all connections, and waits until that is done
// or ctx ends. Connections that do not read it in time are cut; hooks that do not return within a second after that are left running.
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
