// Package bench measures package packets beside other codecs, in one process and one run.
//
// What is measured, for CONNECT and PUBLISH of MQTT 5.0: "make" builds the packet with the library's own means, "write" writes
// it to a bytes.Buffer that is used again, "read" reads it from a stream and looks at its main fields.
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
	// withProperties adds those that a request has, or a client that asks for limits and extended authentication.
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

// library does what is measured. Functions that a library has no means for are nil.
type library struct {
	name string
	// make builds the packet and keeps it where the compiler must believe that it is used.
	make func() any
	// write writes a packet that has been made before.
	write func(to *bytes.Buffer) error
	// read reads a packet from a stream and looks at its fields; the answer is what it has seen, so that it is not left out.
	read func(from *bytes.Reader) (seen int, err error)
	// stream reads from a stream without end: for what reads ahead.
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

// reportCPU adds the CPU time of the process, the collector's too: what other processes take does not change it.
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

// endless is the same bytes again and again.
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

// inputOf is the packet as this repository writes it; TestEverybodyReadsTheSame shows that others agree.
func inputOf(t testing.TB, w workload) []byte {
	var to bytes.Buffer
	if err := ours(w).write(&to); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

func TestEverybodyWritesAndReadsTheSame(t *testing.T) {
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
				// The order of properties and the version may differ, not what there is to write.
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
