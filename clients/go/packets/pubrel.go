package packets

import (
	"encoding/binary"
	"io"
)

// PubRel is PUBREL: the sender of a QoS 2 message releases its identifier (section 3.6).
type PubRel struct {
	props
	identified
	versioned
	reason ReasonCode
}

// NewPubRel creates the packet with the reason Success. It fails for identifier 0 [MQTT-2.2.1-3].
func NewPubRel(id PacketID) (*PubRel, error) {
	p := &PubRel{}
	if err := p.SetPacketID(id); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypePubRel].
func (p *PubRel) Type() Type { return TypePubRel }

// Reason returns the reason code. MQTT 3.1.1 has only success.
func (p *PubRel) Reason() ReasonCode { return p.reason }

// SetReason sets the reason code. It fails for codes that PUBREL may not carry [MQTT-3.6.2-1].
func (p *PubRel) SetReason(reason ReasonCode) error {
	if !reason.AllowedIn(TypePubRel) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.reason = reason
	return nil
}

// WellFormed implements [Packet].
func (p *PubRel) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *PubRel) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *PubRel) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *PubRel) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *PubRel) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *PubRel) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *PubRel) Clone() *PubRel {
	c := &PubRel{identified: p.identified, versioned: p.versioned, reason: p.reason}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *PubRel) clone() Packet { return p.Clone() }

func (p *PubRel) fault() (Cause, string) {
	return ackFault(&p.props, &p.versioned, p.packetID, p.reason)
}

func (p *PubRel) firstByte() byte { return TypePubRel.firstByte() }

func (p *PubRel) bodyLen() int { return 2 + tailLen(p.reason, &p.props) }

func (p *PubRel) appendBody(dst []byte) []byte {
	return appendTail(binary.BigEndian.AppendUint16(dst, uint16(p.packetID)), p.reason, &p.props)
}

func (p *PubRel) decode(body []byte, version Version, mode uint32) (cause Cause, at int) {
	p.version = version
	p.packetID, p.reason, cause, at = decodeAck(TypePubRel, &p.props, body, version, mode)
	return cause, at
}

func (p *PubRel) describe(d *description) { describeAck(d, p.packetID, p.reason) }
