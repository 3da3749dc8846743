package client

import (
	"context"
	"net"
	"net/url"

	"github.com/tautwire/tautwire/clients/go/internal/websocket"
)

// scheme says how an address is reached.
type scheme struct {
	port               string
	secured, webSocket bool
}

var schemes = map[string]scheme{
	"mqtt":  {port: "1883"},
	"tcp":   {port: "1883"},
	"mqtts": {port: "8883", secured: true},
	"ssl":   {port: "8883", secured: true},
	"tls":   {port: "8883", secured: true},
	"ws":    {port: "80", webSocket: true},
	"wss":   {port: "443", secured: true, webSocket: true},
}

func parseAddress(address string) (*url.URL, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, wrap(ErrInvalidOptions, "address", err)
	}
	how, known := schemes[target.Scheme]
	switch {
	case !known:
		return nil, failure(ErrInvalidOptions, "address", "%q is none of mqtt, mqtts, ws and wss", target.Scheme)
	case target.Hostname() == "":
		return nil, failure(ErrInvalidOptions, "address", "there is no host in it; write %s://HOST:PORT", target.Scheme)
	case target.User != nil:
		return nil, failure(ErrInvalidOptions, "address", "credentials belong in Options.Username and Options.Password")
	}
	if target.Port() == "" {
		target.Host = net.JoinHostPort(target.Hostname(), how.port)
	}
	return target, nil
}

// dial opens the connection that MQTT is spoken over.
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
