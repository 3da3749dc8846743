package packets_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/tautwire/tautwire/clients/go/packets"
)

const vectorsPath = "../../../spec/vectors"

// vector is an entry of the shared packet vectors.
type vector struct {
	ID            string      `json:"id"`
	VersionName   string      `json:"version"`
	Hex           string      `json:"hex"`
	HexParts      []part      `json:"hex_parts"`
	RestHex       string      `json:"rest_hex"`
	MaxPacketSize uint32      `json:"max_packet_size"`
	Result        string      `json:"result"`
	ReasonCode    uint8       `json:"reason"`
	Encode        bool        `json:"encode"`
	Packet        *jsonPacket `json:"packet"`
}

func (v *vector) bytes() []byte { return join(v.Hex, v.HexParts) }

func (v *vector) version() packets.Version {
	return map[string]packets.Version{"3.1": packets.V31, "3.1.1": packets.V311, "5.0": packets.V5}[v.VersionName]
}

func (v *vector) options() packets.Options {
	return packets.Options{Version: v.version(), MaxPacketSize: v.MaxPacketSize}
}

func readVectors(t testing.TB, pattern string, into func(file []byte)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(vectorsPath, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no vectors %s: %v", pattern, err)
	}
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		into(file)
	}
}

func packetVectors(t testing.TB) (all []vector) {
	t.Helper()
	readVectors(t, "mqtt/*.json", func(file []byte) {
		var content struct{ Vectors []vector }
		if err := json.Unmarshal(file, &content); err != nil {
			t.Fatal(err)
		}
		all = append(all, content.Vectors...)
	})
	return all
}

// verdict is the result of a way to decode.
func verdict(err error) (result string, reason uint8) {
	var problem *packets.Error
	if err == nil {
		return "valid", 0
	}
	if !errors.As(err, &problem) {
		return err.Error(), 0
	}
	if problem.Fault() == packets.FaultIncomplete {
		return "incomplete", 0
	}
	return problem.Fault().String(), uint8(problem.Reason())
}

func TestEveryVectorHasItsResult(t *testing.T) {
	var decoder packets.Decoder
	for _, v := range packetVectors(t) {
		whole := v.bytes()
		input := append(whole[:len(whole):len(whole)], join(v.RestHex, nil)...)
		for way, decode := range map[string]func([]byte, packets.Options) (packets.Packet, int, error){
			"owned": packets.Decode, "view": decoder.Decode,
		} {
			p, n, err := decode(input, v.options())
			result, reason := verdict(err)
			if result != v.Result || reason != v.ReasonCode {
				t.Errorf("%s, %s: %s 0x%02x (%v), not %s 0x%02x", v.ID, way, result, reason, err, v.Result, v.ReasonCode)
				continue
			}
			var problem *packets.Error
			if errors.As(err, &problem) && (problem.Offset < 0 || problem.Offset > len(whole)) {
				t.Errorf("%s, %s: the offset %d is outside of the packet", v.ID, way, problem.Offset)
			}
			if err != nil {
				continue
			}
			if n != len(whole) {
				t.Errorf("%s, %s: %d bytes were taken, not %d", v.ID, way, n, len(whole))
			}
			if got, want := flatten(p), v.Packet.flat(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: decoded as\n%+v, not\n%+v", v.ID, way, got, want)
			}
			if err := p.WellFormed(); err != nil && !mayNotBeSent(p) {
				t.Errorf("%s, %s: a valid packet is not well formed: %v", v.ID, way, err)
			}
		}
	}
}

// mayNotBeSent: a server has to read a CONNECT without client identifier and with Clean Session 0, to refuse it. A client must not send
// it before MQTT 5.0 [MQTT-3.1.3-7].
func mayNotBeSent(p packets.Packet) bool {
	connect, isConnect := p.(*packets.Connect)
	return isConnect && connect.Version() != packets.V5 && connect.ClientID() == "" && !connect.CleanStart()
}

func TestEveryValidVectorEncodesToItsBytes(t *testing.T) {
	for _, v := range packetVectors(t) {
		if v.Result != "valid" {
			continue
		}
		whole := v.bytes()
		decoded, _, err := packets.Decode(whole, v.options())
		if err != nil {
			t.Fatalf("%s: %v", v.ID, err)
		}
		want := v.Packet.flat()
		for way, p := range map[string]packets.Packet{
			"built": want.build(t, v.version()), "decoded": decoded, "cloned": packets.Clone(decoded),
		} {
			got, err := p.AppendTo([]byte("before"))
			if mayNotBeSent(p) {
				if !errors.Is(err, packets.CauseClientIDMissing) {
					t.Errorf("%s, %s: %v", v.ID, way, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", v.ID, way, err)
				continue
			}
			got = bytes.TrimPrefix(got, []byte("before"))
			if p.Size() != len(got) {
				t.Errorf("%s, %s: the size is %d, and %d bytes were written", v.ID, way, p.Size(), len(got))
			}
			if v.Encode && !bytes.Equal(got, whole) {
				t.Errorf("%s, %s: encoded as %x, not %x", v.ID, way, got, whole)
			}
			again, n, err := packets.Decode(got, v.options())
			if err != nil || n != len(got) || n > len(whole) || !reflect.DeepEqual(flatten(again), want) {
				t.Errorf("%s, %s: decoded again as %v, %v", v.ID, way, again, err)
			}
			var written bytes.Buffer
			if n, err := p.WriteTo(&written); err != nil || n != int64(len(got)) || !bytes.Equal(written.Bytes(), got) {
				t.Errorf("%s, %s: WriteTo wrote %x, %v", v.ID, way, written.Bytes(), err)
			}
		}
	}
}

func TestEveryPrefixOfAValidVectorIsIncomplete(t *testing.T) {
	var decoder packets.Decoder
	for _, v := range packetVectors(t) {
		if v.Result != "valid" {
			continue
		}
		whole := v.bytes()
		for cut := range whole {
			// The middle of a long run adds nothing.
			if cut > 1000 && cut < len(whole)-1000 {
				continue
			}
			_, _, err := decoder.Decode(whole[:cut], v.options())
			var problem *packets.Error
			if !errors.As(err, &problem) || problem.Cause != packets.CauseIncomplete {
				t.Fatalf("%s, cut after %d bytes: %v", v.ID, cut, err)
			}
			if problem.Needed <= cut || problem.Needed > len(whole) {
				t.Fatalf("%s, cut after %d bytes: %d bytes are said to be needed", v.ID, cut, problem.Needed)
			}
		}
	}
}

// readers are the ways to read a stream, each with sources that return it in different pieces.
func readers(input []byte, o packets.Options) map[string]func() (packets.Packet, error) {
	sources := map[string]func() io.Reader{
		"in one piece":        func() io.Reader { return onlyReader{bytes.NewReader(input)} },
		"byte by byte":        func() io.Reader { return iotest.OneByteReader(bytes.NewReader(input)) },
		"with the last error": func() io.Reader { return iotest.DataErrReader(bytes.NewReader(input)) },
		"in halves":           func() io.Reader { return iotest.HalfReader(bytes.NewReader(input)) },
		"with ReadByte":       func() io.Reader { return bytes.NewReader(input) },
	}
	ways := map[string]func() (packets.Packet, error){}
	if len(input) > 100_000 {
		delete(sources, "byte by byte")
	}
	for name, source := range sources {
		owned, reader := source(), packets.NewReader(source(), o)
		ways["ReadPacket "+name] = func() (packets.Packet, error) { return packets.ReadPacket(owned, o) }
		ways["Reader "+name] = reader.Next
	}
	return ways
}

// onlyReader hides all methods but Read.
type onlyReader struct{ io.Reader }

func TestEveryVectorIsReadFromSplitStreams(t *testing.T) {
	for _, v := range packetVectors(t) {
		if v.Result == "incomplete" {
			continue
		}
		// Two in a row: reading the first one must not consume the second one.
		input := append(v.bytes(), v.bytes()...)
		for way, next := range readers(input, v.options()) {
			for range 2 {
				p, err := next()
				if result, reason := verdict(err); result != v.Result || reason != v.ReasonCode {
					t.Fatalf("%s, %s: %v, not %s 0x%02x", v.ID, way, err, v.Result, v.ReasonCode)
				}
				if err != nil {
					break
				}
				if got, want := flatten(p), v.Packet.flat(); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s, %s: %+v, not %+v", v.ID, way, got, want)
				}
			}
			if _, err := next(); v.Result == "valid" && err != io.EOF {
				t.Fatalf("%s, %s: at the end %v", v.ID, way, err)
			}
		}
	}
}

func TestEndWithinAPacketIsReported(t *testing.T) {
	for _, v := range packetVectors(t) {
		if v.Result != "incomplete" || v.bytes() == nil || len(v.bytes()) == 0 {
			continue
		}
		for way, next := range readers(v.bytes(), v.options()) {
			if _, err := next(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %s: %v", v.ID, way, err)
			}
		}
	}
}

func TestTooLargePacketsAreRefusedAfterTheirLength(t *testing.T) {
	for _, v := range packetVectors(t) {
		if v.Result != "too_large" {
			continue
		}
		h, err := packets.DecodeHeader(v.bytes(), packets.Options{Version: v.version()})
		if err != nil {
			t.Fatal(err)
		}
		for cut := 1; cut <= h.Len; cut++ {
			_, _, err := packets.Decode(v.bytes()[:cut], v.options())
			if result, _ := verdict(err); (result == "too_large") != (cut == h.Len) {
				t.Errorf("%s, cut after %d bytes: %v", v.ID, cut, err)
			}
		}
	}
}

func TestTheVectorsReachEveryCheckOfTheDecoder(t *testing.T) {
	reached := map[packets.Cause]bool{}
	for _, v := range packetVectors(t) {
		var problem *packets.Error
		if _, _, err := packets.Decode(v.bytes(), v.options()); errors.As(err, &problem) {
			reached[problem.Cause] = true
		}
	}
	for cause := packets.CauseIncomplete; cause <= packets.CauseNoLocalOnShared; cause++ {
		if !reached[cause] {
			t.Errorf("no vector ends in %s", cause.Code())
		}
	}
}
