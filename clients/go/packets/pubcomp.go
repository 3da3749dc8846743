package packets

import (
	"encoding/binary"
	"io"
)

// PubComp is PUBCOMP: the exchange of a QoS 2 message is complete (section 3.7).
type PubComp struct {
	props
	identified
	versioned
	reason ReasonCode
}

// NewPubComp creates the packet with the reason Success. It fails for identifier 0 [MQTT-2.2.1-3].
func NewPubComp(id PacketID) (*PubComp, error) {
	p := &PubComp{}
	if err := p.SetPacketID(id); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypePubComp].
func (p *PubComp) Type() Type { return TypePubComp }

// Reason returns the reason code. MQTT 3.1.1 has only success.
func (p *PubComp) Reason() ReasonCode { return p.reason }

// SetReason sets the reason code. It fails for codes that PUBCOMP may not carry [MQTT-3.7.2-1].
func (p *PubComp) SetReason(reason ReasonCode) error {
	if !reason.AllowedIn(TypePubComp) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.reason = reason
	return nil
}

// WellFormed implements [Packet].
func (p *PubComp) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *PubComp) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *PubComp) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *PubComp) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *PubComp) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *PubComp) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *PubComp) Clone() *PubComp {
	c := &PubComp{identified: p.identified, versioned: p.versioned, reason: p.reason}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *PubComp) clone() Packet { return p.Clone() }

func (p *PubComp) fault() (Cause, string) {
	return ackFault(&p.props, &p.versioned, p.packetID, p.reason)
}

func (p *PubComp) firstByte() byte { return TypePubComp.firstByte() }

func (p *PubComp) bodyLen() int { return 2 + tailLen(p.reason, &p.props) }

func (p *PubComp) appendBody(dst []byte) []byte {
	return appendTail(binary.BigEndian.AppendUint16(dst, uint16(p.packetID)), p.reason, &p.props)
}

func (p *PubComp) decode(body []byte, version Version, mode uint32) (cause Cause, at int) {
	p.version = version
	p.packetID, p.reason, cause, at = decodeAck(TypePubComp, &p.props, body, version, mode)
	return cause, at
}

func (p *PubComp) describe(d *description) { describeAck(d, p.packetID, p.reason) }
