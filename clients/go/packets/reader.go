package packets

import "io"

const (
	// readAheadBytes is the memory of a Reader for packets that are not larger.
	readAheadBytes = 4096
	// keptBytes is the largest memory that a Reader keeps when a larger packet is done with.
	keptBytes = 64 << 10
	// maxEmptyReads is how often in a row the source may give nothing and no error.
	maxEmptyReads = 100
)

// Reader reads packets without allocating: it reads ahead into memory that it uses again, and decodes views of it, see [Decoder].
// That memory grows as bytes arrive, whatever length is announced.
type Reader struct {
	decoder Decoder
	source  io.Reader
	options Options
	// What the options say, with their zero values given their meaning.
	version       Version
	maxPacketSize int
	buffer        []byte
	// What has been read and not been decoded is buffer[start:end].
	start, end int
	err        error
}

// NewReader makes a Reader of what comes out of source.
func NewReader(source io.Reader, o Options) *Reader {
	r := &Reader{source: source}
	r.SetOptions(o)
	return r
}

// Options are those for the packets that follow.
func (r *Reader) Options() Options { return r.options }

// SetOptions changes the version and the limit for the packets that follow: both ends know them after CONNECT and CONNACK.
func (r *Reader) SetOptions(o Options) {
	r.options, r.version, r.maxPacketSize = o, o.Version.orV5(), o.maxPacketSize()
}

// Buffered is how many bytes have been read ahead.
func (r *Reader) Buffered() (bytes int) { return r.end - r.start }

// Next reads the next packet. It is good until the next call; [Clone] keeps it. At the end of the input the error is [io.EOF], in
// the middle of a packet it wraps [io.ErrUnexpectedEOF]; errors of the source are handed on; all others are an [*Error]. A packet
// that is refused ends the stream: the same error is answered from then on. Errors of the source do not, such as a deadline.
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

// fill reads once, into memory that is at least as large as what has arrived, and larger if a packet of that many bytes needs it.
func (r *Reader) fill(needed int) error {
	r.makeRoom(needed)
	for range maxEmptyReads {
		n, err := r.source.Read(r.buffer[r.end:])
		r.end += n
		if n > 0 {
			// The error, if any, comes again.
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
		// Full: twice of what has arrived, as far as the packet needs it.
		buffer = make([]byte, max(readAheadBytes, min(2*have, needed)))
	case have == 0 && len(buffer) > keptBytes:
		buffer = make([]byte, readAheadBytes)
	case have <= r.start:
		// No more is moved than has been decoded since the last time.
	case r.start == 0, r.end < len(buffer) && r.start+needed <= len(buffer):
		// There is room behind what has arrived.
		return
	}
	copy(buffer, r.buffer[r.start:r.end])
	r.buffer, r.start, r.end = buffer, 0, have
}
