package client

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// ServerInfo is the server's answer to an accepted connection.
type ServerInfo struct {
	// ClientID is the client identifier of the session, which the server may have assigned.
	ClientID string
	// SessionPresent says that the server had the session, with its subscriptions.
	SessionPresent bool
	// KeepAlive is the effective interval, the server's if it set one [MQTT-3.1.2-21]; 0 for none.
	KeepAlive time.Duration
	// SessionExpiry is how long the session outlives the connection.
	SessionExpiry time.Duration
	// ReceiveMaximum is how many unacknowledged QoS 1 and 2 messages the server accepts.
	ReceiveMaximum int
	// MaximumQoS is the highest QoS that it accepts.
	MaximumQoS packets.QoS
	// MaximumPacketSize is the largest packet that it accepts, in bytes.
	MaximumPacketSize int
	// TopicAliasMaximum is how many topic aliases it accepts.
	TopicAliasMaximum int

	RetainAvailable, WildcardSubscriptions, SharedSubscriptions, SubscriptionIdentifiers bool

	// ResponseInformation is the prefix of response topics, if the server sent one.
	ResponseInformation string
	// ServerReference names another server, if the server sent one.
	ServerReference string
	UserProperties  []UserProperty
}

// handshake sends CONNECT and waits for CONNACK. The result is not a view.
func (n *connection) handshake(ctx context.Context, clean bool) (*packets.ConnAck, ServerInfo, error) {
	c := n.client
	connect, err := c.connectPacket(ctx, clean)
	if err != nil {
		return nil, ServerInfo{}, err
	}
	deadline, _ := ctx.Deadline()
	_ = n.conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = n.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	broken := func(err error) error { return c.handshakeFailure(ctx, err) }
	if _, err := connect.WriteTo(n.conn); err != nil {
		return nil, ServerInfo{}, broken(err)
	}
	for {
		received, err := n.reader.Next()
		if refusal := n.refusalInV311(err); refusal != nil {
			return c.accept(connect, refusal)
		}
		if bytes.HasPrefix(n.head, tlsAlert) {
			return nil, ServerInfo{}, &Error{Code: ErrTLSNeeded, Operation: "connect", Detail: c.target.Host, Err: err}
		}
		if err != nil {
			return nil, ServerInfo{}, broken(err)
		}
		switch p := received.(type) {
		case *packets.ConnAck:
			if !stop() {
				return nil, ServerInfo{}, broken(context.DeadlineExceeded)
			}
			_ = n.conn.SetDeadline(time.Time{})
			return c.accept(connect, p.Clone())
		case *packets.Auth:
			answer, err := c.continueAuthentication(ctx, p) // [MQTT-4.12.0-3]
			if err != nil {
				return nil, ServerInfo{}, err
			}
			if _, err := answer.WriteTo(n.conn); err != nil {
				return nil, ServerInfo{}, broken(err)
			}
		default:
			// [MQTT-3.2.0-1]
			return nil, ServerInfo{}, failure(ErrProtocol, "connect", "%v before CONNACK", received.Type())
		}
	}
}

// tlsAlert begins the answer of a TLS port to anything else.
var tlsAlert = []byte{0x15, 0x03}

// connAckBytesV311 is the size of a CONNACK before 5.0.
const connAckBytesV311 = 4

// refusalInV311 returns the refusal of a server without MQTT 5.0: a CONNACK of 3.1.1, which is malformed in 5.0.
func (n *connection) refusalInV311(err error) *packets.ConnAck {
	var malformed *packets.Error
	if n.client.options.Version != packets.V5 || !errors.As(err, &malformed) {
		return nil
	}
	p, _, err := packets.Decode(n.head, packets.Options{Version: packets.V311})
	refusal, ok := p.(*packets.ConnAck)
	if err != nil || !ok || refusal.Reason() == packets.ReasonSuccess {
		return nil
	}
	return refusal.Clone()
}

// connectPacket builds CONNECT from the options.
func (c *Client) connectPacket(ctx context.Context, clean bool) (*packets.Connect, error) {
	o := &c.options
	c.mutex.Lock()
	clientID := c.clientID
	c.mutex.Unlock()
	connect, err := packets.NewConnect(clientID)
	if err != nil {
		return nil, wrap(ErrInvalidOptions, "connect", err)
	}
	connect.SetVersion(o.Version)
	connect.SetCleanStart(clean)
	if o.KeepAlive > 0 {
		connect.SetKeepAlive(uint16(seconds(o.KeepAlive)))
	}
	connect.SetWill(o.Will)
	username, password := o.Username, o.Password
	if o.Credentials != nil {
		if username, password, err = o.Credentials(ctx); err != nil {
			return nil, wrap(ErrAuthentication, "credentials", err)
		}
	}
	var failed []error
	note := func(err error) { failed = append(failed, err) }
	if username != "" {
		note(connect.SetUserName(username))
	}
	if len(password) > 0 {
		note(connect.SetPassword(password))
	}
	if o.Version == packets.V5 {
		if c.keepsSession() {
			connect.SetSessionExpiryInterval(seconds(o.SessionExpiry))
		}
		note(connect.SetReceiveMaximum(uint16(o.Limits.ReceiveMaximum)))
		note(connect.SetMaximumPacketSize(uint32(o.Limits.MaximumPacketSize)))
		if o.Limits.TopicAliasMaximum > 0 {
			connect.SetTopicAliasMaximum(uint16(o.Limits.TopicAliasMaximum))
		}
		connect.SetRequestResponseInformation(true)
		for _, property := range o.UserProperties {
			note(connect.AddUserProperty(property.Name, property.Value))
		}
		if o.Authenticator != nil {
			note(connect.SetAuthenticationMethod(o.Authenticator.Method()))
			data, err := c.beginAuthentication(ctx, nil)
			if err != nil {
				return nil, wrap(ErrAuthentication, "connect", err)
			}
			if data != nil {
				note(connect.SetAuthenticationData(data))
			}
		}
	}
	note(connect.WellFormed())
	for _, err := range failed {
		if err != nil {
			return nil, wrap(ErrInvalidOptions, "connect", err)
		}
	}
	return connect, nil
}

// keepsSession reports whether the session should outlive a connection. Before 5.0 it does not expire, so one that was not requested, or
// that only this process can name, would be left behind.
func (c *Client) keepsSession() bool {
	if c.options.SessionExpiry < 0 {
		return false
	}
	return c.options.Version == packets.V5 || c.sessionAsked && !c.generated
}

// knowsSession reports whether a session of the server belongs to this client.
func (c *Client) knowsSession() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	_, began := c.session.Began()
	return began || c.options.Resume
}

// accept validates CONNACK.
func (c *Client) accept(connect *packets.Connect, p *packets.ConnAck) (*packets.ConnAck, ServerInfo, error) {
	info := ServerInfo{
		ClientID: connect.ClientID(), SessionPresent: p.SessionPresent(),
		KeepAlive:         time.Duration(connect.KeepAlive()) * time.Second,
		SessionExpiry:     max(c.options.SessionExpiry, 0),
		ReceiveMaximum:    int(p.ReceiveMaximum()),
		MaximumQoS:        p.MaximumQoS(),
		MaximumPacketSize: packets.MaxPacketSize,
		TopicAliasMaximum: int(p.TopicAliasMaximum()),
		RetainAvailable:   p.RetainAvailable(), WildcardSubscriptions: p.WildcardSubscriptionAvailable(),
		SharedSubscriptions: p.SharedSubscriptionAvailable(),
		// Before 5.0 there are none.
		SubscriptionIdentifiers: c.options.Version == packets.V5 && p.SubscriptionIdentifierAvailable(),
	}
	info.ServerReference, _ = p.ServerReference()
	info.ResponseInformation, _ = p.ResponseInformation()
	for name, value := range p.UserProperties() {
		info.UserProperties = append(info.UserProperties, UserProperty{name, value})
	}
	if p.Reason() != packets.ReasonSuccess {
		refused := &Error{
			Code: refusalCode(p.Reason()), Operation: "connect", Reason: p.Reason(), ServerReference: info.ServerReference,
		}
		refused.ReasonString, _ = p.ReasonString()
		return nil, info, refused
	}
	if p.SessionPresent() && connect.CleanStart() {
		// [MQTT-3.2.2-4]
		return nil, info, failure(ErrProtocol, "connect", "Session Present after Clean Start")
	}
	if bytes, ok := p.MaximumPacketSize(); ok {
		info.MaximumPacketSize = int(min(bytes, packets.MaxPacketSize))
	}
	if keepAlive, ok := p.ServerKeepAlive(); ok {
		info.KeepAlive = time.Duration(keepAlive) * time.Second
	}
	if expiry, ok := p.SessionExpiryInterval(); ok {
		info.SessionExpiry = time.Duration(expiry) * time.Second
	}
	if assigned, ok := p.AssignedClientIdentifier(); ok {
		info.ClientID = assigned
	}
	if c.options.Authenticator != nil {
		method, _ := p.AuthenticationMethod()
		data, _ := p.AuthenticationData()
		if err := c.finishAuthentication("connect", method, data); err != nil {
			return nil, info, err
		}
	}
	return p, info, nil
}
