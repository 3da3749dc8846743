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

// The defaults of [Options] that are not of a group.
const (
	DefaultKeepAlive     = 60 * time.Second
	DefaultSessionExpiry = 300 * time.Second
)

// NoSession is for [Options.SessionExpiry]: the session ends with its connection.
const NoSession = time.Duration(-1)

// SessionNeverExpires is for [Options.SessionExpiry].
const SessionNeverExpires = time.Duration(math.MaxInt64)

// NoKeepAlive is for [Options.KeepAlive]: no pings, and a connection that is silently dead is found by writing only.
const NoKeepAlive = time.Duration(-1)

// Options are what a client can be told. The zero value is a client of MQTT 5.0 with a client identifier of its own.
type Options struct {
	// Version is [packets.V5], which the zero value means too, or [packets.V311].
	Version packets.Version
	// ClientID names the session. Without one the client makes one up, and its session ends when the client is closed.
	ClientID string
	// Username and Password are sent if they are not empty. Before 5.0 a password needs a user name.
	Username string
	Password []byte
	// Credentials, if set, is asked for them at each connection instead.
	Credentials func(ctx context.Context) (username string, password []byte, err error)
	// Authenticator does enhanced authentication (section 4.12). It needs 5.0.
	Authenticator Authenticator
	// Will is published by the server when the connection breaks.
	Will *packets.Will
	// UserProperties go with CONNECT.
	UserProperties []UserProperty

	// SessionExpiry is how long the server keeps the session without a connection: [NoSession], [SessionNeverExpires], or
	// a time, rounded up to seconds. If you ask for no session, by SessionExpiry, Resume or Store, the server keeps one for
	// [DefaultSessionExpiry] when the connection breaks, and it ends with [Client.Close].
	//
	// In MQTT 3.1.1 sessions have no end. There is one only if you ask for it and set ClientID; any time but NoSession asks for it.
	SessionExpiry time.Duration
	// Resume takes up, at the first connection, a session that the server may have from an earlier process. Without it the
	// first connection begins a new session, unless Store has one.
	Resume bool
	// Store keeps messages of QoS 1 and 2 beyond this process; nil keeps them in memory. The client closes it, also where
	// [Connect] fails: open it anew for another attempt.
	Store store.Store

	// KeepAlive is the longest silence before a ping, rounded up to seconds, or [NoKeepAlive].
	KeepAlive time.Duration

	// RejectWhenFull makes publishing fail with [ErrQueueFull] or [ErrOutputFull] at once, instead of waiting for room.
	RejectWhenFull bool
	// QueueQoS0 queues messages of QoS 0 while there is no connection. Without it they fail with [ErrNotConnected].
	QueueQoS0 bool

	// Reconnect, Timeouts and Limits have defaults for each of their fields.
	Reconnect Reconnect
	Timeouts  Timeouts
	Limits    Limits

	// TLS is the configuration for mqtts and wss, and refused with other addresses. What is wrong with a certificate has a code
	// of its own, such as [ErrTLSExpired].
	TLS *tls.Config
	// Header goes with the opening request of WebSocket.
	Header http.Header
	// Dial opens the connection instead of the client: over a proxy, a serial line, a pipe. Over what it gives, MQTT is
	// spoken directly.
	Dial func(ctx context.Context) (net.Conn, error)

	// Unrouted is given messages that no subscription of this client asked for, such as those of a session of an earlier
	// process. Without it they are acknowledged, counted and dropped.
	Unrouted Handler
	// Subscriptions are there from the first connection on, before any message can arrive. [Client.InitialSubscriptions] gives
	// them, with what became of each.
	Subscriptions []InitialSubscription

	// OnConnect is called after each CONNACK that accepts, OnDisconnect after each connection that has ended, and OnAttemptFailed after each
	// attempt to connect that has failed, with the reason, where the client is going to try again. Where it is not, see
	// [Client.Done]. They are called one after another, apart from everything else, and may block and close the client.
	OnConnect       func(ServerInfo)
	OnDisconnect    func(error)
	OnAttemptFailed func(error)
	// Logger is told of connections at Info, of trouble at Warn, of attempts at Debug. Without it, trouble goes to [slog.Default]; a logger
	// with [slog.DiscardHandler] is silent. Payloads and secrets are never logged.
	Logger *slog.Logger
}

// String leaves out secrets and functions.
func (o Options) String() string {
	return fmt.Sprintf("{Version:%v ClientID:%q SessionExpiry:%v KeepAlive:%v Reconnect:%+v Timeouts:%+v Limits:%+v}",
		o.Version, o.ClientID, o.SessionExpiry, o.KeepAlive, o.Reconnect, o.Timeouts, o.Limits)
}

// GoString gives the same as String, because some of the fields are secrets.
func (o Options) GoString() string { return "client.Options" + o.String() }

// UserProperty is a name and a value.
type UserProperty struct{ Name, Value string }

// InitialSubscription is a subscription that a client begins with.
type InitialSubscription struct {
	Filter  string
	Options SubscribeOptions
	Handler Handler
}

// generatedIDBytes makes identifiers of 23 characters, which every server takes [MQTT-3.1.3-5].
const generatedIDBytes = 7

func generatedClientID() string {
	var random [generatedIDBytes]byte
	_, _ = rand.Read(random[:])
	return "tautwire" + hex.EncodeToString(random[:])
}

// withDefaults gives what is not set its default, and refuses what is out of range.
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
		return o, failure(ErrInvalidOptions, "options", "Version is %v; 5.0 and 3.1.1 are spoken here", o.Version)
	}
	if o.Version != packets.V5 {
		switch {
		case o.Authenticator != nil:
			return o, failure(ErrInvalidOptions, "options", "Authenticator needs MQTT 5.0")
		case len(o.UserProperties) > 0:
			return o, failure(ErrInvalidOptions, "options", "UserProperties need MQTT 5.0")
		case len(o.Password) > 0 && o.Username == "":
			return o, failure(ErrInvalidOptions, "options", "a Password without Username needs MQTT 5.0")
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
		return o, failure(ErrInvalidOptions, "options", "KeepAlive is %v; NoKeepAlive is for none", o.KeepAlive)
	case o.SessionExpiry < 0 && o.SessionExpiry != NoSession:
		return o, failure(ErrInvalidOptions, "options", "SessionExpiry is %v; NoSession is for none", o.SessionExpiry)
	}
	if o.Logger == nil {
		o.Logger = slog.New(troubleOnly{slog.Default().Handler()})
	}
	return o, nil
}

// troubleOnly drops all below Warn.
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

// seconds rounds up: an interval may be longer than asked for, but never zero, which has meanings of its own.
func seconds(d time.Duration) uint32 {
	if d >= math.MaxUint32*time.Second {
		return math.MaxUint32
	}
	return uint32((max(d, 0) + time.Second - 1) / time.Second)
}
