package packets

import (
	"io"
	"slices"
)

// SubAck is SUBACK: the answer to SUBSCRIBE (section 3.9).
type SubAck struct {
	props
	// codes are validated reason codes.
	codes []byte
	identified
	versioned
}

// NewSubAck creates the answer to the packet with that identifier, without reason codes; call Add. It fails for identifier 0
// [MQTT-2.2.1-3].
func NewSubAck(id PacketID) (*SubAck, error) {
	p := &SubAck{}
	if err := p.SetPacketID(id); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypeSubAck].
func (p *SubAck) Type() Type { return TypeSubAck }

// Add appends the reason code of the next topic filter, in the order of the filters [MQTT-3.9.3-1]. It fails for codes that SUBACK
// may not carry [MQTT-3.9.3-2].
func (p *SubAck) Add(reason ReasonCode) error {
	if !reason.AllowedIn(TypeSubAck) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.codes = append(p.codes, byte(reason))
	return nil
}

// Len returns the number of reasons.
func (p *SubAck) Len() int { return len(p.codes) }

// Reason returns the reason code of a topic filter, counted from 0. It panics if the index is out of range.
func (p *SubAck) Reason(at int) ReasonCode { return ReasonCode(p.codes[at]) }

// Reasons returns all reason codes, in the order of the topic filters.
func (p *SubAck) Reasons() []ReasonCode {
	reasons := make([]ReasonCode, len(p.codes))
	for at, code := range p.codes {
		reasons[at] = ReasonCode(code)
	}
	return reasons
}

// WellFormed implements [Packet].
func (p *SubAck) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *SubAck) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *SubAck) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *SubAck) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *SubAck) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *SubAck) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *SubAck) Clone() *SubAck {
	c := &SubAck{codes: slices.Clone(p.codes), identified: p.identified, versioned: p.versioned}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *SubAck) clone() Packet { return p.Clone() }

func (p *SubAck) fault() (Cause, string) {
	if cause, field := p.faultWith(&p.props); cause != causeNone {
		return cause, field
	}
	if p.packetID == 0 {
		return CausePacketIDZero, "packet_id"
	}
	if len(p.codes) == 0 {
		return CauseNoReasonCodes, "reasons"
	}
	if !p.version.isV5() && slices.Max(p.codes) > byte(ReasonUnspecifiedError) {
		return CauseNotInVersion, "reasons"
	}
	return causeNone, ""
}

func (p *SubAck) firstByte() byte { return TypeSubAck.firstByte() }

func (p *SubAck) bodyLen() int { return listBodyLen(&p.props, p.version, p.codes) }

func (p *SubAck) appendBody(dst []byte) []byte {
	return appendListBody(dst, p.packetID, &p.props, p.version, p.codes)
}

func (p *SubAck) decode(body []byte, version Version, mode uint32) (Cause, int) {
	p.version = version
	at, cause := decodeListHead(TypeSubAck, &p.packetID, &p.props, body, version, mode)
	if cause != causeNone {
		return cause, at
	}
	p.codes = body[at:len(body):len(body)]
	for _, code := range p.codes {
		// Before MQTT 5.0 a SUBACK grants a QoS or fails with 0x80 [MQTT-3.9.3-2].
		if !ReasonCode(code).AllowedIn(TypeSubAck) || version != V5 && code > byte(ReasonUnspecifiedError) {
			return CauseReasonCodeUnknown, at
		}
		at++
	}
	if len(p.codes) == 0 {
		return CauseNoReasonCodes, at
	}
	return causeNone, 0
}

func (p *SubAck) describe(d *description) {
	d.add("packet_id", p.packetID)
	for _, reason := range p.Reasons() {
		d.add("reason", reason)
	}
}
