package packets

import (
	"io"
	"slices"
	"sync"
)

// Packet is a control packet: one of [*Connect], [*ConnAck], [*Publish], [*PubAck], [*PubRec], [*PubRel], [*PubComp],
// [*Subscribe], [*SubAck], [*Unsubscribe], [*UnsubAck], [*PingReq], [*PingResp], [*Disconnect] and [*Auth]. Their zero values
// are ready to use. Do not copy them, call Clone.
type Packet interface {
	// Type returns the type of the packet.
	Type() Type
	// Version returns the protocol version of the packet; 5.0 unless set or decoded otherwise.
	Version() Version
	// SetVersion sets the version. WellFormed reports whether the version can express the packet.
	SetVersion(Version)
	// Properties returns the properties of the packet; none before MQTT 5.0.
	Properties() Properties
	// WellFormed returns what is wrong with the packet, as an [*Error] with the statement of the standard; nil if it may be
	// sent. Setters refuse invalid values, so that only missing fields and conflicts remain.
	WellFormed() error
	// Size returns the size of the packet, including the fixed header.
	Size() int
	// AppendTo appends the packet to dst. If it is not well formed, it returns dst unchanged, with the error of WellFormed.
	AppendTo(dst []byte) ([]byte, error)
	// WriteTo writes the packet in one Write. If it is not well formed, nothing is written.
	WriteTo(w io.Writer) (int64, error)
	// String describes the packet on one line, for logs, without payload, password and authentication data.
	String() string
	// Dump describes the complete packet on many lines, including the payload and the bytes on the wire, for debugging. Password
	// and authentication data are omitted from the fields; the bytes of packets that may contain them are not shown.
	Dump() string

	fault() (cause Cause, field string)
	firstByte() byte
	bodyLen() int
	appendBody(dst []byte) []byte
	describe(d *description)
	clone() Packet
}

// Clone copies the packet and its content into memory of its own, so that a packet of a [Decoder] or [Reader] can be kept. If
// you know the type of the packet, its own method Clone returns that type.
func Clone(p Packet) Packet { return p.clone() }

// versioned is the version of a packet.
type versioned struct{ version Version }

// Version returns the protocol version of the packet; 5.0 unless set or decoded otherwise.
func (v *versioned) Version() Version { return v.version.orV5() }

// SetVersion sets the version. WellFormed reports whether the version can express the packet.
func (v *versioned) SetVersion(version Version) { v.version = version }

// faultWith returns what is wrong with a packet with those properties in this version.
func (v *versioned) faultWith(p *props) (Cause, string) {
	if v.version.isV5() {
		return causeNone, ""
	}
	if !v.version.isKnown() {
		return CauseVersionUnknown, "version"
	}
	if len(p.block) > 0 {
		return CauseNotInVersion, "properties"
	}
	return causeNone, ""
}

// identified is the packet identifier of a packet that always has one.
type identified struct{ packetID PacketID }

// PacketID returns the packet identifier; 0 if it has not been set.
func (i *identified) PacketID() PacketID { return i.packetID }

// SetPacketID sets the packet identifier. It fails for 0 [MQTT-2.2.1-3].
func (i *identified) SetPacketID(id PacketID) error {
	if id == 0 {
		return fieldError(CausePacketIDZero, "packet_id")
	}
	i.packetID = id
	return nil
}

func wellFormed(p Packet) error {
	if cause, field := p.fault(); cause != causeNone {
		return fieldError(cause, field)
	}
	if p.bodyLen() > MaxRemainingLength {
		return fieldError(CausePacketTooLarge, "remaining_length")
	}
	return nil
}

func size(p Packet) int {
	bodyLen := p.bodyLen()
	return 1 + varintLen(bodyLen) + bodyLen
}

func appendPacket(dst []byte, p Packet) ([]byte, error) {
	if err := wellFormed(p); err != nil {
		return dst, err
	}
	bodyLen := p.bodyLen()
	dst = slices.Grow(dst, 5+bodyLen)
	return p.appendBody(appendVarint(append(dst, p.firstByte()), bodyLen)), nil
}

// availableBuffer is a writer with free memory to write into: bytes.Buffer, bufio.Writer.
type availableBuffer interface{ AvailableBuffer() []byte }

func writePacket(w io.Writer, p Packet) (int64, error) {
	if lender, ok := w.(availableBuffer); ok {
		return writeLent(w, p, lender.AvailableBuffer())
	}
	scratch := scratches.Get().(*[]byte)
	written, err := writeLent(w, p, (*scratch)[:0])
	scratches.Put(scratch)
	return written, err
}

func writeLent(w io.Writer, p Packet, buffer []byte) (int64, error) {
	encoded, err := p.AppendTo(buffer)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(encoded)
	return int64(n), err
}

// scratchBytes is the size of pooled buffers for writers without free memory; larger packets get their own memory.
const scratchBytes = 4096

var scratches = sync.Pool{New: func() any {
	scratch := make([]byte, 0, scratchBytes)
	return &scratch
}}
