// Package websocket carries MQTT over WebSocket (RFC 6455, MQTT 5.0 section 6): the opening handshake of both sides,
// and a net.Conn over binary messages. It supports neither extensions nor text messages.
package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Subprotocol is the subprotocol of MQTT [MQTT-6.0.0-3] [MQTT-6.0.0-4].
const Subprotocol = "mqtt"

// MaxHandshakeBytes limits the request or response of the opening handshake.
const MaxHandshakeBytes = 16 * 1024

// The errors of this package; each returned error is one of them, by errors.Is, or one of the underlying connection.
var (
	// ErrHandshake means that the peer did not agree to MQTT over WebSocket.
	ErrHandshake = errors.New("websocket: the opening handshake failed")
	// ErrProtocol means that a frame violates RFC 6455, or is not part of a binary message [MQTT-6.0.0-1].
	ErrProtocol = errors.New("websocket: protocol violation")
)

// The hash proves nothing about the peer; the constant is from RFC 6455 section 1.3.
const acceptSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + acceptSuffix))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func hasToken(header http.Header, name, token string) bool {
	for _, value := range header.Values(name) {
		for each := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(each), token) {
				return true
			}
		}
	}
	return false
}

func handshakeError(format string, arguments ...any) error {
	return fmt.Errorf("%w: %w", ErrHandshake, fmt.Errorf(format, arguments...))
}

func protocolError(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, arguments...))
}
