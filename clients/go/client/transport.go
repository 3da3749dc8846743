package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/tautwire/tautwire/clients/go/internal/websocket"
)

// scheme describes a URL scheme.
type scheme struct {
	port               string
	secured, webSocket bool
}

var schemes = map[string]scheme{
	"mqtt":  {port: "1883"},
	"tcp":   {port: "1883"},
	"mqtts": {port: "8883", secured: true},
	"ssl":   {port: "8883", secured: true},
	"ws":    {port: "80", webSocket: true},
	"wss":   {port: "443", secured: true, webSocket: true},
}

// parseAddress never repeats the text before an @: it may be a password.
func parseAddress(address string) (*url.URL, error) {
	hasUser := strings.Contains(address, "@")
	if !strings.Contains(address, "://") {
		if hasUser || address == "" {
			return nil, failure(ErrInvalidOptions, "address", "the scheme is missing: write mqtt://HOST:PORT")
		}
		return nil, failure(ErrInvalidOptions, "address", "%q has no scheme: write %q", address, "mqtt://"+address)
	}
	target, err := url.Parse(address)
	if err != nil {
		var parsing *url.Error
		if hasUser || !errors.As(err, &parsing) {
			return nil, failure(ErrInvalidOptions, "address", "it is not a URL: write mqtt://HOST:PORT")
		}
		return nil, failure(ErrInvalidOptions, "address", "%q is not a URL: %v", address, parsing.Err)
	}
	how, known := schemes[target.Scheme]
	switch {
	case !known:
		return nil, failure(ErrInvalidOptions, "address", "the scheme %q is not mqtt, mqtts, ws or wss", target.Scheme)
	case target.User != nil:
		return nil, failure(ErrInvalidOptions, "address", "an address cannot contain user name and password: set Options.Username and Options.Password")
	case !how.webSocket && strings.Trim(target.Path, "/")+target.RawQuery+target.Fragment != "":
		return nil, failure(ErrInvalidOptions, "address", "only ws:// and wss:// addresses have a path")
	case target.Hostname() == "":
		return nil, failure(ErrInvalidOptions, "address", "the host is missing: write %s://HOST:PORT", target.Scheme)
	}
	if port := target.Port(); port == "" {
		target.Host = net.JoinHostPort(target.Hostname(), how.port)
	} else if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return nil, failure(ErrInvalidOptions, "address", "the port %s is not in 1 to 65535", port)
	}
	if how.webSocket && target.Path == "" {
		target.Path = "/mqtt" // The default path of brokers.
	}
	return target, nil
}

// dial opens the connection for MQTT.
func dial(ctx context.Context, target *url.URL, options *Options) (net.Conn, error) {
	if options.Dial != nil {
		return options.Dial(ctx)
	}
	how := schemes[target.Scheme]
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", target.Host)
	if err != nil {
		return nil, err
	}
	if how.secured {
		conn, err = secure(ctx, conn, target.Hostname(), options.TLS)
		if err != nil {
			return nil, err
		}
	}
	if !how.webSocket {
		return conn, nil
	}
	wrapped, err := websocket.Client(ctx, conn, target, options.Header)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return wrapped, nil
}

// dialFailure maps an error of dial to its code.
func (c *Client) dialFailure(ctx context.Context, err error) error {
	var ofName *net.DNSError
	if known := c.attemptFailure(ctx, err); known != nil {
		return known
	}
	switch {
	case errors.As(err, &ofName):
		return wrap(ErrNameNotFound, "connect", err)
	case errors.Is(err, websocket.ErrHandshake):
		var broken *net.OpError
		if errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return &Error{Code: ErrHandshake, Operation: "connect", Detail: c.target.Host, Err: err}
		}
		return &Error{Code: ErrWebSocketRefused, Operation: "connect", Detail: c.target.Host, Err: err}
	}
	return wrap(ErrUnreachable, "connect", err)
}

// handshakeFailure maps an error between CONNECT and CONNACK to its code.
func (c *Client) handshakeFailure(ctx context.Context, err error) error {
	if known := c.attemptFailure(ctx, err); known != nil {
		return known
	}
	return &Error{Code: ErrHandshake, Operation: "connect", Detail: c.target.Host, Err: err}
}

// attemptFailure maps errors that can end an attempt at any time: its time limit, and TLS.
func (c *Client) attemptFailure(ctx context.Context, err error) error {
	var secured *tlsError
	switch {
	case c.life.Err() != nil:
		return context.Cause(c.life)
	case ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded):
		detail := fmt.Sprintf("%s, %v", c.target.Host, c.options.Timeouts.Connect)
		return &Error{Code: ErrConnectTimeout, Operation: "connect", Detail: detail, Err: context.DeadlineExceeded}
	case errors.As(err, &secured):
		return &Error{Code: secured.code, Operation: "connect", Detail: secured.detail, Err: secured.err}
	}
	return nil
}
