package packets

import (
	"io"
)

// ConnAck is CONNACK: the answer to CONNECT (section 3.2).
type ConnAck struct {
	props
	versioned
	sessionPresent bool
	reason         ReasonCode
}

// NewConnAck creates the answer with that reason. It fails for codes that CONNACK may not carry [MQTT-3.2.2-8].
func NewConnAck(reason ReasonCode) (*ConnAck, error) {
	p := &ConnAck{}
	if err := p.SetReason(reason); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypeConnAck].
func (p *ConnAck) Type() Type { return TypeConnAck }

// SessionPresent reports whether the server resumes an existing session.
func (p *ConnAck) SessionPresent() bool { return p.sessionPresent }

// SetSessionPresent sets whether the server resumes an existing session. It fails for a refusal [MQTT-3.2.2-6].
func (p *ConnAck) SetSessionPresent(present bool) error {
	if present && p.reason != ReasonSuccess {
		return fieldError(CauseSessionPresentOnFailure, "session_present")
	}
	p.sessionPresent = present
	return nil
}

// Reason returns the reason code. Before MQTT 5.0 it is translated from the return code with the same meaning.
func (p *ConnAck) Reason() ReasonCode { return p.reason }

// SetReason sets the reason code. It fails for codes that CONNACK may not carry [MQTT-3.2.2-8]. A failure clears Session Present
// [MQTT-3.2.2-6].
func (p *ConnAck) SetReason(reason ReasonCode) error {
	if !reason.AllowedIn(TypeConnAck) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.reason = reason
	p.sessionPresent = p.sessionPresent && reason == ReasonSuccess
	return nil
}

// WellFormed implements [Packet].
func (p *ConnAck) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *ConnAck) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *ConnAck) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *ConnAck) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *ConnAck) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *ConnAck) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *ConnAck) Clone() *ConnAck {
	c := &ConnAck{versioned: p.versioned, sessionPresent: p.sessionPresent, reason: p.reason}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *ConnAck) clone() Packet { return p.Clone() }

func (p *ConnAck) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if !p.version.isV5() {
		if _, ok := p.reason.returnCode(); !ok {
			return CauseNotInVersion, "reason"
		}
	}
	if p.lacksMethod() {
		return CauseAuthenticationDataAlone, "authentication_data"
	}
	return causeNone, ""
}

func (p *ConnAck) firstByte() byte { return TypeConnAck.firstByte() }

func (p *ConnAck) bodyLen() int {
	if p.version.isV5() {
		return 2 + p.props.size()
	}
	return 2
}

func (p *ConnAck) appendBody(dst []byte) []byte {
	dst = append(dst, byte(oneIf(p.sessionPresent)))
	if p.version.isV5() {
		return p.props.appendTo(append(dst, byte(p.reason)))
	}
	code, _ := p.reason.returnCode()
	return append(dst, code)
}

func (p *ConnAck) decode(body []byte, version Version, mode uint32) (Cause, int) {
	if len(body) < 1 {
		return CauseFieldPastEnd, 0
	}
	if body[0] > 1 {
		return CauseConnAckFlagsReserved, 0
	}
	if len(body) < 2 {
		return CauseFieldPastEnd, 1
	}
	p.version, p.sessionPresent, p.reason = version, body[0] == 1, ReasonCode(body[1])
	if version != V5 {
		if int(body[1]) >= len(returnCodes) {
			return CauseReasonCodeUnknown, 1
		}
		p.reason = returnCodes[body[1]]
	}
	if !p.reason.AllowedIn(TypeConnAck) {
		return CauseReasonCodeUnknown, 1
	}
	if p.sessionPresent && p.reason != ReasonSuccess {
		return CauseSessionPresentOnFailure, 0
	}
	at := 2
	p.block, p.seen = nil, mode
	if version == V5 {
		next, cause := p.props.decode(body, at, TypeConnAck, mode)
		if cause != causeNone {
			return cause, next
		}
		at = next
	}
	if at != len(body) {
		return CauseTrailingBytes, at
	}
	return causeNone, 0
}

func (p *ConnAck) describe(d *description) {
	d.add("reason", p.reason)
	d.addIf(p.sessionPresent, "session_present", true)
}
