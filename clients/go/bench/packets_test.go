// Package bench measures package packets next to other codecs, in one process and one run.
//
// For CONNECT and PUBLISH of MQTT 5.0 it measures: "make" builds the packet with the library's API, "write" writes it to a
// reused bytes.Buffer, "read" reads it from a stream and accesses its main fields.
package bench

import (
	"bytes"
	"io"
	"syscall"
	"testing"
)

// workload is a packet to measure.
type workload struct {
	name string
	// packetType is "publish" or "connect".
	packetType string
	// withProperties adds the properties of a request, or of a client with limits and extended authentication.
	withProperties bool
}

var workloads = []workload{
	{"publish", "publish", false},
	{"publish-properties", "publish", true},
	{"connect", "connect", true},
}

const (
	topic     = "sensors/kitchen/temperature"
	clientID  = "sensor-kitchen-17"
	userName  = "kitchen"
	keepAlive = 30
	packetID  = 17
)

var (
	payload  = bytes.Repeat([]byte("t"), 64)
	password = []byte("correct horse")
)

var userProperties = [][2]string{{"unit", "celsius"}, {"room", "kitchen"}, {"unit", "kelvin"}}

// library has the functions to measure. A function that a library does not support is nil.
type library struct {
	name string
	// make builds the packet and stores it so that the compiler cannot optimise it away.
	make func() any
	// write writes a packet that was built before.
	write func(to *bytes.Buffer) error
	// read reads a packet from a stream and accesses its fields; the result depends on them, so that the compiler cannot optimise
	// them away.
	read func(from *bytes.Reader) (seen int, err error)
	// stream reads from an endless stream: for readers that read ahead.
	stream func(from io.Reader) func() (seen int, err error)
}

var sink any

func BenchmarkPackets(b *testing.B) {
	for _, w := range workloads {
		input := inputOf(b, w)
		for _, l := range librariesFor(w) {
			if l.make != nil {
				b.Run(w.name+"/make/lib="+l.name, func(b *testing.B) {
					defer reportCPU(b)()
					for b.Loop() {
						sink = l.make()
					}
				})
			}
		}
		for _, l := range librariesFor(w) {
			if l.write != nil {
				b.Run(w.name+"/write/lib="+l.name, func(b *testing.B) { measureWrite(b, l) })
			}
		}
		for _, l := range librariesFor(w) {
			if l.read != nil || l.stream != nil {
				b.Run(w.name+"/read/lib="+l.name, func(b *testing.B) { measureRead(b, l, input) })
			}
		}
	}
}

func measureWrite(b *testing.B, l library) {
	var to bytes.Buffer
	defer reportCPU(b)()
	for b.Loop() {
		to.Reset()
		if err := l.write(&to); err != nil {
			b.Fatal(err)
		}
	}
}

func measureRead(b *testing.B, l library, input []byte) {
	from := bytes.NewReader(input)
	next := func() (int, error) {
		from.Reset(input)
		return l.read(from)
	}
	if l.stream != nil {
		next = l.stream(&endless{input: bytes.Repeat(input, 100)})
	}
	want, err := next()
	if err != nil {
		b.Fatal(err)
	}
	defer reportCPU(b)()
	for b.Loop() {
		if seen, err := next(); err != nil || seen != want {
			b.Fatal(seen, err)
		}
	}
}

// reportCPU adds the CPU time of the process, including the garbage collector. Other processes do not affect it.
func reportCPU(b *testing.B) (report func()) {
	b.ReportAllocs()
	before := cpuTime()
	return func() { b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op") }
}

func cpuTime() (ns int64) {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// endless repeats the same bytes.
type endless struct {
	input []byte
	at    int
}

func (e *endless) Read(b []byte) (n int, err error) {
	for n < len(b) {
		copied := copy(b[n:], e.input[e.at:])
		n += copied
		if e.at += copied; e.at == len(e.input) {
			e.at = 0
		}
	}
	return n, nil
}

// inputOf is the packet as this repository writes it; TestAllLibrariesAgree shows that the others agree.
func inputOf(t testing.TB, w workload) []byte {
	var to bytes.Buffer
	if err := ours(w).write(&to); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

func TestAllLibrariesAgree(t *testing.T) {
	for _, w := range workloads {
		input := inputOf(t, w)
		want, err := ours(w).read(bytes.NewReader(input))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range librariesFor(w) {
			if l.write != nil {
				var to bytes.Buffer
				if err := l.write(&to); err != nil {
					t.Errorf("%s, %s: %v", w.name, l.name, err)
				}
				// The order of properties and the version may differ, but not the length.
				if to.Len() != 0 && l.name != natiuName && to.Len() != len(input) {
					t.Errorf("%s, %s writes %d bytes, not %d", w.name, l.name, to.Len(), len(input))
				}
				if l.read == nil {
					continue
				}
				if seen, err := l.read(bytes.NewReader(to.Bytes())); err != nil || seen != want {
					t.Errorf("%s, %s reads %d, not %d: %v", w.name, l.name, seen, want, err)
				}
			}
		}
	}
}
