package packets

import (
	"encoding/binary"
	"io"
)

// Raw builds the bytes of one packet without validation, for tests. Do not use it in production.
//
//	// PUBLISH with both QoS bits set [MQTT-3.3.1-4].
//	b := packets.NewRaw(0x36).Text("a/b").Uint16(1).Bytes([]byte("hi")).Build()
type Raw struct {
	// FirstByte is the type and the flags.
	FirstByte byte
	// Body is the content after the fixed header.
	Body []byte
	// length replaces the remaining length; nil for the correct one.
	length []byte
}

// NewRaw starts a packet with that type and flags, and an empty body.
func NewRaw(firstByte byte) *Raw { return &Raw{FirstByte: firstByte} }

// RawOf starts with the bytes of a packet, well formed or not, to modify them.
func RawOf(p Packet) *Raw { return &Raw{FirstByte: p.firstByte(), Body: p.appendBody(nil)} }

// RemainingLength sets the remaining length, independent of the body. Above [MaxRemainingLength] it takes five bytes.
func (r *Raw) RemainingLength(claimed uint32) *Raw {
	r.length = appendVarint(nil, int(claimed))
	return r
}

// RemainingLengthBytes sets the bytes of the remaining length.
func (r *Raw) RemainingLengthBytes(b ...byte) *Raw {
	r.length = append([]byte{}, b...)
	return r
}

// Byte appends one byte to the body.
func (r *Raw) Byte(value byte) *Raw { return r.Bytes([]byte{value}) }

// Uint16 appends two bytes, big-endian: a packet identifier, also 0, or a keep alive.
func (r *Raw) Uint16(value uint16) *Raw {
	r.Body = binary.BigEndian.AppendUint16(r.Body, value)
	return r
}

// Uint32 appends four bytes, big-endian.
func (r *Raw) Uint32(value uint32) *Raw {
	r.Body = binary.BigEndian.AppendUint32(r.Body, value)
	return r
}

// Varint appends a variable byte integer in its shortest form; five bytes above [MaxRemainingLength]. For other forms use Bytes.
func (r *Raw) Varint(value uint32) *Raw {
	r.Body = appendVarint(r.Body, int(value))
	return r
}

// Bytes appends bytes unchanged.
func (r *Raw) Bytes(b []byte) *Raw {
	r.Body = append(r.Body, b...)
	return r
}

// Text appends a two-byte length and the text: a topic with wildcards, an invalid filter, U+0000, invalid UTF-8. The length of a
// text of more than 65,535 bytes is truncated to 16 bits.
func (r *Raw) Text(text string) *Raw { return r.TextWithLength(uint16(len(text)), text) }

// TextWithLength appends a text with any length prefix.
func (r *Raw) TextWithLength(length uint16, text string) *Raw {
	return r.Uint16(length).Bytes([]byte(text))
}

// Properties appends a property length and the block: unknown, repeated or malformed properties.
func (r *Raw) Properties(block []byte) *Raw {
	return r.PropertiesWithLength(uint32(len(block)), block)
}

// PropertiesWithLength appends a block with any property length.
func (r *Raw) PropertiesWithLength(length uint32, block []byte) *Raw {
	return r.Varint(length).Bytes(block)
}

// Build returns the bytes of the packet.
func (r *Raw) Build() []byte {
	length := r.length
	if length == nil {
		length = appendVarint(nil, len(r.Body))
	}
	return append(append([]byte{r.FirstByte}, length...), r.Body...)
}

// WriteTo writes the bytes of the packet in one Write.
func (r *Raw) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(r.Build())
	return int64(n), err
}
