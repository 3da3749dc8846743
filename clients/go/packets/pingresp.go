package packets

import "io"

// PingResp is PINGRESP: the answer to PINGREQ (section 3.13).
type PingResp struct{ versioned }

// Type returns [TypePingResp].
func (p *PingResp) Type() Type { return TypePingResp }

// Properties returns none.
func (p *PingResp) Properties() Properties { return Properties{} }

// WellFormed implements [Packet].
func (p *PingResp) WellFormed() error { return wellFormed(p) }

// Size implements [Packet].
func (p *PingResp) Size() int { return size(p) }

// AppendTo implements [Packet].
func (p *PingResp) AppendTo(dst []byte) ([]byte, error) { return appendPacket(dst, p) }

// WriteTo implements [Packet].
func (p *PingResp) WriteTo(w io.Writer) (int64, error) { return writePacket(w, p) }

// String implements [Packet].
func (p *PingResp) String() string { return oneLine(p) }

// Dump implements [Packet].
func (p *PingResp) Dump() string { return dump(p) }

// Clone copies the packet.
func (p *PingResp) Clone() *PingResp { return &PingResp{p.versioned} }

func (p *PingResp) clone() Packet { return p.Clone() }

func (p *PingResp) fault() (Cause, string) { return p.faultWith(&props{}) }

func (p *PingResp) firstByte() byte { return TypePingResp.firstByte() }

func (p *PingResp) bodyLen() int { return 0 }

func (p *PingResp) appendBody(dst []byte) []byte { return dst }

func (p *PingResp) decode(body []byte, version Version, _ uint32) (Cause, int) {
	p.version = version
	if len(body) > 0 {
		return CauseTrailingBytes, 0
	}
	return causeNone, 0
}

func (p *PingResp) describe(*description) {}
