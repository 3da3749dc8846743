package contracts

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// messagePackWriter writes MessagePack, each value in its shortest form.
type messagePackWriter struct {
	bytes []byte
	// open are the open maps and lists, the innermost last.
	open []opened
}

// opened is a map or list whose length is written when it is closed.
type opened struct {
	start, count int
}

func (w *messagePackWriter) begin() {
	w.open = append(w.open, opened{start: len(w.bytes)})
	w.bytes = append(w.bytes, 0)
}

// end writes the header of a map or list: its short form, or one with a length of two or four bytes.
func (w *messagePackWriter) end(short, long byte) {
	last := w.open[len(w.open)-1]
	w.open = w.open[:len(w.open)-1]
	var head []byte
	switch {
	case last.count < 16:
		w.bytes[last.start] = short | byte(last.count)
		return
	case last.count <= math.MaxUint16:
		head = binary.BigEndian.AppendUint16(head, uint16(last.count))
	default:
		long++
		head = binary.BigEndian.AppendUint32(head, uint32(last.count))
	}
	w.bytes[last.start] = long
	w.bytes = slices.Insert(w.bytes, last.start+1, head...)
}

func (w *messagePackWriter) openMap()              { w.begin() }
func (w *messagePackWriter) closeMap()             { w.end(0x80, 0xde) }
func (w *messagePackWriter) openList()             { w.begin() }
func (w *messagePackWriter) item()                 { w.open[len(w.open)-1].count++ }
func (w *messagePackWriter) closeList()            { w.end(0x90, 0xdc) }
func (w *messagePackWriter) null()                 { w.bytes = append(w.bytes, 0xc0) }
func (w *messagePackWriter) wideInt(value int64)   { w.int(value) }
func (w *messagePackWriter) wideUint(value uint64) { w.uint(value) }
func (w *messagePackWriter) float32(value float32) { w.float64(float64(value)) }

func (w *messagePackWriter) key(name string) {
	w.item()
	w.string(name)
}

func (w *messagePackWriter) bool(value bool) {
	if value {
		w.bytes = append(w.bytes, 0xc3)
	} else {
		w.bytes = append(w.bytes, 0xc2)
	}
}

func (w *messagePackWriter) int(value int64) {
	switch {
	case value >= 0:
		w.uint(uint64(value))
	case value >= -32:
		w.bytes = append(w.bytes, byte(value))
	case value >= math.MinInt8:
		w.bytes = append(w.bytes, 0xd0, byte(value))
	case value >= math.MinInt16:
		w.bytes = binary.BigEndian.AppendUint16(append(w.bytes, 0xd1), uint16(value))
	case value >= math.MinInt32:
		w.bytes = binary.BigEndian.AppendUint32(append(w.bytes, 0xd2), uint32(value))
	default:
		w.bytes = binary.BigEndian.AppendUint64(append(w.bytes, 0xd3), uint64(value))
	}
}

func (w *messagePackWriter) uint(value uint64) {
	switch {
	case value < 0x80:
		w.bytes = append(w.bytes, byte(value))
	case value <= math.MaxUint8:
		w.bytes = append(w.bytes, 0xcc, byte(value))
	case value <= math.MaxUint16:
		w.bytes = binary.BigEndian.AppendUint16(append(w.bytes, 0xcd), uint16(value))
	case value <= math.MaxUint32:
		w.bytes = binary.BigEndian.AppendUint32(append(w.bytes, 0xce), uint32(value))
	default:
		w.bytes = binary.BigEndian.AppendUint64(append(w.bytes, 0xcf), value)
	}
}

// float64 writes a number without a fraction as an integer, which is shorter.
func (w *messagePackWriter) float64(value float64) {
	const exact = 1 << 53
	if value == math.Trunc(value) && math.Abs(value) < exact && math.Float64bits(value) != 1<<63 {
		w.int(int64(value))
		return
	}
	w.bytes = binary.BigEndian.AppendUint64(append(w.bytes, 0xcb), math.Float64bits(value))
}

func (w *messagePackWriter) string(value string) {
	switch length := len(value); {
	case length < 32:
		w.bytes = append(w.bytes, 0xa0|byte(length))
	case length <= math.MaxUint8:
		w.bytes = append(w.bytes, 0xd9, byte(length))
	case length <= math.MaxUint16:
		w.bytes = binary.BigEndian.AppendUint16(append(w.bytes, 0xda), uint16(length))
	default:
		w.bytes = binary.BigEndian.AppendUint32(append(w.bytes, 0xdb), uint32(length))
	}
	w.bytes = append(w.bytes, value...)
}

func (w *messagePackWriter) data(value []byte) {
	switch length := len(value); {
	case length <= math.MaxUint8:
		w.bytes = append(w.bytes, 0xc4, byte(length))
	case length <= math.MaxUint16:
		w.bytes = binary.BigEndian.AppendUint16(append(w.bytes, 0xc5), uint16(length))
	default:
		w.bytes = binary.BigEndian.AppendUint32(append(w.bytes, 0xc6), uint32(length))
	}
	w.bytes = append(w.bytes, value...)
}

func (w *messagePackWriter) timestamp(value time.Time) {
	seconds, nanos := value.Unix(), uint64(value.Nanosecond())
	switch {
	case seconds>>34 != 0:
		w.bytes = binary.BigEndian.AppendUint32(append(w.bytes, 0xc7, 12, 0xff), uint32(nanos))
		w.bytes = binary.BigEndian.AppendUint64(w.bytes, uint64(seconds))
	case nanos != 0 || seconds>>32 != 0:
		w.bytes = binary.BigEndian.AppendUint64(append(w.bytes, 0xd7, 0xff), nanos<<34|uint64(seconds))
	default:
		w.bytes = binary.BigEndian.AppendUint32(append(w.bytes, 0xd6, 0xff), uint32(seconds))
	}
}

func (w *messagePackWriter) raw(value Raw) {
	if len(value) == 0 {
		w.null()
		return
	}
	w.bytes = append(w.bytes, value...)
}

// messagePackReader reads MessagePack.
type messagePackReader struct {
	bytes []byte
	at    int
	// left counts the remaining items of the open maps and lists, the innermost last.
	left []int
	err  error
}

func newMessagePackReader(payload []byte) *messagePackReader {
	return &messagePackReader{bytes: payload}
}

func (r *messagePackReader) fail(expected string) {
	if r.err == nil {
		r.err = &PayloadError{Expected: expected, Offset: r.at}
		r.at = len(r.bytes)
	}
}

func (r *messagePackReader) failed() bool { return r.err != nil }

// finish returns the error, if any, or one for trailing bytes.
func (r *messagePackReader) finish() error {
	if r.at < len(r.bytes) {
		r.fail("the end of the payload")
	}
	return r.err
}

// peek returns the first byte of the next value; an unused one at the end.
func (r *messagePackReader) peek() byte {
	if r.at < len(r.bytes) {
		return r.bytes[r.at]
	}
	return 0xc1
}

func (r *messagePackReader) take(count int) []byte {
	if count > len(r.bytes)-r.at {
		r.fail("a value within the payload")
		return nil
	}
	r.at += count
	return r.bytes[r.at-count : r.at]
}

// big reads a big-endian number of size bytes.
func (r *messagePackReader) big(size int) uint64 {
	var value uint64
	for _, b := range r.take(size) {
		value = value<<8 | uint64(b)
	}
	return value
}

func (r *messagePackReader) open(short, long byte, each int, expected string) {
	var count uint64
	switch first := r.peek(); {
	case first&0xf0 == short:
		r.at++
		count = uint64(first & 0x0f)
	case first == long:
		r.at++
		count = r.big(2)
	case first == long+1:
		r.at++
		count = r.big(4)
	default:
		r.fail(expected)
	}
	if count > uint64((len(r.bytes)-r.at)/each) {
		r.fail("a value within the payload")
	}
	if r.err != nil {
		count = 0
	}
	if r.left = append(r.left, int(count)); len(r.left) > depthMax {
		r.fail(fmt.Sprintf("values nested at most %d deep", depthMax))
	}
}

func (r *messagePackReader) openMap()  { r.open(0x80, 0xde, 2, "a map") }
func (r *messagePackReader) openList() { r.open(0x90, 0xdc, 1, "a list") }

func (r *messagePackReader) item() bool {
	last := len(r.left) - 1
	if r.err != nil || r.left[last] == 0 {
		r.left = r.left[:last]
		return false
	}
	r.left[last]--
	return true
}

func (r *messagePackReader) key() (string, bool) {
	if !r.item() {
		return "", false
	}
	name, ok := r.text()
	if !ok {
		r.fail("a string as the key")
	}
	if r.err != nil {
		r.left = r.left[:len(r.left)-1]
	}
	return name, r.err == nil
}

func (r *messagePackReader) null() bool {
	if r.err != nil || r.peek() != 0xc0 {
		return false
	}
	r.at++
	return true
}

func (r *messagePackReader) bool() bool {
	first := r.peek()
	if first != 0xc2 && first != 0xc3 {
		r.fail("a boolean")
		return false
	}
	r.at++
	return first == 0xc3
}

func (r *messagePackReader) number() number {
	first := r.peek()
	switch {
	case first < 0x80 || first >= 0xe0:
		r.at++
		return number{kind: 'i', int: int64(int8(first))}
	case first >= 0xcc && first <= 0xcf:
		r.at++
		return number{kind: 'u', uint: r.big(1 << (first - 0xcc))}
	case first >= 0xd0 && first <= 0xd3:
		r.at++
		size := 1 << (first - 0xd0)
		unused := 64 - 8*size
		return number{kind: 'i', int: int64(r.big(size)) << unused >> unused}
	case first == 0xca:
		r.at++
		return number{kind: 'f', float: float64(math.Float32frombits(uint32(r.big(4))))}
	case first == 0xcb:
		r.at++
		return number{kind: 'f', float: math.Float64frombits(r.big(8))}
	}
	return number{}
}

func (r *messagePackReader) text() (string, bool) {
	var length int
	switch first := r.peek(); {
	case first&0xe0 == 0xa0:
		r.at++
		length = int(first & 0x1f)
	case first >= 0xd9 && first <= 0xdb:
		r.at++
		length = int(r.big(1 << (first - 0xd9)))
	default:
		return "", false
	}
	bytes := r.take(length)
	if !utf8.Valid(bytes) {
		r.fail("UTF-8")
	}
	return string(bytes), true
}

func (r *messagePackReader) data() []byte {
	first := r.peek()
	if first < 0xc4 || first > 0xc6 {
		r.fail("bytes")
		return nil
	}
	r.at++
	return slices.Clone(r.take(int(r.big(1 << (first - 0xc4)))))
}

func (r *messagePackReader) timestamp() time.Time {
	switch head := r.bytes[r.at:min(len(r.bytes), r.at+3)]; {
	case len(head) >= 2 && head[0] == 0xd6 && head[1] == 0xff:
		r.at += 2
		return time.Unix(int64(r.big(4)), 0).UTC()
	case len(head) >= 2 && head[0] == 0xd7 && head[1] == 0xff:
		r.at += 2
		both := r.big(8)
		return r.moment(int64(both&(1<<34-1)), int64(both>>34))
	case len(head) == 3 && head[0] == 0xc7 && head[1] == 12 && head[2] == 0xff:
		r.at += 3
		nanos := int64(r.big(4))
		return r.moment(int64(r.big(8)), nanos)
	}
	if text, ok := r.text(); ok {
		if value, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return value.UTC()
		}
	}
	r.fail("a timestamp")
	return time.Time{}
}

func (r *messagePackReader) moment(seconds, nanos int64) time.Time {
	if nanos >= int64(time.Second) {
		r.fail("at most 999,999,999 nanoseconds")
	}
	return time.Unix(seconds, nanos).UTC()
}

func (r *messagePackReader) raw() Raw {
	start := r.at
	r.pass()
	if r.err != nil {
		return nil
	}
	return slices.Clone(r.bytes[start:r.at])
}

// pass skips a value.
func (r *messagePackReader) pass() {
	switch first := r.peek(); {
	case first&0xf0 == 0x80 || first == 0xde || first == 0xdf:
		r.openMap()
		for _, ok := r.key(); ok; _, ok = r.key() {
			r.pass()
		}
	case first&0xf0 == 0x90 || first == 0xdc || first == 0xdd:
		r.openList()
		for r.item() {
			r.pass()
		}
	case first == 0xc0:
		r.at++
	case first == 0xc2 || first == 0xc3:
		r.at++
	case first >= 0xc4 && first <= 0xc6:
		r.data()
	case first >= 0xc7 && first <= 0xc9:
		r.at++
		length := int(r.big(1 << (first - 0xc7)))
		r.take(1)
		r.take(length)
	case first >= 0xd4 && first <= 0xd8:
		r.at++
		r.take(1 + 1<<(first-0xd4))
	default:
		if _, ok := r.text(); !ok && r.number().kind == 0 {
			r.fail("a value")
		}
	}
}
