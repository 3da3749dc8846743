package packets

import (
	"bytes"
	"testing"
)

func TestReaderFreesTheMemoryOfALargePacket(t *testing.T) {
	p, err := NewPublish("a", make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	var input bytes.Buffer
	for _, payload := range [][]byte{p.Payload(), nil} {
		p.SetPayload(payload)
		if _, err := p.WriteTo(&input); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(&input, Options{})
	for _, atMost := range []int{1<<20 + 100, readAheadBytes} {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if len(r.buffer) > atMost {
			t.Errorf("%d bytes are kept, the limit is %d", len(r.buffer), atMost)
		}
	}
}

func TestReaderReadsAllAvailableBytes(t *testing.T) {
	p, err := NewPublish("a", make([]byte, 44))
	if err != nil {
		t.Fatal(err)
	}
	var input bytes.Buffer
	const count = 2000
	for range count {
		if _, err := p.WriteTo(&input); err != nil {
			t.Fatal(err)
		}
	}
	size := input.Len()
	for _, c := range []struct{ piece, most int }{
		// The reader requests more than arrives: every piece in one read.
		{1000, size / 1000},
		// More arrives than there is room for.
		{1 << 20, 2 + 2*size/readAheadBytes},
	} {
		source := &pieces{r: bytes.NewReader(input.Bytes()), piece: c.piece}
		r := NewReader(source, Options{})
		for range count {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if source.reads > c.most {
			t.Errorf("%d reads of %d bytes in pieces of %d, the limit is %d", source.reads, size, c.piece, c.most)
		}
	}
}

// pieces returns at most so many bytes per read, and counts the reads.
type pieces struct {
	r            *bytes.Reader
	piece, reads int
}

func (p *pieces) Read(b []byte) (int, error) {
	p.reads++
	return p.r.Read(b[:min(len(b), p.piece)])
}
