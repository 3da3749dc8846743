package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Code is a stable code of an error of this package, to compare with [errors.Is]:
//
//	if errors.Is(err, client.ErrQueueFull) { … }
type Code string

// The error codes. Those of TLS begin with ErrTLS.
const (
	// ErrInvalidOptions: an option is out of range, or two options conflict.
	ErrInvalidOptions Code = "invalid_options"
	// ErrInvalidArgument: an argument is wrong. If the standard does not allow it, it wraps a [packets.Error] with details.
	ErrInvalidArgument Code = "invalid_argument"
	// ErrClosed: the client was closed. QoS 1 and 2 messages stay in the store, if there is one.
	ErrClosed Code = "closed"
	// ErrNotConnected: there is no connection, and the operation does not wait for one.
	ErrNotConnected Code = "not_connected"
	// ErrCanceled: the context ended first. Nothing was sent, and nothing will be.
	ErrCanceled Code = "canceled"
	// ErrUnacknowledged: the context ended after the message was sent. It may still be delivered.
	ErrUnacknowledged Code = "unacknowledged"

	// ErrNameNotFound: the name of the server could not be resolved.
	ErrNameNotFound Code = "name_not_found"
	// ErrUnreachable: no connection could be opened.
	ErrUnreachable Code = "unreachable"
	// ErrConnectTimeout: the server did not accept the connection within [Timeouts.Connect].
	ErrConnectTimeout Code = "connect_timeout"
	// ErrHandshake: the connection ended before CONNACK.
	ErrHandshake Code = "handshake_failed"
	// ErrWebSocketRefused: the server does not speak MQTT over WebSocket at that address.
	ErrWebSocketRefused Code = "websocket_refused"
	// ErrConnectionRefused: CONNACK with a refusal; see Reason.
	ErrConnectionRefused Code = "connection_refused"
	// ErrUnsupportedProtocolVersion: the server does not support [Options.Version].
	ErrUnsupportedProtocolVersion Code = "unsupported_protocol_version"
	// ErrRedirected: the server names another server; see ServerReference.
	ErrRedirected Code = "redirected"
	// ErrAuthentication: the [Authenticator] or [Options.Credentials] failed.
	ErrAuthentication Code = "authentication_failed"

	// ErrConnectionLost: the connection was lost.
	ErrConnectionLost Code = "connection_lost"
	// ErrKeepAliveTimeout: the server did not answer a ping in time.
	ErrKeepAliveTimeout Code = "keep_alive_timeout"
	// ErrServerDisconnected: the server sent DISCONNECT; see Reason.
	ErrServerDisconnected Code = "server_disconnected"
	// ErrSessionTakenOver: another client has connected with the same client identifier.
	ErrSessionTakenOver Code = "session_taken_over"
	// ErrProtocol: the server violated the protocol; Reason is the reason code sent to it.
	ErrProtocol Code = "protocol_error"
	// ErrSessionLost: the server has lost the session. It is unknown whether it delivered the QoS 2 message.
	ErrSessionLost Code = "session_lost"
	// ErrStore: the store failed. It wraps the store's error.
	ErrStore Code = "store_failed"

	// ErrQueueFull: [Limits.MaxQueuedMessages] or [Limits.MaxQueuedBytes] is reached.
	ErrQueueFull Code = "queue_full"
	// ErrOutputFull: [Limits.MaxOutputBytes] is reached.
	ErrOutputFull Code = "output_full"
	// ErrExpired: the message waited longer than its expiry interval and was not sent.
	ErrExpired Code = "expired"
	// ErrPacketTooLarge: the packet is larger than the server accepts [MQTT-3.2.2-15].
	ErrPacketTooLarge Code = "packet_too_large"
	// ErrQoSNotSupported: the server accepts only a lower QoS [MQTT-3.2.2-11].
	ErrQoSNotSupported Code = "qos_not_supported"
	// ErrRetainNotSupported: the server does not support retained messages [MQTT-3.2.2-14].
	ErrRetainNotSupported Code = "retain_not_supported"
	// ErrNotSupported: the server or the protocol version does not support this.
	ErrNotSupported Code = "not_supported"
	// ErrPublishRefused: PUBACK or PUBREC with a refusal; see Reason.
	ErrPublishRefused Code = "publish_refused"
	// ErrSubscribeRefused: SUBACK with a refusal of the subscription or its renewal; see Reason.
	ErrSubscribeRefused Code = "subscribe_refused"
	// ErrUnsubscribeRefused: UNSUBACK with a refusal; see Reason.
	ErrUnsubscribeRefused Code = "unsubscribe_refused"
	// ErrUnsubscribed: the subscription was ended by [Subscription.Unsubscribe].
	ErrUnsubscribed Code = "unsubscribed"

	// ErrRequestTimeout: no response arrived in time. It wraps [context.DeadlineExceeded].
	ErrRequestTimeout Code = "request_timeout"
	// ErrRequestFailed: the responder failed; Detail is its explanation.
	ErrRequestFailed Code = "request_failed"
	// ErrNoResponder: no client has subscribed to the topic of the request.
	ErrNoResponder Code = "no_responder"
)

// Error returns the code itself.
func (c Code) Error() string { return string(c) }

// Error is the error type of this package.
type Error struct {
	// Code is stable. [errors.Is] compares it.
	Code Code
	// Operation is what failed, such as "publish".
	Operation string
	// Detail describes this case. It contains no secrets of this client.
	Detail string
	// Reason is the reason code from or to the server; 0 if there is none.
	Reason packets.ReasonCode
	// ReasonString is the server's explanation, if any.
	ReasonString string
	// ServerReference is another server to use, if this one names it.
	ServerReference string
	// Err is the underlying error, if any.
	Err error
}

// Error returns one line: the operation, what is wrong, what to do, the detail, and the code.
func (e *Error) Error() string {
	text := texts[e.Code]
	if detail := e.detail(); detail != "" {
		text += " (" + detail + ")"
	}
	return "mqtt: " + e.Operation + ": " + text + " [" + string(e.Code) + "]"
}

func (e *Error) detail() string {
	var parts []string
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	if e.Reason != 0 {
		parts = append(parts, e.Reason.String())
	}
	if e.ReasonString != "" {
		parts = append(parts, fmt.Sprintf("%q", e.ReasonString))
	}
	if e.ServerReference != "" {
		parts = append(parts, fmt.Sprintf("use the server %q", e.ServerReference))
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Is compares codes.
func (e *Error) Is(target error) bool { return target == e.Code }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failure(code Code, operation, format string, arguments ...any) *Error {
	return &Error{Code: code, Operation: operation, Detail: fmt.Sprintf(format, arguments...)}
}

func wrap(code Code, operation string, err error) *Error {
	return &Error{Code: code, Operation: operation, Err: err}
}

// invalid wraps an error of the codec for an invalid argument.
func invalid(operation string, err error) *Error {
	if errors.Is(err, packets.CausePacketTooLarge) {
		return wrap(ErrPacketTooLarge, operation, err)
	}
	return wrap(ErrInvalidArgument, operation, err)
}

// refusalCode returns the code for a CONNACK.
func refusalCode(reason packets.ReasonCode) Code {
	switch reason {
	case packets.ReasonUnsupportedProtocolVersion:
		return ErrUnsupportedProtocolVersion
	case packets.ReasonUseAnotherServer, packets.ReasonServerMoved:
		return ErrRedirected
	}
	return ErrConnectionRefused
}

// farewellCode returns the code for a DISCONNECT.
func farewellCode(reason packets.ReasonCode) Code {
	switch reason {
	case packets.ReasonSessionTakenOver:
		return ErrSessionTakenOver
	case packets.ReasonUseAnotherServer, packets.ReasonServerMoved:
		return ErrRedirected
	}
	return ErrServerDisconnected
}

// isPermanent reports whether another attempt cannot help: the server refused this client, or another client has taken over its
// session and would be disconnected in turn.
func isPermanent(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case ErrUnsupportedProtocolVersion, ErrRedirected, ErrSessionTakenOver, ErrInvalidOptions:
		return true
	case ErrConnectionRefused:
		switch e.Reason {
		case packets.ReasonClientIdentifierNotValid, packets.ReasonBadUserNameOrPassword, packets.ReasonNotAuthorized,
			packets.ReasonBanned, packets.ReasonBadAuthenticationMethod:
			return true
		case packets.ReasonTopicNameInvalid, packets.ReasonPacketTooLarge, packets.ReasonPayloadFormatInvalid,
			packets.ReasonRetainNotSupported, packets.ReasonQoSNotSupported:
			// A will that the server does not accept.
			return true
		}
	case ErrServerDisconnected:
		return e.Reason == packets.ReasonNotAuthorized
	case ErrAuthentication:
		var judged interface{ Permanent() bool }
		return errors.As(e.Err, &judged) && judged.Permanent()
	}
	return false
}

var sessionCodes = map[error]Code{
	session.ErrQueueFull:   ErrQueueFull,
	session.ErrSessionLost: ErrSessionLost,
	session.ErrExpired:     ErrExpired,
	session.ErrTooLarge:    ErrPacketTooLarge,
	session.ErrQoS:         ErrQoSNotSupported,
	session.ErrRetain:      ErrRetainNotSupported,
}

// fromSession converts errors of the session.
func fromSession(operation string, err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	if code, known := sessionCodes[err]; known {
		return &Error{Code: code, Operation: operation}
	}
	return invalid(operation, err)
}

func closedError(operation string, cause error) error { return wrap(ErrClosed, operation, cause) }

func contextError(code Code, operation string, ctx context.Context) error {
	return wrap(code, operation, causeOf(ctx))
}

// causeOf returns why ctx has ended: the application's cause, if any, wrapped together with [context.Canceled] or
// [context.DeadlineExceeded].
func causeOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	if err := ctx.Err(); err != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return cause
}
