package packets

import "io"

const (
	// readAheadBytes is the initial buffer size of a Reader.
	readAheadBytes = 4096
	// keptBytes is the largest buffer that a Reader keeps after a larger packet.
	keptBytes = 64 << 10
	// maxEmptyReads is how many consecutive reads may return no bytes and no error.
	maxEmptyReads = 100
)

// Reader reads packets without allocating: it reads ahead into a buffer that it reuses, and decodes views of it, see [Decoder].
// The buffer grows as bytes arrive, whatever length is announced.
type Reader struct {
	decoder Decoder
	source  io.Reader
	options Options
	// The options, with defaults applied.
	version       Version
	maxPacketSize int
	buffer        []byte
	// buffer[start:end] has been read but not decoded.
	start, end int
	err        error
}

// NewReader creates a Reader of source.
func NewReader(source io.Reader, o Options) *Reader {
	r := &Reader{source: source}
	r.SetOptions(o)
	return r
}

// Options returns the options for later packets.
func (r *Reader) Options() Options { return r.options }

// SetOptions sets the version and the limit for later packets: both sides know them after CONNECT and CONNACK.
func (r *Reader) SetOptions(o Options) {
	r.options, r.version, r.maxPacketSize = o, o.Version.orV5(), o.maxPacketSize()
}

// Buffered returns how many bytes have been read ahead.
func (r *Reader) Buffered() (bytes int) { return r.end - r.start }

// Next reads the next packet. It is valid until the next call; [Clone] makes a permanent copy. At the end of the input the error
// is [io.EOF], within a packet it wraps [io.ErrUnexpectedEOF]; errors of the source are returned unchanged; all others are an
// [*Error]. A refused packet ends the stream: later calls return the same error. Errors of the source, such as a deadline, do
// not.
func (r *Reader) Next() (Packet, error) {
	for {
		needed := 2
		if r.err != nil {
			return nil, r.err
		}
		input := r.buffer[r.start:r.end]
		if h, cause := parseHeader(input, r.version, r.maxPacketSize); cause == causeNone {
			needed = h.Len + h.RemainingLength
			if needed <= len(input) {
				r.start += needed
				p, err := r.decoder.decodeBody(h, input[h.Len:needed], r.version, viewBit)
				r.err = err
				return p, err
			}
		} else if cause != CauseIncomplete {
			r.err = headerError(cause, input)
			continue
		}
		if err := r.fill(needed); err != nil {
			return nil, err
		}
	}
}

// fill reads once, into a buffer that is larger than the received bytes if a packet of that size needs it.
func (r *Reader) fill(needed int) error {
	r.makeRoom(needed)
	for range maxEmptyReads {
		n, err := r.source.Read(r.buffer[r.end:])
		r.end += n
		if n > 0 {
			// The error, if any, will be returned by the next read.
			return nil
		}
		if err == io.EOF && r.Buffered() > 0 {
			return cutShort(err)
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

func (r *Reader) makeRoom(needed int) {
	have := r.Buffered()
	buffer := r.buffer
	switch {
	case have == len(buffer):
		// Full: double the received amount, up to the size of the packet.
		buffer = make([]byte, max(readAheadBytes, min(2*have, needed)))
	case have == 0 && len(buffer) > keptBytes:
		buffer = make([]byte, readAheadBytes)
	case have <= r.start:
		// Moves at most as many bytes as were decoded since the last move.
	case r.start == 0, r.end < len(buffer) && r.start+needed <= len(buffer):
		// There is room after the received bytes.
		return
	}
	copy(buffer, r.buffer[r.start:r.end])
	r.buffer, r.start, r.end = buffer, 0, have
}
