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

// Client is a connection to a server that is made anew whenever it breaks. Its methods may be called from any goroutine, from
// handlers too.
type Client struct {
	options Options
	target  *url.URL
	log     *slog.Logger
	// clientID is ours, or the server's from the first CONNACK on. It is guarded by mutex.
	clientID  string
	generated bool
	// sessionAsked says that the application has asked for a session that outlives the client.
	sessionAsked bool
	// firstOnly says that the client ends if the first attempt to connect fails.
	firstOnly bool

	// authenticating is held while a method of the Authenticator is called.
	authenticating sync.Mutex

	// mutex guards what follows. It is held for short whiles, never while waiting.
	mutex   sync.Mutex
	session *session.Session
	current *connection
	// changed is closed when somebody who waits should look again.
	changed chan struct{}
	// ended says that nothing is taken any more; failure is why, if it is not Close.
	ended   bool
	failure error
	closing bool
	subscriptions
	// queueWaiters counts who waits for room in the queue.
	queueWaiters int

	stats    statistics
	waiting  atomic.Int64
	paused   atomic.Bool
	hurry    chan struct{}
	requests requests
	events   events

	// life ends when connections are to end, work when handlers are.
	life    context.Context
	endLife context.CancelCauseFunc
	work    context.Context
	endWork context.CancelCauseFunc
	done    chan struct{}
}

// Connect makes a client and its first connection. It makes one attempt: if that fails, the error says why and there is no client. From
// then on the client connects again whenever the connection breaks. See [New] for the address.
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

// New makes a client of the server at address, such as "mqtt://HOST", "mqtts://HOST:8883", "ws://HOST/mqtt" or
// "wss://HOST/mqtt". It connects in the background, and goes on trying: each failed attempt is told to [Options.OnAttemptFailed] and
// [Options.Logger]. Messages of QoS 1 and 2 may be published, and subscriptions be made, before there is a connection. With
// [Options.Dial] the address is a name only.
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
		return nil, failure(ErrInvalidOptions, "address", "Options.TLS is for mqtts and wss, and the address begins with %s://", target.Scheme)
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
			return nil, failure(ErrInvalidOptions, "load the session", "the store is of the client identifier %q, not of %q",
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

// AwaitConnection returns when there is a connection, or with the error for which there will be none. The error for an
// ended ctx tells of the last attempt.
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

// Connected says whether there is a connection now.
func (c *Client) Connected() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.current != nil
}

// ClientID gives the client identifier: that of the options, or the one that was made up.
func (c *Client) ClientID() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.clientID
}

// String names the client, for logs. Nothing that fmt shows of a client, or of its [Options], has a secret in it.
func (c *Client) String() string { return "mqtt client " + c.ClientID() + " of " + c.target.Host }

// GoString gives the same as String, because some of the fields are secrets.
func (c *Client) GoString() string { return "client.Client(" + c.String() + ")" }

// Server tells what the server said at the last connection; false before the first.
func (c *Client) Server() (ServerInfo, bool) {
	info := c.stats.server.Load()
	if info == nil {
		return ServerInfo{}, false
	}
	return *info, true
}

// Done gives a channel that is closed when the client has ended: by Close, or because connecting again cannot help. See [Client.Err].
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the client ended by itself; nil while it lives, and after Close.
func (c *Client) Err() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.failure
}

// endedError is for operations on a client that has ended.
func (c *Client) endedError(operation string) error {
	if err := c.Err(); err != nil {
		return err
	}
	return closedError(operation, nil)
}

// broadcast wakes all who wait for a change. The mutex is held.
func (c *Client) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until check answers true. The mutex is held when check is called, and when await returns without an error.
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

// beginWait tells the reader that somebody waits for what only reading can bring, so that it does not pause.
func (c *Client) beginWait() {
	c.waiting.Add(1)
	if c.paused.Load() {
		signal(c.hurry)
	}
}

func (c *Client) endWait() { c.waiting.Add(-1) }

// wakeWriter lets the writer see new output, and what the store is to have soon. The mutex is held.
func (c *Client) wakeWriter() {
	if n := c.current; n != nil && n.idle && (c.session.HasOutput() || n.syncAt.IsZero() && c.session.IsUnsynced()) {
		n.idle = false
		signal(n.wake)
	}
}

// Close ends the client: no more messages are given to handlers, and those that run may finish; messages that were published
// are delivered, if there is a connection; then the server is told (DISCONNECT), which discards the will. All that within
// ctx, or [Timeouts.Close] if it has no deadline; with an ended ctx it happens at once. What was not delivered then
// stays in the store, if there is one, and whoever waits for it gets [ErrClosed]. When Close returns nil no goroutine of
// the client is left; it returns an error if something had to be cut short.
//
// In a handler, and in OnConnect and its like, Close begins all that and returns nil at once: it goes on in the background, the message
// of the handler is acknowledged when the handler returns, and [Client.Done] tells of the end. In a handler of another client it waits,
// unless handlers of this one are running at that moment.
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

// beginClose says whether the client was not closing before.
func (c *Client) beginClose() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	isFirst := !c.closing
	c.closing = true
	c.broadcast()
	return isFirst
}

// closeInBackground is for functions that close would wait for.
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

// drain waits until all messages are delivered, as long as there is a connection.
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

// terminate ends the client for good, from within run. err is nil after Close.
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
			c.log.Warn("mqtt: the store could not be closed", "error", err)
		}
	}
	if err != nil {
		// Without Close there is nobody else to end the handlers.
		c.endWork(err)
	}
	close(c.done)
}

// run keeps a connection, until the client ends.
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

// tellFailure tells of a connection that was lost, or could not be made.
func (c *Client) tellFailure(served bool, err error) {
	call, text := c.options.OnAttemptFailed, "mqtt: the connection could not be made"
	if served {
		call, text = c.options.OnDisconnect, "mqtt: the connection is lost"
	}
	c.log.Warn(text, "error", err)
	if call != nil {
		c.events.add(func() { call(err) })
	}
}
