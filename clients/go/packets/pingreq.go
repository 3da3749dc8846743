package packets

import "io"

// PingReq is PINGREQ: the keep alive packet of the client (section 3.12).
type PingReq struct{ versioned }

// Type returns [TypePingReq].
func (p *PingReq) Type() Type { return TypePingReq }

// Properties returns none.
func (p *PingReq) Properties() Properties { return Properties{} }

// WellFormed implements [Packet].
func (p *PingReq) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *PingReq) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *PingReq) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *PingReq) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *PingReq) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *PingReq) Dump() string { return dump(p) }

// Clone copies the packet.
func (p *PingReq) Clone() *PingReq { return &PingReq{p.versioned} }

func (p *PingReq) clone() Packet { return p.Clone() }

func (p *PingReq) fault() (Cause, string) { return p.faultWith(&props{}) }

func (p *PingReq) firstByte() byte { return TypePingReq.firstByte() }

func (p *PingReq) bodyLen() int { return 0 }

func (p *PingReq) appendBody(dst []byte) []byte { return dst }

func (p *PingReq) decode(body []byte, version Version, _ uint32) (Cause, int) {
	p.version = version
	if len(body) > 0 {
		return CauseTrailingBytes, 0
	}
	return causeNone, 0
}

func (p *PingReq) describe(*description) {}
