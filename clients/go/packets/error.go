package packets

import "fmt"

// Error is the error of a failed decode, a refused value, or a packet that is not well formed.
//
// The embedded [Cause] has the stable code, the reason code to answer with and the statement of the standard. Compare with
// [errors.Is] against a [Cause] or a [Fault].
type Error struct {
	Cause
	// Offset is the position of the fault, from the start of the fixed header; -1 if nothing was decoded. For topics and
	// filters it is the position within the string.
	Offset int
	// Field names the field or property at fault in snake case; empty when decoding.
	Field string
	// Needed is for [CauseIncomplete]: the minimum total number of bytes for another attempt.
	Needed int
}

// Error returns one line: what is wrong, what to do, the code and the position.
func (e *Error) Error() string {
	text := e.Cause.Error() + " [" + e.Code() + "]"
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Offset >= 0 {
		text += fmt.Sprintf(" at byte %d", e.Offset)
	}
	if e.Needed > 0 {
		text += fmt.Sprintf(", at least %d bytes are needed", e.Needed)
	}
	if statement := e.Statement(); statement != "" {
		text += " (" + statement + ")"
	}
	return text
}

// Unwrap returns the [Cause].
func (e *Error) Unwrap() error { return e.Cause }

// Fault is the class of an error (section 4.13). It is an error, for [errors.Is]:
//
//	if errors.Is(err, packets.FaultMalformed) { … }
type Fault uint8

// The classes of errors.
const (
	FaultIncomplete    Fault = iota + 1 // Bytes are missing.
	FaultMalformed                      // The bytes cannot be parsed, or the packet cannot be written.
	FaultProtocolError                  // It can be parsed, but violates the standard.
	FaultTooLarge                       // The packet is larger than the receiver accepts.
)

// String returns "incomplete", "malformed", "protocol_error" or "too_large".
func (f Fault) String() string {
	switch f {
	case FaultIncomplete:
		return "incomplete"
	case FaultMalformed:
		return "malformed"
	case FaultProtocolError:
		return "protocol_error"
	case FaultTooLarge:
		return "too_large"
	}
	return fmt.Sprintf("Fault(%d)", uint8(f))
}

// Error returns the same as String.
func (f Fault) Error() string { return f.String() }

// Is reports whether target is the cause's [Fault], for [errors.Is].
func (c Cause) Is(target error) bool {
	fault, ok := target.(Fault)
	return ok && fault == c.Fault()
}

// decodeError is the error of a check that failed at a byte of the packet.
func decodeError(cause Cause, offset int) *Error { return &Error{Cause: cause, Offset: offset} }

func incomplete(needed, have int) *Error {
	return &Error{Cause: CauseIncomplete, Offset: have, Needed: needed}
}

// fieldError is the error of a field that may not be written.
func fieldError(cause Cause, field string) error {
	return &Error{Cause: cause, Offset: -1, Field: field}
}
