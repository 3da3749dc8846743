package packets

import "fmt"

// Error says why bytes are not a packet, why a setter refused a value, or why a packet is not well formed.
//
// The embedded [Cause] has the stable code, the reason code to answer with and the statement of the standard. Compare with
// [errors.Is] against a [Cause] or a [Fault].
type Error struct {
	Cause
	// Offset is the byte at which decoding failed, from the start of the packet's fixed header; -1 if nothing was decoded.
	// For topics and filters it is the byte within the string.
	Offset int
	// Field names the field or property at fault in snake case; empty when decoding.
	Field string
	// Needed is for [CauseIncomplete]: at least so many bytes in all, before another attempt is worth it.
	Needed int
}

// Error gives one line: what is wrong, what to do, the code and the place.
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

// Unwrap gives the [Cause].
func (e *Error) Unwrap() error { return e.Cause }

// Fault says who is at fault (section 4.13). It is an error itself, for [errors.Is]:
//
//	if errors.Is(err, packets.FaultMalformed) { … }
type Fault uint8

// Who is at fault.
const (
	FaultIncomplete    Fault = iota + 1 // Nobody: bytes are missing.
	FaultMalformed                      // The bytes cannot be parsed, or the packet cannot be written.
	FaultProtocolError                  // It can be parsed, but says what the standard does not allow.
	FaultTooLarge                       // The packet is larger than the receiver accepts.
)

// String gives "incomplete", "malformed", "protocol_error" or "too_large".
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

// Error is String.
func (f Fault) Error() string { return f.String() }

// Is says whether target is the cause's [Fault], for [errors.Is].
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
