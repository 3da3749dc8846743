package scram

import "fmt"

// Code is a stable error code, for errors.Is.
type Code string

const (
	// ErrCredentials: the user name or password is empty, or not visible ASCII and spaces.
	ErrCredentials Code = "scram_credentials"
	// ErrMalformed: the server sent an invalid SCRAM message.
	ErrMalformed Code = "scram_malformed"
	// ErrNonce: the server did not repeat the client's nonce, or did not extend it. The message may be from another exchange.
	ErrNonce Code = "scram_nonce"
	// ErrIterations: the server requests fewer iterations than are safe, or more than [User.MaxIterations].
	ErrIterations Code = "scram_iterations"
	// ErrRefused: the server refuses with a SCRAM error.
	ErrRefused Code = "scram_refused"
	// ErrServerSignature: the server has not proved that it knows the password. It may be an impostor.
	ErrServerSignature Code = "scram_server_signature"
)

func (c Code) Error() string { return string(c) }

// Error is a failure of an exchange on this side.
type Error struct {
	Code   Code
	Detail string
}

// Error returns one line: the detail and the code.
func (e *Error) Error() string { return "scram: " + e.Detail + " [" + string(e.Code) + "]" }

// Is compares codes.
func (e *Error) Is(target error) bool { return target == e.Code }

// Permanent returns true: another attempt would fail in the same way, so the client ends.
func (e *Error) Permanent() bool { return true }

func failure(code Code, format string, arguments ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, arguments...)}
}
