package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Code is a stable code of an error of this package, to compare with [errors.Is]:
//
//	if errors.Is(err, client.ErrQueueFull) { … }
type Code string

// The codes.
const (
	// ErrInvalidOptions: an option is out of range, or two do not go together.
	ErrInvalidOptions Code = "invalid_options"
	// ErrInvalidPublication: what was to be published is not well formed. It wraps a [packets.Error].
	ErrInvalidPublication Code = "invalid_publication"
	// ErrInvalidFilter: the topic filter is not one. It wraps a [packets.Error].
	ErrInvalidFilter Code = "invalid_filter"
	// ErrClosed: the client was closed. Messages of QoS 1 and 2 stay in the store, if there is one.
	ErrClosed Code = "closed"
	// ErrNotConnected: there is no connection, for something that does not wait for one.
	ErrNotConnected Code = "not_connected"
	// ErrDial: no connection could be opened.
	ErrDial Code = "dial_failed"
	// ErrHandshake: the connection was opened, and ended before CONNACK.
	ErrHandshake Code = "handshake_failed"
	// ErrRefused: the server refused the connection; Reason says why.
	ErrRefused Code = "connection_refused"
	// ErrAuthentication: the [Authenticator] failed.
	ErrAuthentication Code = "authentication_failed"
	// ErrConnectionLost: the connection broke.
	ErrConnectionLost Code = "connection_lost"
	// ErrKeepAliveTimeout: the server did not answer a ping in time.
	ErrKeepAliveTimeout Code = "keep_alive_timeout"
	// ErrDisconnected: the server ended the connection with DISCONNECT; Reason says why.
	ErrDisconnected Code = "disconnected_by_server"
	// ErrProtocol: the server broke the protocol; Reason is what it was told.
	ErrProtocol Code = "protocol_error"
	// ErrStore: the store failed. It wraps the store's error.
	ErrStore Code = "store_failed"
	// ErrQueueFull: [Options.MaxQueuedMessages] or [Options.MaxQueuedBytes] is reached.
	ErrQueueFull Code = "queue_full"
	// ErrSessionLost: the server has lost the session. Whether it delivered the QoS 2 message is not known.
	ErrSessionLost Code = "session_lost"
	// ErrExpired: the message waited longer than its expiry interval, and was not sent.
	ErrExpired Code = "message_expired"
	// ErrPacketTooLarge: the packet is larger than the server takes [MQTT-3.2.2-15].
	ErrPacketTooLarge Code = "packet_too_large"
	// ErrQoSNotSupported: the server takes lower QoS only [MQTT-3.2.2-11].
	ErrQoSNotSupported Code = "qos_not_supported"
	// ErrRetainNotSupported: the server keeps no retained messages [MQTT-3.2.2-14].
	ErrRetainNotSupported Code = "retain_not_supported"
	// ErrNotSupported: the server does not offer this, or the protocol version does not have it.
	ErrNotSupported Code = "not_supported"
	// ErrRejected: the server answered with a reason code of failure; see Reason.
	ErrRejected Code = "rejected"
	// ErrCanceled: the context ended before the message was sent. It will not be sent.
	ErrCanceled Code = "canceled"
	// ErrUnacknowledged: the context ended after the message was sent. It will still be delivered if it can be.
	ErrUnacknowledged Code = "unacknowledged"
	// ErrSubscriptionEnded: the server refused to renew the subscription; see Reason.
	ErrSubscriptionEnded Code = "subscription_ended"
)

// Error gives the code itself.
func (c Code) Error() string { return string(c) }

// Error is what the functions of this package return.
type Error struct {
	// Code is stable. [errors.Is] compares it.
	Code Code
	// Operation is what failed, such as "publish".
	Operation string
	// Detail says what was wrong, and with what.
	Detail string
	// Reason is the server's, or what the server was told; 0 if there is none.
	Reason packets.ReasonCode
	// ReasonString is the server's explanation, if it gave one.
	ReasonString string
	// ServerReference names another server to use, if this one says so.
	ServerReference string
	// Err is the cause, if it is another error.
	Err error
}

// Error gives one line: what failed, what was wrong, and the code.
func (e *Error) Error() string {
	text := "mqtt: " + e.Operation
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Reason != 0 {
		text += ": " + e.Reason.String()
	}
	if e.ReasonString != "" {
		text += fmt.Sprintf(": %q", e.ReasonString)
	}
	if e.ServerReference != "" {
		text += fmt.Sprintf(" (use the server %q)", e.ServerReference)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + " [" + string(e.Code) + "]"
}

// Is compares codes.
func (e *Error) Is(target error) bool { return target == e.Code }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

func failure(code Code, operation, format string, arguments ...any) *Error {
	return &Error{Code: code, Operation: operation, Detail: fmt.Sprintf(format, arguments...)}
}

func wrap(code Code, operation string, err error) *Error {
	return &Error{Code: code, Operation: operation, Err: err}
}

// isPermanent says whether connecting again cannot help: the server said no to this client, or somebody else has taken
// its place, who would be thrown out in turn.
func isPermanent(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case ErrRefused:
		switch e.Reason {
		case packets.ReasonUnspecifiedError, packets.ReasonImplementationSpecificError, packets.ReasonServerUnavailable,
			packets.ReasonServerBusy, packets.ReasonQuotaExceeded, packets.ReasonConnectionRateExceeded,
			packets.ReasonUseAnotherServer:
			return false
		}
		return true
	case ErrDisconnected:
		switch e.Reason {
		case packets.ReasonSessionTakenOver, packets.ReasonNotAuthorized, packets.ReasonServerMoved:
			return true
		}
	case ErrAuthentication:
		var judged interface{ Permanent() bool }
		return errors.As(e.Err, &judged) && judged.Permanent()
	case ErrInvalidOptions:
		return true
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

// fromSession gives errors of the session their code.
func fromSession(operation string, err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	code, known := sessionCodes[err]
	if !known {
		code = ErrInvalidPublication
	}
	return wrap(code, operation, err)
}

func closedError(operation string, cause error) error { return wrap(ErrClosed, operation, cause) }

func contextError(code Code, operation string, ctx context.Context) error {
	return wrap(code, operation, context.Cause(ctx))
}
