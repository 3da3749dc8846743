package client

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Client is a connection to a server that reconnects when it breaks. Its methods may be called from any goroutine, also from handlers.
type Client struct {
	options Options
	target  *url.URL
	log     *slog.Logger
	// clientID is ours, or from the first CONNACK on the server's. It is guarded by mutex.
	clientID  string
	generated bool
	// sessionAsked says that the application requested a session that outlives the client.
	sessionAsked bool
	// firstOnly says that the client ends if the first attempt to connect fails.
	firstOnly bool

	// authenticating is held while a method of the Authenticator is called.
	authenticating sync.Mutex

	// mutex guards the fields below. It is held briefly, never while waiting.
	mutex   sync.Mutex
	session *session.Session
	current *connection
	// changed is closed when waiters should check their condition again.
	changed chan struct{}
	// ended says that no more operations are accepted; failure is the reason, unless it is Close.
	ended   bool
	failure error
	closing bool
	subscriptions
	// queueWaiters is the number of callers that wait for room in the queue.
	queueWaiters int

	stats    statistics
	waiting  atomic.Int64
	paused   atomic.Bool
	hurry    chan struct{}
	requests requests
	events   events

	// life is cancelled to end connections, work to end handlers.
	life    context.Context
	endLife context.CancelCauseFunc
	work    context.Context
	endWork context.CancelCauseFunc
	done    chan struct{}
}

// Connect creates a client and makes one attempt to connect. If that fails, it returns the reason and no client. After that the client
// reconnects whenever the connection breaks. See [New] for the address.
func Connect(ctx context.Context, address string, options Options) (*Client, error) {
	c, err := newClient(address, options)
	if err != nil {
		return nil, err
	}
	c.firstOnly = true
	go c.run()
	if err := c.AwaitConnection(ctx); err != nil {
		closed, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(closed)
		return nil, err
	}
	return c, nil
}

// New creates a client of the server at address, such as "mqtt://HOST", "mqtts://HOST:8883", "ws://HOST/mqtt" or "wss://HOST/mqtt". It
// connects in the background and keeps trying; it reports each failed attempt to [Options.OnAttemptFailed] and [Options.Logger]. You
// can publish QoS 1 and 2 messages and subscribe before there is a connection. With [Options.Dial] the address is only a name.
func New(address string, options Options) (*Client, error) {
	c, err := newClient(address, options)
	if err != nil {
		return nil, err
	}
	go c.run()
	return c, nil
}

func newClient(address string, options Options) (*Client, error) {
	sessionAsked := options.SessionExpiry > 0 || options.Resume || options.Store != nil
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	target, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	if options.TLS != nil && options.Dial == nil && !schemes[target.Scheme].secured {
		return nil, failure(ErrInvalidOptions, "address", "Options.TLS requires mqtts or wss, but the scheme is %s://", target.Scheme)
	}
	c := &Client{
		options: options, target: target, clientID: options.ClientID, sessionAsked: sessionAsked,
		changed: make(chan struct{}), hurry: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.subscriptions.init()
	var state store.State
	if options.Store != nil {
		if state, err = options.Store.Load(); err != nil {
			return nil, wrap(ErrStore, "load the session", err)
		}
		if state.Began && c.clientID == "" {
			c.clientID = state.ClientID
		}
		if state.Began && c.clientID != state.ClientID {
			_ = options.Store.Close()
			return nil, failure(ErrInvalidOptions, "load the session", "the store belongs to the client identifier %q, not to %q",
				state.ClientID, c.clientID)
		}
	}
	if c.clientID == "" {
		c.clientID, c.generated = generatedClientID(), true
	}
	c.session = session.New(session.Config{
		Version: options.Version, ReceiveMaximum: uint16(options.Limits.ReceiveMaximum), MaxInFlight: options.Limits.MaxInFlight,
		MaxQueuedMessages: options.Limits.MaxQueuedMessages, MaxQueuedBytes: options.Limits.MaxQueuedBytes,
		MaxOutputBytes: options.Limits.MaxOutputBytes, MaxAliases: options.Limits.TopicAliasMaximum, Store: options.Store,
	}, state)
	c.log = options.Logger.With("client_id", c.clientID, "server", target.Host)
	c.life, c.endLife = context.WithCancelCause(context.Background())
	c.work, c.endWork = context.WithCancelCause(context.Background())
	if err := c.beginSubscriptions(); err != nil {
		c.endWork(err)
		if options.Store != nil {
			_ = options.Store.Close()
		}
		return nil, err
	}
	return c, nil
}

// AwaitConnection returns when there is a connection, or with the error that ended the client. If ctx ends, the error includes that of
// the last attempt.
func (c *Client) AwaitConnection(ctx context.Context) error {
	for {
		c.mutex.Lock()
		connected, ended, changed := c.current != nil, c.ended, c.changed
		c.mutex.Unlock()
		switch {
		case ended:
			return c.endedError("connect")
		case connected:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if last := c.stats.lastFailure.Load(); last != nil {
				return wrap(ErrCanceled, "connect", fmt.Errorf("%w; the last attempt: %w", causeOf(ctx), *last))
			}
			return contextError(ErrCanceled, "connect", ctx)
		}
	}
}

// Connected reports whether there is a connection now.
func (c *Client) Connected() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.current != nil
}

// ClientID returns the client identifier: that of the options, a generated one, or the one that the server assigned.
func (c *Client) ClientID() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.clientID
}

// String names the client, for logs. Neither it nor fmt shows secrets of a client or of its [Options].
func (c *Client) String() string { return "mqtt client " + c.ClientID() + " of " + c.target.Host }

// GoString returns the same as String, because some of the fields are secrets.
func (c *Client) GoString() string { return "client.Client(" + c.String() + ")" }

// Server returns the server's answer to the last connection; false before the first.
func (c *Client) Server() (ServerInfo, bool) {
	info := c.stats.server.Load()
	if info == nil {
		return ServerInfo{}, false
	}
	return *info, true
}

// Done returns a channel that is closed when the client has ended: by Close, or by a permanent error. See [Client.Err].
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns the error that ended the client; nil while it runs, and after Close.
func (c *Client) Err() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.failure
}

// endedError is the error of operations on a client that has ended.
func (c *Client) endedError(operation string) error {
	if err := c.Err(); err != nil {
		return err
	}
	return closedError(operation, nil)
}

// broadcast wakes all waiters. The mutex is held.
func (c *Client) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until check returns true. The mutex is held when check is called, and when await returns without an error.
func (c *Client) await(ctx context.Context, check func() bool) error {
	for {
		c.mutex.Lock()
		if check() {
			return nil
		}
		changed := c.changed
		c.mutex.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return causeOf(ctx)
		}
	}
}

// beginWait tells the reader that a caller waits for received packets, so that it does not pause.
func (c *Client) beginWait() {
	c.waiting.Add(1)
	if c.paused.Load() {
		signal(c.hurry)
	}
}

func (c *Client) endWait() { c.waiting.Add(-1) }

// wakeWriter wakes the writer for new output, or for changes to sync soon. The mutex is held.
func (c *Client) wakeWriter() {
	if n := c.current; n != nil && n.idle && (c.session.HasOutput() || n.syncAt.IsZero() && c.session.IsUnsynced()) {
		n.idle = false
		signal(n.wake)
	}
}

// Close ends the client. No more messages go to handlers, and running handlers may finish; published messages are delivered if there is
// a connection; then it sends DISCONNECT, which discards the will. All that is limited by ctx, or by [Timeouts.Close] if it has no
// deadline; with an ended ctx it happens at once. Undelivered messages stay in the store, if there is one, and their waiters get
// [ErrClosed]. If Close returns nil, no goroutine of the client is left; it returns an error if the time was not enough.
//
// In a handler, and in OnConnect and the other callbacks, Close starts all that and returns nil at once. It continues in the
// background, the message of the handler is acknowledged when the handler returns, and [Client.Done] reports the end. In a handler of
// another client it waits, unless handlers of this one are running at that moment.
func (c *Client) Close(ctx context.Context) error {
	if c.isCallback() {
		c.closeInBackground(ctx)
		return nil
	}
	return c.close(ctx)
}

func (c *Client) close(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeouts.Close)
		defer cancel()
	}
	if !c.beginClose() {
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return contextError(ErrClosed, "close", ctx)
		}
	}
	return c.finishClose(ctx)
}

// beginClose reports whether this call is the first to close the client.
func (c *Client) beginClose() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	isFirst := !c.closing
	c.closing = true
	c.broadcast()
	return isFirst
}

// closeInBackground closes on behalf of functions that close would wait for.
func (c *Client) closeInBackground(ctx context.Context) {
	if !c.beginClose() {
		return
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.Timeouts.Close)
	if deadline, bounded := ctx.Deadline(); bounded {
		cancel()
		detached, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	if ctx.Err() != nil {
		cancel()
	}
	go func() {
		defer cancel()
		if err := c.finishClose(detached); err != nil {
			c.log.Warn("mqtt: closing was cut short", "error", err)
		}
	}()
}

func (c *Client) finishClose(ctx context.Context) error {
	c.beginWait()
	defer c.endWait()
	err := c.stopWorkers(ctx)
	if drained := c.drain(ctx); err == nil {
		err = drained
	}
	c.mutex.Lock()
	c.ended = true
	c.broadcast()
	n := c.current
	if n != nil {
		c.sayGoodbye(n)
	}
	c.mutex.Unlock()
	if n != nil {
		select {
		case <-n.ended:
		case <-ctx.Done():
		}
	}
	c.endLife(closedError("connection", nil))
	<-c.done
	c.endWork(closedError("handler", nil))
	c.events.wait(ctx)
	return err
}

// drain waits until all messages are delivered or the connection ends.
func (c *Client) drain(ctx context.Context) error {
	err := c.await(ctx, func() bool { return c.ended || c.current == nil || c.session.Held() == 0 })
	if err != nil {
		return wrap(ErrClosed, "close", err)
	}
	c.mutex.Unlock()
	return nil
}

// sayGoodbye queues DISCONNECT as the last packet [MQTT-3.14.4-1]. The mutex is held.
func (c *Client) sayGoodbye(n *connection) {
	disconnect := &packets.Disconnect{}
	disconnect.SetVersion(c.options.Version)
	isNobodys := !c.sessionAsked || c.generated && c.options.Store == nil
	if isNobodys && c.options.Version == packets.V5 && c.keepsSession() {
		disconnect.SetSessionExpiryInterval(0)
	}
	n.finish(disconnect, closedError("connection", nil))
}

// terminate ends the client permanently, from within run. err is nil after Close.
func (c *Client) terminate(err error) {
	c.mutex.Lock()
	c.ended = true
	if err != nil && !c.closing {
		c.failure = err
	}
	cause := closedError("publish", err)
	c.session.AbandonAll(cause)
	c.failRequests(cause)
	c.endSubscriptions(c.failure)
	c.broadcast()
	c.mutex.Unlock()
	if c.options.Store != nil {
		if err := c.options.Store.Close(); err != nil {
			c.log.Warn("mqtt: could not close the store", "error", err)
		}
	}
	if err != nil {
		// Without Close nothing else ends the handlers.
		c.endWork(err)
	}
	close(c.done)
}

// run maintains a connection until the client ends.
func (c *Client) run() {
	pause := backoff{least: c.options.Reconnect.Min, most: c.options.Reconnect.Max}
	for {
		began := time.Now()
		served, err := c.connect()
		c.mutex.Lock()
		isOver := c.ended
		c.broadcast()
		c.mutex.Unlock()
		if isOver || c.life.Err() != nil {
			c.terminate(nil)
			return
		}
		c.stats.noteFailure(err)
		if c.firstOnly && c.stats.connects.Load() == 0 {
			c.terminate(err)
			return
		}
		if isPermanent(err) {
			c.log.Warn("mqtt: the client has ended", "error", err)
			c.terminate(err)
			return
		}
		c.tellFailure(served, err)
		if served && time.Since(began) >= c.options.Reconnect.StableAfter {
			pause.reset()
		}
		timer := time.NewTimer(pause.next())
		select {
		case <-timer.C:
		case <-c.life.Done():
			timer.Stop()
			c.terminate(nil)
			return
		}
	}
}

// tellFailure reports a connection that was lost or could not be made.
func (c *Client) tellFailure(served bool, err error) {
	call, text := c.options.OnAttemptFailed, "mqtt: could not connect"
	if served {
		call, text = c.options.OnDisconnect, "mqtt: connection lost"
	}
	c.log.Warn(text, "error", err)
	if call != nil {
		c.events.add(func() { call(err) })
	}
}
