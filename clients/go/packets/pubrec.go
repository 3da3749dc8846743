package packets

import (
	"encoding/binary"
	"io"
)

// PubRec is PUBREC: a QoS 2 message has been received (section 3.5).
type PubRec struct {
	props
	identified
	versioned
	reason ReasonCode
}

// NewPubRec creates the packet with the reason Success. It fails for identifier 0 [MQTT-2.2.1-3].
func NewPubRec(id PacketID) (*PubRec, error) {
	p := &PubRec{}
	if err := p.SetPacketID(id); err != nil {
		return nil, err
	}
	return p, nil
}

// Type returns [TypePubRec].
func (p *PubRec) Type() Type { return TypePubRec }

// Reason returns the reason code. MQTT 3.1.1 has only success.
func (p *PubRec) Reason() ReasonCode { return p.reason }

// SetReason sets the reason code. It fails for codes that PUBREC may not carry [MQTT-3.5.2-1].
func (p *PubRec) SetReason(reason ReasonCode) error {
	if !reason.AllowedIn(TypePubRec) {
		return fieldError(CauseReasonCodeUnknown, "reason")
	}
	p.reason = reason
	return nil
}

// WellFormed implements [Packet].
func (p *PubRec) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *PubRec) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *PubRec) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *PubRec) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *PubRec) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *PubRec) Dump() string { return dump(p) }

// Clone copies the packet into memory of its own.
func (p *PubRec) Clone() *PubRec {
	c := &PubRec{identified: p.identified, versioned: p.versioned, reason: p.reason}
	_, c.props = p.cloneInto(nil)
	return c
}

func (p *PubRec) clone() Packet { return p.Clone() }

func (p *PubRec) fault() (Cause, string) {
	return ackFault(&p.props, &p.versioned, p.packetID, p.reason)
}

func (p *PubRec) firstByte() byte { return TypePubRec.firstByte() }

func (p *PubRec) bodyLen() int { return 2 + tailLen(p.reason, &p.props) }

func (p *PubRec) appendBody(dst []byte) []byte {
	return appendTail(binary.BigEndian.AppendUint16(dst, uint16(p.packetID)), p.reason, &p.props)
}

func (p *PubRec) decode(body []byte, version Version, mode uint32) (cause Cause, at int) {
	p.version = version
	p.packetID, p.reason, cause, at = decodeAck(TypePubRec, &p.props, body, version, mode)
	return cause, at
}

func (p *PubRec) describe(d *description) { describeAck(d, p.packetID, p.reason) }
