package packets

import (
	"fmt"
	"io"
	"slices"
	"sync"
)

// ReadPacket reads one packet into memory of its own, and not a byte more. That memory grows as bytes arrive, whatever length is
// announced. At the end of the input the error is [io.EOF], within a packet it wraps [io.ErrUnexpectedEOF]; errors of r are
// returned unchanged; all others are an [*Error]. After any error the stream is unusable.
//
// If r is not an [io.ByteReader], it reads the fixed header in small pieces: a [*bufio.Reader] around a connection saves system
// calls, and a [Reader] allocations.
func ReadPacket(r io.Reader, o Options) (Packet, error) {
	var h Header
	var err error
	if bytesOf, ok := r.(io.ByteReader); ok {
		h, err = readHeader(bytesOf, o)
	} else {
		h, err = readHeaderOf(r, o)
	}
	if err != nil {
		return nil, err
	}
	version := o.Version.orV5()
	if h.Type == TypePublish && h.RemainingLength <= trustedBytes {
		p, memory := newPublishWith(h.RemainingLength)
		if err := readFull(r, memory); err != nil {
			return nil, cutShort(err)
		}
		return p.decodeOwned(h, memory, version)
	}
	body, err := readBody(r, h.RemainingLength)
	if err != nil {
		return nil, cutShort(err)
	}
	if h.Type == TypePublish {
		return new(Publish).decodeOwned(h, body, version)
	}
	return decodeOwned(h, body, version)
}

func readHeader(r io.ByteReader, o Options) (Header, error) {
	first, err := r.ReadByte()
	if err != nil {
		return Header{}, err
	}
	if !mayBegin(first, o.Version) {
		return Header{}, decodeError(flagsCause(first), 0)
	}
	h := Header{Type: Type(first >> 4), Flags: first & 0x0F, Len: 1}
	for {
		c, err := r.ReadByte()
		if err != nil {
			return Header{}, cutShort(err)
		}
		h.RemainingLength |= int(c&0x7F) << (7 * (h.Len - 1))
		h.Len++
		if c < 0x80 {
			if c == 0 && h.Len > 2 {
				return Header{}, decodeError(CauseVariableByteIntegerNotMinimal, 1)
			}
			break
		}
		if h.Len == 5 {
			return Header{}, decodeError(CauseVariableByteIntegerTooLong, 1)
		}
	}
	if h.Len+h.RemainingLength > o.maxPacketSize() {
		return Header{}, decodeError(CausePacketTooLarge, 1)
	}
	return h, nil
}

// readHeaderOf is readHeader for a plain io.Reader.
func readHeaderOf(r io.Reader, o Options) (Header, error) {
	single := singles.Get().(*singleBytes)
	single.r = r
	h, err := readHeader(single, o)
	single.r = nil
	singles.Put(single)
	return h, err
}

// singleBytes makes an io.ByteReader of a plain io.Reader.
type singleBytes struct {
	r    io.Reader
	next [1]byte
}

func (s *singleBytes) ReadByte() (byte, error) {
	_, err := io.ReadFull(s.r, s.next[:])
	return s.next[0], err
}

var singles = sync.Pool{New: func() any { return new(singleBytes) }}

// trustedBytes is how much memory is allocated for an announced length before any of it has arrived.
const trustedBytes = 4096

func readBody(r io.Reader, length int) ([]byte, error) {
	body := make([]byte, min(length, trustedBytes))
	for at := 0; ; {
		n, err := io.ReadFull(r, body[at:])
		at += n
		if err != nil || at == length {
			return body, err
		}
		// Doubles the received amount.
		next := min(length, 2*at)
		body = slices.Grow(body, next-at)[:next]
	}
}

// readFull is io.ReadFull with a fast path for data that arrives in one piece.
func readFull(r io.Reader, b []byte) error {
	if len(b) == 0 {
		// A reader may block for an empty read.
		return nil
	}
	n, err := r.Read(b)
	if n == len(b) {
		return nil
	}
	if err == nil {
		_, err = io.ReadFull(r, b[n:])
	}
	return err
}

// cutShort converts the end of the input within a packet.
func cutShort(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the input ends inside a packet: %w", io.ErrUnexpectedEOF)
	}
	return err
}
