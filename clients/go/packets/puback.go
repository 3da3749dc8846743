package packets

import (
	"encoding/binary"
	"io"
)

// PubAck is PUBACK: a QoS 1 message has been accepted (section 3.4).
type PubAck struct {
	props
	identified
	versioned
	reason ReasonCode
}

// NewPubAck creates the packet with the reason Success. It fails for identifier 0 [MQTT-2.2.1-3].
func NewPubAck(id PacketID) (*PubAck, error) {
	p := &PubAck{}
	if err := p.SetPacketID(id); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypePubAck].
func (p *PubAck) Type() Type { return TypePubAck }

// Reason returns the reason code. MQTT 3.1.1 has only success.
func (p *PubAck) Reason() ReasonCode { return p.reason }

// SetReason sets the reason code. It fails for codes that PUBACK may not carry [MQTT-3.4.2-1].
func (p *PubAck) SetReason(reason ReasonCode) error {
	if !reason.AllowedIn(TypePubAck) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.reason = reason
	return nil
}

// WellFormed implements [Packet].
func (p *PubAck) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *PubAck) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *PubAck) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *PubAck) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *PubAck) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *PubAck) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *PubAck) Clone() *PubAck {
	c := &PubAck{identified: p.identified, versioned: p.versioned, reason: p.reason}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *PubAck) clone() Packet { return p.Clone() }

func (p *PubAck) fault() (Cause, string) {
	return ackFault(&p.props, &p.versioned, p.packetID, p.reason)
}

func (p *PubAck) firstByte() byte { return TypePubAck.firstByte() }

func (p *PubAck) bodyLen() int { return 2 + tailLen(p.reason, &p.props) }

func (p *PubAck) appendBody(dst []byte) []byte {
	return appendTail(binary.BigEndian.AppendUint16(dst, uint16(p.packetID)), p.reason, &p.props)
}

func (p *PubAck) decode(body []byte, version Version, mode uint32) (cause Cause, at int) {
	p.version = version
	p.packetID, p.reason, cause, at = decodeAck(TypePubAck, &p.props, body, version, mode)
	return cause, at
}

func (p *PubAck) describe(d *description) { describeAck(d, p.packetID, p.reason) }
