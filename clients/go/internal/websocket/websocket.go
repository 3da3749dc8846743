// Package websocket carries MQTT over WebSocket (RFC 6455, MQTT 5.0 section 6): the opening handshake of both sides,
// and a net.Conn whose bytes travel in binary messages. It offers no extensions and no text messages.
package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Subprotocol is the name that client and server agree on [MQTT-6.0.0-3] [MQTT-6.0.0-4].
const Subprotocol = "mqtt"

// MaxHandshakeBytes bounds the request or the response of the opening handshake.
const MaxHandshakeBytes = 16 * 1024

// The failures of this package; each error it returns is one of them, by errors.Is, or one of the connection below.
var (
	// ErrHandshake means that the other side did not agree to speak MQTT over WebSocket.
	ErrHandshake = errors.New("websocket: the opening handshake failed")
	// ErrProtocol means that a frame breaks RFC 6455, or is not of a binary message [MQTT-6.0.0-1].
	ErrProtocol = errors.New("websocket: a frame breaks the protocol")
)

// A keyed hash proves nothing about the peer; the constant is from RFC 6455 section 1.3.
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
