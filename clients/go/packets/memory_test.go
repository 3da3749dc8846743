package packets_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func encoded(t testing.TB, p packets.Packet) []byte {
	t.Helper()
	b, err := p.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOwnedPacketsAndClonesDoNotAliasTheirInput(t *testing.T) {
	var decoder packets.Decoder
	for _, v := range packetVectors(t) {
		if v.Result != "valid" {
			continue
		}
		input, want := v.bytes(), v.Packet.flat()
		owned, _, err := packets.Decode(input, v.options())
		if err != nil {
			t.Fatal(err)
		}
		view, _, err := decoder.Decode(input, v.options())
		if err != nil {
			t.Fatal(err)
		}
		// Strings of a view are copies, too.
		asked := flatten(view)
		cloned := packets.Clone(view)
		for i := range input {
			input[i] = 0xAA
		}
		for way, got := range map[string]flat{"owned": flatten(owned), "cloned": flatten(cloned), "strings": asked} {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: changed with the input: %+v, not %+v", v.ID, way, got, want)
			}
		}
	}
}

func TestChangesToADecodedPacketDoNotAffectTheInput(t *testing.T) {
	p := publish(t)
	if err := errors.Join(p.SetContentType("text"), p.AddUserProperty("a", "b")); err != nil {
		t.Fatal(err)
	}
	// What follows is the next packet.
	input := append(encoded(t, p), "the next packet"...)
	before := bytes.Clone(input)
	for name, change := range map[string]func(*packets.Publish) error{
		"adding":    func(q *packets.Publish) error { return q.AddUserProperty("c", "d") },
		"setting":   func(q *packets.Publish) error { return q.SetContentType("other") },
		"removing":  func(q *packets.Publish) error { q.RemoveProperty(packets.ContentType); return nil },
		"renaming":  func(q *packets.Publish) error { return q.SetTopic("x") },
		"appending": func(q *packets.Publish) error { _ = append(q.Payload(), "more"...); return nil },
	} {
		var decoder packets.Decoder
		view, _, err := decoder.Decode(input, packets.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := change(view.(*packets.Publish)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(input, before) {
			t.Errorf("%s: the input has become %x", name, input)
		}
	}
}

func TestAWillIsCopiedIntoAConnect(t *testing.T) {
	will, err := packets.NewWill("a", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	connect := &packets.Connect{}
	if err := will.AddUserProperty("both", ""); err != nil {
		t.Fatal(err)
	}
	connect.SetWill(will)
	if err := errors.Join(connect.Will().AddUserProperty("copy", ""), will.AddUserProperty("source", ""), will.SetTopic("b")); err != nil {
		t.Fatal(err)
	}
	const want = `user_property="both":"" user_property="copy":""`
	if got := connect.Will(); got.Topic() != "a" || got.Properties().String() != want {
		t.Errorf("the will has changed with its source: %v", connect)
	}

	// A will of a decoder.
	input := encoded(t, connect)
	var decoder packets.Decoder
	view, _, err := decoder.Decode(input, packets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again := &packets.Connect{}
	again.SetWill(view.(*packets.Connect).Will())
	clear(input)
	if got := again.Will(); got.Topic() != "a" || string(got.Payload()) != "x" || got.Properties().String() != want {
		t.Errorf("the will has changed with the input: %v", again)
	}
	connect.SetWill(nil)
	if connect.Will() != nil {
		t.Error("the will is still there")
	}
}

func TestWritingAndDecodingViewsAllocateNothing(t *testing.T) {
	for _, v := range packetVectors(t) {
		if v.Result != "valid" || len(v.bytes()) > 4000 {
			continue
		}
		input := v.bytes()
		p, _, err := packets.Decode(input, v.options())
		if err != nil {
			t.Fatal(err)
		}
		if mayNotBeSent(p) {
			continue
		}
		buffer, written := make([]byte, 0, 2*len(input)+10), bytes.NewBuffer(make([]byte, 0, 2*len(input)+10))
		var decoder packets.Decoder
		reader := packets.NewReader(&repeated{b: input}, v.options())
		for name, do := range map[string]func(){
			"AppendTo": func() { _, _ = p.AppendTo(buffer) },
			"WriteTo":  func() { written.Reset(); _, _ = p.WriteTo(written) },
			"Decode":   func() { _, _, _ = decoder.Decode(input, v.options()) },
			"Next":     func() { _, _ = reader.Next() },
		} {
			if allocations := testing.AllocsPerRun(20, do); allocations != 0 {
				t.Errorf("%s, %s: %v allocations", v.ID, name, allocations)
			}
		}
	}
}

func TestEncodingToPlainWritersAllocatesNothing(t *testing.T) {
	p := publish(t)
	w := &countingWriter{got: make([]byte, 0, 100)}
	// Many runs, because the race detector empties pools at random.
	if allocations := testing.AllocsPerRun(5000, func() { w.got = w.got[:0]; _, _ = p.WriteTo(w) }); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestOwnedPublishAllocatesAtMostTwice(t *testing.T) {
	for _, payload := range []int{0, 10, 64, 100, 1000, 4000} {
		p := publish(t)
		p.SetPayload(make([]byte, payload))
		input := encoded(t, p)
		from := bytes.NewReader(nil)
		for name, do := range map[string]func(){
			"Decode":     func() { _, _, _ = packets.Decode(input, packets.Options{}) },
			"ReadPacket": func() { from.Reset(input); _, _ = packets.ReadPacket(from, packets.Options{}) },
			"Clone":      func() { p.Clone() },
		} {
			if allocations := testing.AllocsPerRun(20, do); allocations > 2 {
				t.Errorf("%s with %d bytes: %v allocations", name, payload, allocations)
			}
		}
	}
}

// repeated repeats the same bytes.
type repeated struct {
	b  []byte
	at int
}

func (r *repeated) Read(into []byte) (n int, err error) {
	n = copy(into, r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}

func TestAnnouncedLengthsAllocateNothing(t *testing.T) {
	var inputs [][]byte
	for _, sent := range []int{10, 10_000} {
		for _, first := range []byte{0x30, 0x10} {
			inputs = append(inputs, packets.NewRaw(first).RemainingLength(packets.MaxRemainingLength).Bytes(make([]byte, sent)).Build())
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, input := range inputs {
		for way, next := range readers(input, packets.Options{}) {
			if _, err := next(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", way, err)
			}
		}
		if _, _, err := packets.Decode(input, packets.Options{}); causeOf(err) != packets.CauseIncomplete {
			t.Errorf("Decode: %v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
		t.Errorf("%d bytes were taken", taken)
	}
}

func TestLargePacketsAreReadWhole(t *testing.T) {
	p := publish(t)
	for _, size := range []int{4094, 4095, 4096, 8192, 100_000, 3_000_000} {
		payload := bytes.Repeat([]byte{byte(size)}, size)
		p.SetPayload(payload)
		small := encoded(t, publish(t))
		input := append(append(bytes.Clone(small), encoded(t, p)...), small...)
		reader := packets.NewReader(iotest.HalfReader(bytes.NewReader(input)), packets.Options{})
		owned := iotest.HalfReader(bytes.NewReader(input))
		for way, next := range map[string]func() (packets.Packet, error){
			"Reader":     reader.Next,
			"ReadPacket": func() (packets.Packet, error) { return packets.ReadPacket(owned, packets.Options{}) },
		} {
			for _, want := range [][]byte{[]byte("hi"), payload, []byte("hi")} {
				got, err := next()
				if err != nil || !bytes.Equal(got.(*packets.Publish).Payload(), want) {
					t.Fatalf("%s, %d bytes: %v", way, size, err)
				}
			}
			if _, err := next(); err != io.EOF {
				t.Errorf("%s, %d bytes, at the end: %v", way, size, err)
			}
		}
	}
}

func TestReaderContinuesAfterADeadlineButNotAfterAnError(t *testing.T) {
	input := encoded(t, publish(t))
	source := &script{steps: []step{{input[:3], nil}, {nil, os.ErrDeadlineExceeded}, {input[3:], nil}, {[]byte{0xF0, 0}, nil}}}
	reader := packets.NewReader(source, packets.Options{Version: packets.V311, MaxPacketSize: 100})
	if _, err := reader.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	reader.SetOptions(packets.Options{Version: packets.V5})
	p, err := reader.Next()
	if err != nil || p.(*packets.Publish).Topic() != "a/b" || p.Version() != packets.V5 {
		t.Fatal(p, err)
	}
	reader.SetOptions(packets.Options{Version: packets.V311})
	for range 2 {
		if _, err := reader.Next(); causeOf(err) != packets.CauseAuthBeforeV5 {
			t.Error(err)
		}
	}
}

func TestSourceWithoutDataIsAbandoned(t *testing.T) {
	reader := packets.NewReader(&script{}, packets.Options{})
	if _, err := reader.Next(); err != io.ErrNoProgress {
		t.Error(err)
	}
}

// script is a source that returns its steps one by one, and then nothing for ever.
type script struct{ steps []step }

type step struct {
	b   []byte
	err error
}

func (s *script) Read(into []byte) (int, error) {
	if len(s.steps) == 0 {
		return 0, nil
	}
	next := s.steps[0]
	s.steps = s.steps[1:]
	return copy(into, next.b), next.err
}

func TestAllWritersReceiveThePacketInOneWrite(t *testing.T) {
	p := publish(t)
	for _, q := range []packets.Packet{p, &packets.PingReq{}} {
		want := encoded(t, q)
		counting := &countingWriter{}
		if n, err := q.WriteTo(counting); err != nil || n != int64(len(want)) || counting.writes != 1 {
			t.Errorf("%d bytes in %d writes: %v", n, counting.writes, err)
		}
		if !bytes.Equal(counting.got, want) {
			t.Errorf("%x, not %x", counting.got, want)
		}
	}
	if _, err := p.WriteTo(failingWriter{}); err != io.ErrClosedPipe {
		t.Error(err)
	}
	header, err := p.AppendHeaderTo(nil)
	if err != nil || !bytes.Equal(append(header, p.Payload()...), encoded(t, p)) {
		t.Errorf("%x, %v", header, err)
	}
}

type countingWriter struct {
	got    []byte
	writes int
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.got = append(w.got, b...)
	w.writes++
	return len(b), nil
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
