package packets

import "io"

// Disconnect is DISCONNECT: the last packet of a connection (section 3.14).
type Disconnect struct {
	props
	versioned
	reason ReasonCode
}

// NewDisconnect creates the packet with that reason. It fails for codes that DISCONNECT may not carry
// [MQTT-3.14.2-1].
func NewDisconnect(reason ReasonCode) (*Disconnect, error) {
	p := &Disconnect{}
	if err := p.SetReason(reason); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypeDisconnect].
func (p *Disconnect) Type() Type { return TypeDisconnect }

// Reason returns why the connection ends. MQTT 3.1.1 has only [ReasonNormalDisconnection].
func (p *Disconnect) Reason() ReasonCode { return p.reason }

// SetReason sets why the connection ends. It fails for codes that DISCONNECT may not carry [MQTT-3.14.2-1].
func (p *Disconnect) SetReason(reason ReasonCode) error {
	if !reason.AllowedIn(TypeDisconnect) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.reason = reason
	return nil
}

// WellFormed implements [Packet].
func (p *Disconnect) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *Disconnect) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *Disconnect) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *Disconnect) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *Disconnect) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *Disconnect) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *Disconnect) Clone() *Disconnect {
	c := &Disconnect{versioned: p.versioned, reason: p.reason}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *Disconnect) clone() Packet { return p.Clone() }

func (p *Disconnect) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if p.reason != ReasonNormalDisconnection && !p.version.isV5() {
		return CauseNotInVersion, "reason"
	}
	return causeNone, ""
}

func (p *Disconnect) firstByte() byte { return TypeDisconnect.firstByte() }

func (p *Disconnect) bodyLen() int { return tailLen(p.reason, &p.props) }

func (p *Disconnect) appendBody(dst []byte) []byte { return appendTail(dst, p.reason, &p.props) }

func (p *Disconnect) decode(body []byte, version Version, mode uint32) (cause Cause, at int) {
	p.version, p.reason = version, ReasonNormalDisconnection
	p.block, p.seen = nil, mode
	if len(body) == 0 {
		return causeNone, 0
	}
	if version != V5 {
		return CauseTrailingBytes, 0
	}
	p.reason, cause, at = decodeTail(TypeDisconnect, &p.props, body, 0, mode)
	return cause, at
}

func (p *Disconnect) describe(d *description) { d.add("reason", p.reason) }
