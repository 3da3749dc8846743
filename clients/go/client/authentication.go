package client

import (
	"context"
	"fmt"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// Authenticator is the client side of an enhanced authentication (section 4.12). Package scram implements SCRAM. Its methods
// are called from one goroutine at a time. An error ends the connection. The client reconnects unless the error has a method
// Permanent() bool that returns true: then it ends.
type Authenticator interface {
	// Method returns the name of the authentication method.
	Method() string
	// Begin starts an exchange. It returns the data for CONNECT or for a re-authentication, which may be nil.
	Begin(ctx context.Context) ([]byte, error)
	// Continue answers the server's AUTH.
	Continue(ctx context.Context, data []byte) ([]byte, error)
	// Finish checks the server's last data. An error refuses the server.
	Finish(data []byte) error
}

// Reauthenticate authenticates again on the current connection [MQTT-4.12.1-1], and returns when the server has accepted. If
// the server refuses, it ends the connection. Only one re-authentication can run at a time.
func (c *Client) Reauthenticate(ctx context.Context) error {
	if ctx.Err() != nil {
		return contextError(ErrCanceled, "authenticate", ctx)
	}
	if c.options.Authenticator == nil {
		return failure(ErrNotSupported, "authenticate", "Options.Authenticator is not set")
	}
	request := &request{done: make(chan struct{})}
	c.mutex.Lock()
	switch {
	case c.current == nil:
		c.mutex.Unlock()
		return failure(ErrNotConnected, "authenticate", "there is no connection")
	case c.reauthentication != nil:
		c.mutex.Unlock()
		return failure(ErrNotSupported, "authenticate", "a re-authentication is in progress")
	}
	c.reauthentication = request
	c.mutex.Unlock()
	data, err := c.beginAuthentication(ctx, request)
	var auth *packets.Auth
	if err == nil {
		auth, err = authPacket(packets.ReasonReAuthenticate, c.options.Authenticator.Method(), data)
	} else {
		err = wrap(ErrAuthentication, "authenticate", err)
	}
	c.mutex.Lock()
	if c.reauthentication == request {
		if err == nil {
			err = fromSession("authenticate", c.session.Append(auth))
		}
		if err != nil {
			c.reauthentication = nil
			request.finish(err)
		}
		c.wakeWriter()
	}
	c.mutex.Unlock()
	return c.waitRequest(ctx, request, "authenticate")
}

// beginAuthentication starts an exchange for a new connection, or a requested re-authentication. If the connection of a
// re-authentication has ended meanwhile, there may be a new one with an exchange of its own, which must not be disturbed.
func (c *Client) beginAuthentication(ctx context.Context, asked *request) ([]byte, error) {
	c.authenticating.Lock()
	defer c.authenticating.Unlock()
	if asked != nil {
		c.mutex.Lock()
		isOver := c.reauthentication != asked
		c.mutex.Unlock()
		if isOver {
			return nil, failure(ErrConnectionLost, "authenticate", "the connection ended meanwhile")
		}
	}
	return c.options.Authenticator.Begin(ctx)
}

// continueAuthentication answers the server's AUTH [MQTT-4.12.0-3].
func (c *Client) continueAuthentication(ctx context.Context, p *packets.Auth) (*packets.Auth, error) {
	authenticator := c.options.Authenticator
	if authenticator == nil {
		// [MQTT-4.12.0-6]
		return nil, failure(ErrProtocol, "authenticate", "AUTH without an authentication in progress")
	}
	method, _ := p.AuthenticationMethod()
	if p.Reason() != packets.ReasonContinueAuthentication || method != authenticator.Method() {
		// [MQTT-4.12.0-2] [MQTT-4.12.0-5]
		return nil, failure(ErrProtocol, "authenticate", "AUTH with reason %v and method %q", p.Reason(), method)
	}
	data, _ := p.AuthenticationData()
	c.authenticating.Lock()
	answer, err := authenticator.Continue(ctx, append([]byte(nil), data...))
	c.authenticating.Unlock()
	if err != nil {
		return nil, wrap(ErrAuthentication, "authenticate", err)
	}
	return authPacket(packets.ReasonContinueAuthentication, method, answer)
}

// finishAuthentication passes the server's last data to the authenticator.
func (c *Client) finishAuthentication(operation, method string, data []byte) error {
	if method != c.options.Authenticator.Method() {
		// [MQTT-4.12.0-5]
		return failure(ErrProtocol, operation, "the server ended the authentication with method %q", method)
	}
	c.authenticating.Lock()
	defer c.authenticating.Unlock()
	if err := c.options.Authenticator.Finish(append([]byte(nil), data...)); err != nil {
		return wrap(ErrAuthentication, operation, err)
	}
	return nil
}

func authPacket(reason packets.ReasonCode, method string, data []byte) (*packets.Auth, error) {
	auth, err := packets.NewAuth(reason, method)
	if err == nil && data != nil {
		err = auth.SetAuthenticationData(data)
	}
	if err != nil {
		return nil, wrap(ErrAuthentication, "authenticate", err)
	}
	return auth, nil
}

// onAuth continues a re-authentication. It runs on the reader, and calls the authenticator there. If it fails, the connection
// ends [MQTT-4.12.1-2].
func (n *connection) onAuth(p *packets.Auth) error {
	c := n.client
	c.mutex.Lock()
	request := c.reauthentication
	c.mutex.Unlock()
	if request == nil {
		return failure(ErrProtocol, "authenticate", "AUTH without an authentication in progress")
	}
	if p.Reason() == packets.ReasonSuccess {
		method, _ := p.AuthenticationMethod()
		data, _ := p.AuthenticationData()
		err := c.finishAuthentication("authenticate", method, data)
		c.mutex.Lock()
		c.reauthentication = nil
		request.finish(err)
		c.mutex.Unlock()
		return err
	}
	ctx, cancel := context.WithTimeout(c.life, c.options.Timeouts.Connect)
	defer cancel()
	answer, err := c.continueAuthentication(ctx, p)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err != nil {
		request.finish(err)
		return err
	}
	if c.current != n {
		return nil
	}
	if err := c.session.Append(answer); err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	c.wakeWriter()
	return nil
}
