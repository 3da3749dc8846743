package packets

import "slices"

// MaxPacketSize is the largest packet that the wire format can express, in bytes: 268,435,460.
const MaxPacketSize = 1 + 4 + MaxRemainingLength

// Options are the parameters of the connection for decoding. The zero value is MQTT 5.0 without a limit.
type Options struct {
	// Version is the protocol version of the connection. CONNECT has its own.
	Version Version
	// MaxPacketSize is the largest accepted packet, in bytes, including the fixed header; larger ones are refused as soon as their
	// length is known. 0 means [MaxPacketSize]. No memory is allocated for bytes that have only been announced.
	MaxPacketSize uint32
}

func (o Options) maxPacketSize() int {
	if o.MaxPacketSize == 0 {
		return MaxPacketSize
	}
	return int(min(o.MaxPacketSize, MaxPacketSize))
}

// Decode decodes the packet at the start of b into memory of its own, and returns its length. It ignores the bytes after it.
//
// The error is an [*Error]: [CauseIncomplete] if bytes are missing, unless the packet can be refused already.
func Decode(b []byte, o Options) (p Packet, n int, err error) {
	h, cause := parseHeader(b, o.Version, o.maxPacketSize())
	if cause != causeNone {
		return nil, 0, headerError(cause, b)
	}
	n = h.Len + h.RemainingLength
	if n > len(b) {
		return nil, 0, incomplete(n, len(b))
	}
	if h.Type == TypePublish {
		q, memory := newPublishWith(h.RemainingLength)
		copy(memory, b[h.Len:n])
		p, err = q.decodeOwned(h, memory, o.Version.orV5())
	} else {
		p, err = decodeOwned(h, slices.Clone(b[h.Len:n]), o.Version.orV5())
	}
	if err != nil {
		return nil, 0, err
	}
	return p, n, nil
}

// Header is the fixed header of a packet (section 2.1): its first two to five bytes.
type Header struct {
	// Type is the type of the packet.
	Type Type
	// Flags are the lower four bits of the first byte, valid for the type and the version.
	Flags byte
	// Len is the length of the fixed header, 2 to 5 bytes.
	Len int
	// RemainingLength is the number of bytes after it.
	RemainingLength int
}

// DecodeHeader decodes the fixed header at the start of b. The rest of the packet may be missing. Errors are those of [Decode].
func DecodeHeader(b []byte, o Options) (Header, error) {
	h, cause := parseHeader(b, o.Version, o.maxPacketSize())
	if cause != causeNone {
		return Header{}, headerError(cause, b)
	}
	return h, nil
}

func parseHeader(b []byte, version Version, maxPacketSize int) (h Header, cause Cause) {
	if len(b) == 0 {
		return h, CauseIncomplete
	}
	first := b[0]
	if !mayBegin(first, version) {
		return h, flagsCause(first)
	}
	if len(b) > 1 && b[1] < 0x80 {
		h = Header{Type: Type(first >> 4), Flags: first & 0x0F, Len: 2, RemainingLength: int(b[1])}
	} else {
		remaining, n, cause := readVarint(b[1:])
		if cause != causeNone {
			return h, cause
		}
		h = Header{Type: Type(first >> 4), Flags: first & 0x0F, Len: 1 + n, RemainingLength: remaining}
	}
	if h.Len+h.RemainingLength > maxPacketSize {
		return h, CausePacketTooLarge
	}
	return h, causeNone
}

func headerError(cause Cause, input []byte) *Error {
	switch cause {
	case CauseIncomplete:
		return incomplete(max(2, len(input)+1), len(input))
	case CauseVariableByteIntegerTooLong, CauseVariableByteIntegerNotMinimal, CausePacketTooLarge:
		return decodeError(cause, 1)
	}
	return decodeError(cause, 0)
}

// newPublishWith allocates a PUBLISH and memory for its body, in one allocation if the body is small.
func newPublishWith(bodyLen int) (*Publish, []byte) {
	switch {
	case bodyLen <= len(publish48{}.memory):
		p := new(publish48)
		return &p.Publish, p.memory[:bodyLen]
	case bodyLen <= len(publish112{}.memory):
		p := new(publish112)
		return &p.Publish, p.memory[:bodyLen]
	}
	return new(Publish), make([]byte, bodyLen)
}

// The sizes fill the size classes of the allocator.
type (
	publish48 struct {
		Publish
		memory [48]byte
	}
	publish112 struct {
		Publish
		memory [112]byte
	}
)

func (p *Publish) decodeOwned(h Header, body []byte, version Version) (Packet, error) {
	if cause, at := p.decode(h.Flags, body, version, 0); cause != causeNone {
		return nil, decodeError(cause, h.Len+at)
	}
	return p, nil
}

// decodeOwned decodes a body that will belong to the packet, for all types except PUBLISH.
func decodeOwned(h Header, body []byte, version Version) (p Packet, err error) {
	var cause Cause
	var at int
	switch h.Type {
	case TypeConnect:
		q := new(Connect)
		cause, at = q.decode(body, 0)
		p = q
	case TypeConnAck:
		q := new(ConnAck)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypePubAck:
		q := new(PubAck)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypePubRec:
		q := new(PubRec)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypePubRel:
		q := new(PubRel)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypePubComp:
		q := new(PubComp)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypeSubscribe:
		q := new(Subscribe)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypeSubAck:
		q := new(SubAck)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypeUnsubscribe:
		q := new(Unsubscribe)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypeUnsubAck:
		q := new(UnsubAck)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypePingReq:
		q := new(PingReq)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypePingResp:
		q := new(PingResp)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypeDisconnect:
		q := new(Disconnect)
		cause, at = q.decode(body, version, 0)
		p = q
	case TypeAuth:
		q := new(Auth)
		cause, at = q.decode(body, version, 0)
		p = q
	}
	if cause != causeNone {
		return nil, decodeError(cause, h.Len+at)
	}
	return p, nil
}
