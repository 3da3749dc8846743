package websocket

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Client opens a WebSocket to target over conn, which is connected and has completed its TLS handshake. header is
// added to the request, such as Authorization. If it fails, conn remains open.
func Client(ctx context.Context, conn net.Conn, target *url.URL, header http.Header) (*Conn, error) {
	release := bindDeadline(ctx, conn)
	defer release()
	var nonce [16]byte
	_, _ = rand.Read(nonce[:])
	key := base64.StdEncoding.EncodeToString(nonce[:])
	request := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: target.Path, RawQuery: target.RawQuery}, Host: target.Host,
		ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
	}
	if request.URL.Path == "" {
		request.URL.Path = "/"
	}
	for name, values := range header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Header.Set("Upgrade", "websocket")
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Sec-WebSocket-Version", "13")
	request.Header.Set("Sec-WebSocket-Key", key)
	request.Header.Set("Sec-WebSocket-Protocol", Subprotocol)
	if err := request.Write(conn); err != nil {
		return nil, because(ctx, err)
	}
	limited := &io.LimitedReader{R: conn, N: MaxHandshakeBytes}
	reader := bufio.NewReaderSize(limited, readBufferBytes)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, because(ctx, handshakeError("%w", err))
	}
	switch {
	case response.StatusCode != http.StatusSwitchingProtocols:
		return nil, handshakeError("the server answered %s", response.Status)
	case !hasToken(response.Header, "Upgrade", "websocket") || !hasToken(response.Header, "Connection", "Upgrade"):
		return nil, handshakeError("the response does not upgrade to websocket")
	case response.Header.Get("Sec-WebSocket-Accept") != acceptKey(key):
		return nil, handshakeError("Sec-WebSocket-Accept does not match the key")
	case response.Header.Get("Sec-WebSocket-Extensions") != "":
		return nil, handshakeError("the server chose an extension that was not offered")
	case response.Header.Get("Sec-WebSocket-Protocol") != Subprotocol:
		// [MQTT-6.0.0-4]
		return nil, handshakeError("the server did not choose the subprotocol %q", Subprotocol)
	}
	limited.N = 1<<63 - 1
	return newConn(conn, reader, true), nil
}

// Server answers the opening handshake of a client on conn. Requests for paths other than path get 404; an empty path
// allows all. If it fails, conn remains open.
func Server(ctx context.Context, conn net.Conn, path string) (*Conn, error) {
	release := bindDeadline(ctx, conn)
	defer release()
	limited := &io.LimitedReader{R: conn, N: MaxHandshakeBytes}
	reader := bufio.NewReaderSize(limited, readBufferBytes)
	request, err := http.ReadRequest(reader)
	if err != nil {
		return nil, because(ctx, handshakeError("%w", err))
	}
	key := request.Header.Get("Sec-WebSocket-Key")
	nonce, keyErr := base64.StdEncoding.DecodeString(key)
	switch {
	case path != "" && request.URL.Path != path:
		return nil, refuse(conn, http.StatusNotFound, "there is no WebSocket at %q", request.URL.Path)
	case request.Method != http.MethodGet || !hasToken(request.Header, "Upgrade", "websocket") ||
		!hasToken(request.Header, "Connection", "Upgrade"):
		return nil, refuse(conn, http.StatusUpgradeRequired, "the request does not upgrade to websocket")
	case request.Header.Get("Sec-WebSocket-Version") != "13":
		return nil, refuse(conn, http.StatusUpgradeRequired, "the WebSocket version is not 13")
	case keyErr != nil || len(nonce) != 16:
		return nil, refuse(conn, http.StatusBadRequest, "Sec-WebSocket-Key is not 16 bytes in base64")
	case !hasToken(request.Header, "Sec-WebSocket-Protocol", Subprotocol):
		// [MQTT-6.0.0-3]
		return nil, refuse(conn, http.StatusBadRequest, "the client does not offer the subprotocol %q", Subprotocol)
	}
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n", acceptKey(key), Subprotocol)
	if err != nil {
		return nil, because(ctx, err)
	}
	limited.N = 1<<63 - 1
	return newConn(conn, reader, false), nil
}

func refuse(conn net.Conn, status int, format string, arguments ...any) error {
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		status, http.StatusText(status))
	return handshakeError(format, arguments...)
}

// bindDeadline makes reads and writes of conn fail when ctx ends, until release is called.
func bindDeadline(ctx context.Context, conn net.Conn) (release func()) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	return func() {
		if !stop() {
			<-interrupted
			return
		}
		_ = conn.SetDeadline(time.Time{})
	}
}

func because(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, cause)
	}
	return err
}
