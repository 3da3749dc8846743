package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// The defaults of [Options] outside of its groups.
const (
	DefaultKeepAlive     = 60 * time.Second
	DefaultSessionExpiry = 300 * time.Second
)

// NoSession is for [Options.SessionExpiry]: the session ends with its connection.
const NoSession = time.Duration(-1)

// SessionNeverExpires is for [Options.SessionExpiry].
const SessionNeverExpires = time.Duration(math.MaxInt64)

// NoKeepAlive is for [Options.KeepAlive]: no pings; a dead connection is detected only by writing.
const NoKeepAlive = time.Duration(-1)

// Options configure a client. The zero value is an MQTT 5.0 client with a generated client identifier.
type Options struct {
	// Version is [packets.V5], which is also the zero value's meaning, or [packets.V311].
	Version packets.Version
	// ClientID names the session. If empty, the client generates one, and its session ends with Close.
	ClientID string
	// Username and Password are sent if they are not empty. Before 5.0 a password requires a user name.
	Username string
	Password []byte
	// Credentials, if set, is called for them at each connection instead.
	Credentials func(ctx context.Context) (username string, password []byte, err error)
	// Authenticator does enhanced authentication (section 4.12). It requires 5.0.
	Authenticator Authenticator
	// Will is published by the server if the connection breaks.
	Will *packets.Will
	// UserProperties are sent with CONNECT.
	UserProperties []UserProperty

	// SessionExpiry is how long the server keeps the session without a connection: [NoSession], [SessionNeverExpires], or a duration,
	// rounded up to seconds. If you request no session, by SessionExpiry, Resume or Store, the server keeps one for [DefaultSessionExpiry]
	// after a lost connection, and it ends with [Client.Close].
	//
	// In MQTT 3.1.1 sessions do not expire. There is one only if you set ClientID and request one; any duration except NoSession requests
	// it.
	SessionExpiry time.Duration
	// Resume resumes, at the first connection, a session that the server may have from an earlier process. Without it the first connection
	// starts a new session, unless Store has one.
	Resume bool
	// Store persists QoS 1 and 2 messages beyond this process; if nil, they are only in memory. The client closes it, also if [Connect]
	// fails: open it again for another attempt.
	Store store.Store

	// KeepAlive is the maximum silence before a ping, rounded up to seconds, or [NoKeepAlive].
	KeepAlive time.Duration

	// RejectWhenFull makes publishing fail with [ErrQueueFull] or [ErrOutputFull] at once, instead of waiting for room.
	RejectWhenFull bool
	// QueueQoS0 queues QoS 0 messages while there is no connection. Without it they fail with [ErrNotConnected].
	QueueQoS0 bool

	// Reconnect, Timeouts and Limits have defaults for each of their fields.
	Reconnect Reconnect
	Timeouts  Timeouts
	Limits    Limits

	// TLS is the configuration for mqtts and wss. It is refused with other addresses. Each problem with a certificate has a code of its own,
	// such as [ErrTLSExpired].
	TLS *tls.Config
	// Header is added to the WebSocket handshake.
	Header http.Header
	// Dial opens the connection instead of the client: over a proxy, a serial line, a pipe. MQTT is sent directly over the connection that
	// it returns.
	Dial func(ctx context.Context) (net.Conn, error)

	// Unrouted gets messages that match no subscription of this client, such as those of a session of an earlier process. Without it they
	// are acknowledged, counted and dropped.
	Unrouted Handler
	// Subscriptions exist from the first connection on, before any message can arrive. [Client.InitialSubscriptions] returns them with their
	// state.
	Subscriptions []InitialSubscription

	// OnConnect is called after each successful CONNACK, OnDisconnect after each connection that has ended, and OnAttemptFailed after each
	// failed attempt, with the reason, if the client will try again. If it will not, see [Client.Done]. They are called one after another,
	// on a goroutine of their own, and may block and close the client.
	OnConnect       func(ServerInfo)
	OnDisconnect    func(error)
	OnAttemptFailed func(error)
	// OnHeldUp is called when the full inbox of a subscription has paused reading for Limits.MaxReadPause. Reading continues, and QoS 0
	// messages for that subscription are dropped until half of its inbox is free; [Subscription.Dropped] counts them. It is called like
	// OnConnect.
	OnHeldUp func(*Subscription)
	// Logger logs connections at Info, problems at Warn, attempts at Debug. Without it, problems go to [slog.Default]; a logger with
	// [slog.DiscardHandler] is silent. Payloads and secrets are never logged.
	Logger *slog.Logger
}

// String omits secrets and functions.
func (o Options) String() string {
	return fmt.Sprintf("{Version:%v ClientID:%q SessionExpiry:%v KeepAlive:%v Reconnect:%+v Timeouts:%+v Limits:%+v}",
		o.Version, o.ClientID, o.SessionExpiry, o.KeepAlive, o.Reconnect, o.Timeouts, o.Limits)
}

// GoString returns the same as String, because some of the fields are secrets.
func (o Options) GoString() string { return "client.Options" + o.String() }

// UserProperty is a name and a value.
type UserProperty struct{ Name, Value string }

// InitialSubscription is a subscription that a client starts with.
type InitialSubscription struct {
	Filter  string
	Options SubscribeOptions
	Handler Handler
}

// generatedIDBytes makes identifiers of 23 characters, which every server accepts [MQTT-3.1.3-5].
const generatedIDBytes = 7

func generatedClientID() string {
	var random [generatedIDBytes]byte
	_, _ = rand.Read(random[:])
	return "tautwire" + hex.EncodeToString(random[:])
}

// withDefaults applies the defaults and validates the options.
func (o Options) withDefaults() (Options, error) {
	if o.KeepAlive == 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	if o.SessionExpiry == 0 {
		o.SessionExpiry = DefaultSessionExpiry
	}
	switch {
	case o.Version == 0:
		o.Version = packets.V5
	case o.Version != packets.V5 && o.Version != packets.V311:
		return o, failure(ErrInvalidOptions, "options", "Version is %v; it must be 5.0 or 3.1.1", o.Version)
	}
	if o.Version != packets.V5 {
		switch {
		case o.Authenticator != nil:
			return o, failure(ErrInvalidOptions, "options", "Authenticator requires MQTT 5.0")
		case len(o.UserProperties) > 0:
			return o, failure(ErrInvalidOptions, "options", "UserProperties require MQTT 5.0")
		case len(o.Password) > 0 && o.Username == "":
			return o, failure(ErrInvalidOptions, "options", "a Password without Username requires MQTT 5.0")
		}
	}
	for _, err := range []error{o.Limits.setDefaults(o.Version), o.Timeouts.setDefaults(), o.Reconnect.setDefaults()} {
		if err != nil {
			return o, err
		}
	}
	switch {
	case o.KeepAlive > 65_535*time.Second:
		return o, failure(ErrInvalidOptions, "options", "KeepAlive is more than 65,535 s")
	case o.KeepAlive < 0 && o.KeepAlive != NoKeepAlive:
		return o, failure(ErrInvalidOptions, "options", "KeepAlive is %v; use NoKeepAlive to turn it off", o.KeepAlive)
	case o.SessionExpiry < 0 && o.SessionExpiry != NoSession:
		return o, failure(ErrInvalidOptions, "options", "SessionExpiry is %v; use NoSession for none", o.SessionExpiry)
	}
	if o.Logger == nil {
		o.Logger = slog.New(troubleOnly{slog.Default().Handler()})
	}
	return o, nil
}

// troubleOnly drops all records below Warn.
type troubleOnly struct{ slog.Handler }

func (h troubleOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h troubleOnly) WithAttrs(attributes []slog.Attr) slog.Handler {
	return troubleOnly{h.Handler.WithAttrs(attributes)}
}

func (h troubleOnly) WithGroup(name string) slog.Handler {
	return troubleOnly{h.Handler.WithGroup(name)}
}

// seconds rounds up: an interval may be longer than requested, but never zero, which has special meanings.
func seconds(d time.Duration) uint32 {
	if d >= math.MaxUint32*time.Second {
		return math.MaxUint32
	}
	return uint32((max(d, 0) + time.Second - 1) / time.Second)
}
