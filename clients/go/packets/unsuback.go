package packets

import (
	"io"
	"slices"
)

// UnsubAck is UNSUBACK: the answer to UNSUBSCRIBE (section 3.11).
type UnsubAck struct {
	props
	// codes are validated reason codes.
	codes []byte
	identified
	versioned
}

// NewUnsubAck creates the answer to the packet with that identifier, without reason codes; call Add. It fails for identifier 0
// [MQTT-2.2.1-3].
func NewUnsubAck(id PacketID) (*UnsubAck, error) {
	p := &UnsubAck{}
	if err := p.SetPacketID(id); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypeUnsubAck].
func (p *UnsubAck) Type() Type { return TypeUnsubAck }

// Add appends the reason code of the next topic filter, in the order of the filters [MQTT-3.11.3-1]. It fails for codes that UNSUBACK
// may not carry [MQTT-3.11.3-2].
func (p *UnsubAck) Add(reason ReasonCode) error {
	if !reason.AllowedIn(TypeUnsubAck) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.codes = append(p.codes, byte(reason))
	return nil
}

// Len returns the number of reasons.
func (p *UnsubAck) Len() int { return len(p.codes) }

// Reason returns the reason code of a topic filter, counted from 0. It panics if the index is out of range.
func (p *UnsubAck) Reason(at int) ReasonCode { return ReasonCode(p.codes[at]) }

// Reasons returns all reason codes, in the order of the topic filters.
func (p *UnsubAck) Reasons() []ReasonCode {
	reasons := make([]ReasonCode, len(p.codes))
	for at, code := range p.codes {
		reasons[at] = ReasonCode(code)
	}
	return reasons
}

// WellFormed implements [Packet].
func (p *UnsubAck) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *UnsubAck) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *UnsubAck) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *UnsubAck) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *UnsubAck) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *UnsubAck) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *UnsubAck) Clone() *UnsubAck {
	c := &UnsubAck{codes: slices.Clone(p.codes), identified: p.identified, versioned: p.versioned}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *UnsubAck) clone() Packet { return p.Clone() }

func (p *UnsubAck) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if p.packetID == 0 {
		return CausePacketIDZero, "packet_id"
	}
	if !p.version.isV5() {
		if len(p.codes) > 0 {
			return CauseNotInVersion, "reasons"
		}
	} else if len(p.codes) == 0 {
		return CauseNoReasonCodes, "reasons"
	}
	return causeNone, ""
}

func (p *UnsubAck) firstByte() byte { return TypeUnsubAck.firstByte() }

func (p *UnsubAck) bodyLen() int { return listBodyLen(&p.props, p.version, p.codes) }

func (p *UnsubAck) appendBody(dst []byte) []byte {
	return appendListBody(dst, p.packetID, &p.props, p.version, p.codes)
}

func (p *UnsubAck) decode(body []byte, version Version, mode uint32) (Cause, int) {
	p.version = version
	at, cause := decodeListHead(TypeUnsubAck, &p.packetID, &p.props, body, version, mode)
	if cause != causeNone {
		return cause, at
	}
	p.codes = body[at:len(body):len(body)]
	if version != V5 {
		if len(p.codes) > 0 {
			return CauseTrailingBytes, at
		}
		return causeNone, 0
	}
	for _, code := range p.codes {
		if !ReasonCode(code).AllowedIn(TypeUnsubAck) {
			return CauseReasonCodeUnknown, at
		}
		at++
	}
	if len(p.codes) == 0 {
		return CauseNoReasonCodes, at
	}
	return causeNone, 0
}

func (p *UnsubAck) describe(d *description) {
	d.add("packet_id", p.packetID)
	for _, reason := range p.Reasons() {
		d.add("reason", reason)
	}
}
