package packets_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func addVectors(f *testing.F) {
	for _, v := range packetVectors(f) {
		if b := v.bytes(); len(b) < 1000 {
			f.Add(uint8(v.version()), v.MaxPacketSize, b)
		}
	}
}

// fuzzOptions makes options from any input.
func fuzzOptions(version uint8, maxPacketSize uint32) packets.Options {
	return packets.Options{Version: packets.V31 + packets.Version(version%3), MaxPacketSize: maxPacketSize}
}

// FuzzDecode: all ways to decode give the same result for any bytes, and none panics.
func FuzzDecode(f *testing.F) {
	addVectors(f)
	f.Fuzz(func(t *testing.T, version uint8, maxPacketSize uint32, b []byte) {
		o := fuzzOptions(version, maxPacketSize)
		input := bytes.Clone(b)
		owned, n, err := packets.Decode(b, o)
		var decoder packets.Decoder
		view, m, viewErr := decoder.Decode(b, o)
		if n != m || !reflect.DeepEqual(err, viewErr) {
			t.Fatalf("owned %d bytes, %v; view %d bytes, %v", n, err, m, viewErr)
		}
		if err == nil && !reflect.DeepEqual(flatten(owned), flatten(view)) {
			t.Fatalf("owned %s, view %s", owned, view)
		}
		if !bytes.Equal(b, input) {
			t.Fatal("decoding has changed its input")
		}
		var problem *packets.Error
		isIncomplete := errors.As(err, &problem) && problem.Cause == packets.CauseIncomplete
		if isIncomplete && problem.Needed <= len(b) {
			t.Fatalf("%d bytes are there and %d are said to be needed", len(b), problem.Needed)
		}
		for way, next := range readers(b, o) {
			p, readErr := next()
			switch {
			case len(b) == 0:
				if readErr != io.EOF {
					t.Fatalf("%s: %v", way, readErr)
				}
			case isIncomplete:
				if !errors.Is(readErr, io.ErrUnexpectedEOF) {
					t.Fatalf("%s: %v", way, readErr)
				}
			case err != nil:
				if !reflect.DeepEqual(err, readErr) {
					t.Fatalf("%s: %v, not %v", way, readErr, err)
				}
			default:
				if readErr != nil || !reflect.DeepEqual(flatten(p), flatten(owned)) {
					t.Fatalf("%s: %v, %v, not %v", way, p, readErr, owned)
				}
			}
		}
	})
}

// FuzzRoundTrip: a decoded packet is well formed, is encoded in no more bytes, and decodes to the same packet again.
func FuzzRoundTrip(f *testing.F) {
	addVectors(f)
	f.Fuzz(func(t *testing.T, version uint8, maxPacketSize uint32, b []byte) {
		o := fuzzOptions(version, maxPacketSize)
		p, n, err := packets.Decode(b, o)
		if err != nil || mayNotBeSent(p) {
			return
		}
		if err := p.WellFormed(); err != nil {
			t.Fatal(err)
		}
		encoded, err := p.AppendTo(nil)
		if err != nil || len(encoded) > n || len(encoded) != p.Size() {
			t.Fatalf("%x is encoded as %x, size %d: %v", b[:n], encoded, p.Size(), err)
		}
		again, m, err := packets.Decode(encoded, o)
		if err != nil || m != len(encoded) || !reflect.DeepEqual(flatten(again), flatten(p)) {
			t.Fatalf("%s became %s, %d bytes, %v", p, again, m, err)
		}
		if twice, err := packets.Clone(again).AppendTo(nil); err != nil || !bytes.Equal(twice, encoded) {
			t.Fatalf("%x is encoded again as %x: %v", encoded, twice, err)
		}
		if p.String() == "" || p.Dump() == "" {
			t.Fatal("a packet without description")
		}
	})
}

// FuzzTopics: validation and matching accept any text, and every valid filter without wildcards matches itself.
func FuzzTopics(f *testing.F) {
	for _, seed := range [][2]string{{"a/+/#", "a/b"}, {"$share/g/a", "a"}, {"#", "$SYS"}, {"+a", "\x00"}, {"", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, filter, name string) {
		packets.MatchTopic(filter, name)
		if packets.CheckTopicFilter(filter) != nil {
			return
		}
		_, matched, _ := packets.SplitShare(filter)
		if packets.CheckTopicName(matched) == nil && !packets.MatchTopic(filter, matched) {
			t.Fatalf("%q does not match %q", filter, matched)
		}
	})
}
