package contracts

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// protobufWriter writes values in the binary form of Protocol Buffers, one after another.
type protobufWriter struct {
	bytes []byte
}

func (w *protobufWriter) tag(tag uint32)      { w.bytes = binary.AppendUvarint(w.bytes, uint64(tag)) }
func (w *protobufWriter) uint64(value uint64) { w.bytes = binary.AppendUvarint(w.bytes, value) }
func (w *protobufWriter) uint32(value uint32) { w.uint64(uint64(value)) }
func (w *protobufWriter) int64(value int64)   { w.uint64(uint64(value)) }
func (w *protobufWriter) int32(value int32)   { w.uint64(uint64(int64(value))) }
func (w *protobufWriter) sint64(value int64)  { w.uint64(uint64(value)<<1 ^ uint64(value>>63)) }
func (w *protobufWriter) sint32(value int32)  { w.uint32(uint32(value)<<1 ^ uint32(value>>31)) }
func (w *protobufWriter) fixed32(value uint32) {
	w.bytes = binary.LittleEndian.AppendUint32(w.bytes, value)
}
func (w *protobufWriter) fixed64(value uint64) {
	w.bytes = binary.LittleEndian.AppendUint64(w.bytes, value)
}
func (w *protobufWriter) sfixed32(value int32)  { w.fixed32(uint32(value)) }
func (w *protobufWriter) sfixed64(value int64)  { w.fixed64(uint64(value)) }
func (w *protobufWriter) float32(value float32) { w.fixed32(math.Float32bits(value)) }
func (w *protobufWriter) float64(value float64) { w.fixed64(math.Float64bits(value)) }
func (w *protobufWriter) duration(value time.Duration) {
	w.secondsAndNanos(int64(value/time.Second), int64(value%time.Second))
}

func (w *protobufWriter) bool(value bool) {
	if value {
		w.bytes = append(w.bytes, 1)
	} else {
		w.bytes = append(w.bytes, 0)
	}
}

func (w *protobufWriter) string(value string) {
	w.uint64(uint64(len(value)))
	w.bytes = append(w.bytes, value...)
}

func (w *protobufWriter) data(value []byte) {
	w.uint64(uint64(len(value)))
	w.bytes = append(w.bytes, value...)
}

func (w *protobufWriter) timestamp(value time.Time) {
	w.secondsAndNanos(value.Unix(), int64(value.Nanosecond()))
}

func (w *protobufWriter) secondsAndNanos(seconds, nanos int64) {
	start := w.open()
	if seconds != 0 {
		w.tag(8)
		w.int64(seconds)
	}
	if nanos != 0 {
		w.tag(16)
		w.int64(nanos)
	}
	w.close(start)
}

// open begins a length-delimited value.
func (w *protobufWriter) open() int {
	w.bytes = append(w.bytes, 0)
	return len(w.bytes)
}

// close writes the length of the bytes since open.
func (w *protobufWriter) close(start int) {
	length := len(w.bytes) - start
	if length < 0x80 {
		w.bytes[start-1] = byte(length)
		return
	}
	var prefix [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(prefix[:], uint64(length))
	w.bytes = slices.Insert(w.bytes, start, prefix[1:size]...)
	w.bytes[start-1] = prefix[0]
}

// protobufReader reads values in the binary form of Protocol Buffers. After an error it returns zeros, and no more
// tags.
type protobufReader struct {
	bytes   []byte
	at, end int
	depth   int
	err     error
}

func newProtobufReader(payload []byte) protobufReader {
	return protobufReader{bytes: payload, end: len(payload)}
}

func (r *protobufReader) fail(offset int, expected string) {
	if r.err == nil {
		r.err = &PayloadError{Expected: expected, Offset: offset}
	}
	r.at, r.end = 0, 0
}

// tag returns number and wire type of the next value; 0 at the end.
func (r *protobufReader) tag() uint32 {
	if r.at >= r.end {
		return 0
	}
	start := r.at
	tag := r.uint64()
	if r.err == nil && (tag > math.MaxUint32 || tag < 8) {
		r.fail(start, "a tag with a field number")
	}
	if r.err != nil {
		return 0
	}
	return uint32(tag)
}

// unknown skips the value of an unknown field. A field of numbers has a wrong wire type, which is an error.
func (r *protobufReader) unknown(tag uint32, numbers ...uint32) {
	if slices.Contains(numbers, tag>>3) {
		r.fail(r.at, fmt.Sprintf("another wire type of field %d", tag>>3))
		return
	}
	switch tag & 7 {
	case 0:
		r.uint64()
	case 1:
		r.take(8)
	case 2:
		r.take(r.uint64())
	case 5:
		r.take(4)
	default:
		r.fail(r.at, "a wire type other than a group")
	}
}

func (r *protobufReader) uint64() uint64 {
	var value uint64
	for place := 0; place < 10 && r.at+place < r.end; place++ {
		b := r.bytes[r.at+place]
		if place == 9 && b > 1 {
			break
		}
		value |= uint64(b&0x7f) << (7 * place)
		if b < 0x80 {
			r.at += place + 1
			return value
		}
	}
	r.fail(r.at, "a number of at most 64 bits within the payload")
	return 0
}

func (r *protobufReader) uint32() uint32   { return uint32(r.uint64()) }
func (r *protobufReader) int64() int64     { return int64(r.uint64()) }
func (r *protobufReader) int32() int32     { return int32(r.uint64()) }
func (r *protobufReader) bool() bool       { return r.uint64() != 0 }
func (r *protobufReader) sfixed32() int32  { return int32(r.fixed32()) }
func (r *protobufReader) sfixed64() int64  { return int64(r.fixed64()) }
func (r *protobufReader) float32() float32 { return math.Float32frombits(r.fixed32()) }
func (r *protobufReader) float64() float64 { return math.Float64frombits(r.fixed64()) }
func (r *protobufReader) data() []byte     { return slices.Clone(r.take(r.uint64())) }
func (r *protobufReader) timestamp() time.Time {
	return time.Unix(r.secondsAndNanos()).UTC()
}

func (r *protobufReader) sint64() int64 {
	value := r.uint64()
	return int64(value>>1) ^ -int64(value&1)
}

func (r *protobufReader) sint32() int32 {
	value := r.uint32()
	return int32(value>>1) ^ -int32(value&1)
}

func (r *protobufReader) fixed32() uint32 {
	if bytes := r.take(4); len(bytes) == 4 {
		return binary.LittleEndian.Uint32(bytes)
	}
	return 0
}

func (r *protobufReader) fixed64() uint64 {
	if bytes := r.take(8); len(bytes) == 8 {
		return binary.LittleEndian.Uint64(bytes)
	}
	return 0
}

func (r *protobufReader) string() string {
	start := r.at
	bytes := r.take(r.uint64())
	if !utf8.Valid(bytes) {
		r.fail(start, "UTF-8")
		return ""
	}
	return string(bytes)
}

// duration reads a duration of at most 292 years.
func (r *protobufReader) duration() time.Duration {
	start := r.at
	seconds, nanos := r.secondsAndNanos()
	const most = int64(math.MaxInt64 / time.Second)
	if seconds >= most || seconds <= -most || nanos >= int64(time.Second) || nanos <= -int64(time.Second) {
		r.fail(start, "a duration of at most 292 years")
		return 0
	}
	return time.Duration(seconds)*time.Second + time.Duration(nanos)
}

func (r *protobufReader) secondsAndNanos() (seconds, nanos int64) {
	outer := r.enter()
	for tag := r.tag(); tag != 0; tag = r.tag() {
		switch tag {
		case 8:
			seconds = r.int64()
		case 16:
			nanos = int64(r.int32())
		default:
			r.unknown(tag, 1, 2)
		}
	}
	r.leave(outer)
	return seconds, nanos
}

// more reports whether a packed list has more items.
func (r *protobufReader) more() bool { return r.at < r.end }

// enter enters a length-delimited value. Pass its result to leave.
func (r *protobufReader) enter() int {
	outer := r.end
	start := r.at
	bytes := r.take(r.uint64())
	if r.depth++; r.depth >= depthMax {
		r.fail(start, fmt.Sprintf("messages nested at most %d deep", depthMax))
	}
	if r.err == nil {
		r.end = r.at
		r.at -= len(bytes)
	}
	return outer
}

func (r *protobufReader) leave(outer int) {
	r.depth--
	if r.err == nil {
		r.at, r.end = r.end, outer
	}
}

// take returns bytes as a view of the payload.
func (r *protobufReader) take(count uint64) []byte {
	if count > uint64(r.end-r.at) {
		r.fail(r.at, "a value within the payload")
		return nil
	}
	bytes := r.bytes[r.at : r.at+int(count)]
	r.at += int(count)
	return bytes
}
