package scram

import "fmt"

// Code is a stable name of what can go wrong. It is an error, for errors.Is.
type Code string

const (
	// ErrCredentials: user name or password is empty, or not of visible ASCII and spaces.
	ErrCredentials Code = "scram_credentials"
	// ErrMalformed: the server sent something else than SCRAM.
	ErrMalformed Code = "scram_malformed"
	// ErrNonce: the server did not repeat the client's nonce, or added nothing to it. The message may be from another exchange.
	ErrNonce Code = "scram_nonce"
	// ErrIterations: the server asks for fewer iterations than are safe, or for more than [User.MaxIterations].
	ErrIterations Code = "scram_iterations"
	// ErrRefused: the server refuses, in words of SCRAM.
	ErrRefused Code = "scram_refused"
	// ErrServerSignature: the server has not proved that it knows the password. It may be another than it says.
	ErrServerSignature Code = "scram_server_signature"
)

func (c Code) Error() string { return string(c) }

// Error is what went wrong on this side of an exchange.
type Error struct {
	Code   Code
	Detail string
}

// Error gives one line: what was wrong, and the code.
func (e *Error) Error() string { return "scram: " + e.Detail + " [" + string(e.Code) + "]" }

// Is compares codes.
func (e *Error) Is(target error) bool { return target == e.Code }

// Permanent says that trying again would end the same way: the client gives up.
func (e *Error) Permanent() bool { return true }

func failure(code Code, format string, arguments ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, arguments...)}
}
