package contracts

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Raw is an untyped value in the encoding of its format.
type Raw []byte

// mappingWriter writes named values: JSON or MessagePack.
type mappingWriter interface {
	openMap()
	key(name string)
	closeMap()
	openList()
	item()
	closeList()
	null()
	bool(value bool)
	int(value int64)
	uint(value uint64)
	// wideInt and wideUint write 64-bit numbers, which most JSON parsers cannot represent exactly.
	wideInt(value int64)
	wideUint(value uint64)
	float32(value float32)
	float64(value float64)
	string(value string)
	data(value []byte)
	timestamp(value time.Time)
	raw(value Raw)
}

// mappingReader reads them. After an error it returns zeros, and no more keys and items.
type mappingReader interface {
	openMap()
	// key returns the next key; false at the end of the map.
	key() (string, bool)
	openList()
	// item reports whether there is another item.
	item() bool
	// null consumes a null, if one is next.
	null() bool
	bool() bool
	// number reads a number, or a string with one if the format uses that.
	number() number
	// text reads a string, if one is next.
	text() (string, bool)
	data() []byte
	timestamp() time.Time
	raw() Raw
	fail(expected string)
	failed() bool
}

// number is a parsed number.
type number struct {
	kind  byte // i, u, f; 0 for none
	int   int64
	uint  uint64
	float float64
}

func readInt(r mappingReader, bits int) int64 {
	n := r.number()
	value, ok := n.int, n.kind == 'i'
	switch {
	case n.kind == 'u':
		value, ok = int64(n.uint), n.uint <= math.MaxInt64
	case n.kind == 'f':
		value, ok = int64(n.float), n.float == math.Trunc(n.float) && n.float >= -(1<<63) && n.float < 1<<63
	}
	if !ok || value<<(64-bits)>>(64-bits) != value {
		r.fail(fmt.Sprintf("an integer of %d bits", bits))
		return 0
	}
	return value
}

func readUint(r mappingReader, bits int) uint64 {
	n := r.number()
	value, ok := n.uint, n.kind == 'u'
	switch {
	case n.kind == 'i':
		value, ok = uint64(n.int), n.int >= 0
	case n.kind == 'f':
		value, ok = uint64(n.float), n.float == math.Trunc(n.float) && n.float >= 0 && n.float < 1<<64
	}
	if !ok || value<<(64-bits)>>(64-bits) != value {
		r.fail(fmt.Sprintf("an unsigned integer of %d bits", bits))
		return 0
	}
	return value
}

func readFloat(r mappingReader) float64 {
	switch n := r.number(); n.kind {
	case 'i':
		return float64(n.int)
	case 'u':
		return float64(n.uint)
	case 'f':
		return n.float
	default:
		r.fail("a number")
		return 0
	}
}

func readString(r mappingReader) string {
	text, ok := r.text()
	if !ok {
		r.fail("a string")
	}
	return text
}

func readDuration(r mappingReader) time.Duration {
	text := readString(r)
	digits, hasUnit := strings.CutSuffix(text, "s")
	magnitude := strings.TrimPrefix(digits, "-")
	if !hasUnit || magnitude == "" || strings.Trim(magnitude, "0123456789.") != "" {
		r.fail("seconds with the suffix s, such as 1.5s, of at most 292 years")
		return 0
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		r.fail("seconds with the suffix s, such as 1.5s, of at most 292 years")
	}
	return duration
}

// readEnum reads a value of an enumeration, by name or by number.
func readEnum[E ~int32](r mappingReader, numbers map[string]E) E {
	if text, ok := r.text(); ok {
		number, known := numbers[text]
		if !known {
			r.fail("a name of the enumeration")
		}
		return number
	}
	return E(readInt(r, 32))
}

func writeEnum[E ~int32](w mappingWriter, value E, names map[E]string) {
	if name, ok := names[value]; ok {
		w.string(name)
	} else {
		w.int(int64(value))
	}
}

// readOneOf reads one of several strings.
func readOneOf[E ~string](r mappingReader, all []E) E {
	text := readString(r)
	if !slices.Contains(all, E(text)) {
		r.fail("one of the values in the schema")
	}
	return E(text)
}

func writeDuration(w mappingWriter, value time.Duration) {
	seconds, nanos := int64(value/time.Second), int64(value%time.Second)
	sign := ""
	if value < 0 {
		sign, seconds, nanos = "-", -seconds, -nanos
	}
	w.string(sign + strconv.FormatInt(seconds, 10) + fraction(nanos) + "s")
}

// keyText returns the key of a map as a string.
func keyText[K ~bool | ~int32 | ~int64 | ~uint32 | ~uint64](key K) string { return fmt.Sprint(key) }

// keyInt and keyUint parse keys of maps, which are strings.
func keyInt(r mappingReader, key string, bits int) int64 {
	value, err := strconv.ParseInt(key, 10, bits)
	if err != nil {
		r.fail(fmt.Sprintf("an integer of %d bits as the key", bits))
	}
	return value
}

func keyUint(r mappingReader, key string, bits int) uint64 {
	value, err := strconv.ParseUint(key, 10, bits)
	if err != nil {
		r.fail(fmt.Sprintf("an unsigned integer of %d bits as the key", bits))
	}
	return value
}

func keyBool(r mappingReader, key string) bool {
	if key != "true" && key != "false" {
		r.fail(`"true" or "false" as the key`)
	}
	return key == "true"
}

// skip skips a value.
func skip(r mappingReader) { r.raw() }

// fraction returns three, six or nine digits, the fewest that are enough.
func fraction(nanos int64) string {
	if nanos == 0 {
		return ""
	}
	digits := fmt.Sprintf("%09d", nanos)
	for strings.HasSuffix(digits, "000") {
		digits = digits[:len(digits)-3]
	}
	return "." + digits
}
