package contracts

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// jsonWriter writes JSON.
type jsonWriter struct {
	bytes []byte
}

// comma separates a value from the one before it. The last byte shows whether it is the first: a value never ends with
// an opening bracket or a colon.
func (w *jsonWriter) comma() {
	if count := len(w.bytes); count > 0 {
		switch w.bytes[count-1] {
		case '{', '[', ':':
		default:
			w.bytes = append(w.bytes, ',')
		}
	}
}

func (w *jsonWriter) key(name string) {
	w.comma()
	w.string(name)
	w.bytes = append(w.bytes, ':')
}

func (w *jsonWriter) openMap()              { w.bytes = append(w.bytes, '{') }
func (w *jsonWriter) closeMap()             { w.bytes = append(w.bytes, '}') }
func (w *jsonWriter) openList()             { w.bytes = append(w.bytes, '[') }
func (w *jsonWriter) item()                 { w.comma() }
func (w *jsonWriter) closeList()            { w.bytes = append(w.bytes, ']') }
func (w *jsonWriter) null()                 { w.bytes = append(w.bytes, "null"...) }
func (w *jsonWriter) bool(value bool)       { w.bytes = strconv.AppendBool(w.bytes, value) }
func (w *jsonWriter) int(value int64)       { w.bytes = strconv.AppendInt(w.bytes, value, 10) }
func (w *jsonWriter) uint(value uint64)     { w.bytes = strconv.AppendUint(w.bytes, value, 10) }
func (w *jsonWriter) wideInt(value int64)   { w.string(strconv.FormatInt(value, 10)) }
func (w *jsonWriter) wideUint(value uint64) { w.string(strconv.FormatUint(value, 10)) }
func (w *jsonWriter) float32(value float32) { w.float(float64(value), 32) }
func (w *jsonWriter) float64(value float64) { w.float(value, 64) }
func (w *jsonWriter) data(value []byte)     { w.string(base64.StdEncoding.EncodeToString(value)) }

func (w *jsonWriter) float(value float64, bits int) {
	switch {
	case math.IsNaN(value):
		w.string("NaN")
	case math.IsInf(value, 1):
		w.string("Infinity")
	case math.IsInf(value, -1):
		w.string("-Infinity")
	default:
		form := byte('f')
		if magnitude := math.Abs(value); magnitude != 0 && (magnitude < 1e-6 || magnitude >= 1e21) {
			form = 'e'
		}
		w.bytes = strconv.AppendFloat(w.bytes, value, form, -1, bits)
	}
}

func (w *jsonWriter) string(value string) {
	w.bytes = append(w.bytes, '"')
	for _, r := range value {
		switch {
		case r == '"' || r == '\\':
			w.bytes = append(w.bytes, '\\', byte(r))
		case r == '\n':
			w.bytes = append(w.bytes, '\\', 'n')
		case r == '\r':
			w.bytes = append(w.bytes, '\\', 'r')
		case r == '\t':
			w.bytes = append(w.bytes, '\\', 't')
		case r == '\b':
			w.bytes = append(w.bytes, '\\', 'b')
		case r == '\f':
			w.bytes = append(w.bytes, '\\', 'f')
		case r < ' ':
			w.bytes = fmt.Appendf(w.bytes, "\\u%04x", r)
		default:
			w.bytes = utf8.AppendRune(w.bytes, r)
		}
	}
	w.bytes = append(w.bytes, '"')
}

func (w *jsonWriter) timestamp(value time.Time) {
	value = value.UTC()
	w.string(value.Format("2006-01-02T15:04:05") + fraction(int64(value.Nanosecond())) + "Z")
}

func (w *jsonWriter) raw(value Raw) {
	if len(value) == 0 {
		w.null()
		return
	}
	w.bytes = append(w.bytes, value...)
}

// jsonReader reads JSON.
type jsonReader struct {
	bytes []byte
	at    int
	// isFirst is true at the beginning of a map or list.
	isFirst bool
	depth   int
	err     error
}

func newJSONReader(payload []byte) *jsonReader { return &jsonReader{bytes: payload} }

func (r *jsonReader) fail(expected string) {
	if r.err == nil {
		r.err = &PayloadError{Expected: expected, Offset: r.at}
		r.at = len(r.bytes)
	}
}

func (r *jsonReader) failed() bool { return r.err != nil }

// finish returns the error, if any, or one for trailing bytes.
func (r *jsonReader) finish() error {
	if r.next(); r.err == nil && r.at < len(r.bytes) {
		r.fail("the end of the payload")
	}
	return r.err
}

// next returns the next byte after spaces; 0 at the end.
func (r *jsonReader) next() byte {
	for ; r.at < len(r.bytes); r.at++ {
		switch b := r.bytes[r.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return b
		}
	}
	return 0
}

func (r *jsonReader) take(b byte) bool {
	if r.next() != b {
		return false
	}
	r.at++
	return true
}

func (r *jsonReader) word(word string) bool {
	r.next()
	if !strings.HasPrefix(string(r.bytes[r.at:min(len(r.bytes), r.at+len(word))]), word) {
		return false
	}
	r.at += len(word)
	return true
}

func (r *jsonReader) open(b byte, expected string) {
	if !r.take(b) {
		r.fail(expected)
	}
	if r.depth++; r.depth > depthMax {
		r.fail(fmt.Sprintf("values nested at most %d deep", depthMax))
	}
	r.isFirst = true
}

// goesOn reports whether another key or item follows.
func (r *jsonReader) goesOn(end byte) bool {
	if r.err != nil {
		return false
	}
	if r.take(end) {
		r.depth--
		r.isFirst = false
		return false
	}
	if !r.isFirst && !r.take(',') {
		r.fail("a comma or the end of the list or object")
	}
	r.isFirst = false
	return r.err == nil
}

func (r *jsonReader) openMap()   { r.open('{', "an object") }
func (r *jsonReader) openList()  { r.open('[', "a list") }
func (r *jsonReader) item() bool { return r.goesOn(']') }
func (r *jsonReader) null() bool { return r.err == nil && r.next() == 'n' && r.word("null") }

func (r *jsonReader) key() (string, bool) {
	if !r.goesOn('}') {
		return "", false
	}
	name, ok := r.text()
	if !ok || !r.take(':') {
		r.fail("a name and a colon")
	}
	return name, r.err == nil
}

func (r *jsonReader) bool() bool {
	if r.word("true") {
		return true
	}
	if !r.word("false") {
		r.fail("a boolean")
	}
	return false
}

func (r *jsonReader) text() (string, bool) {
	if r.next() != '"' {
		return "", false
	}
	start := r.at
	isPlain := true
	for r.at++; r.at < len(r.bytes); r.at++ {
		switch b := r.bytes[r.at]; {
		case b == '"':
			r.at++
			return r.unquoted(r.bytes[start:r.at], isPlain), true
		case b == '\\':
			isPlain = false
			r.at++
		case b < ' ':
			r.fail("a string without control characters")
			return "", true
		}
	}
	r.fail("the end of a string")
	return "", true
}

func (r *jsonReader) unquoted(quoted []byte, isPlain bool) string {
	if !utf8.Valid(quoted) {
		r.fail("UTF-8")
		return ""
	}
	if isPlain {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		r.fail("a string")
	}
	return text
}

func (r *jsonReader) number() number {
	text, isText := r.text()
	if !isText {
		start := r.at
		for r.at < len(r.bytes) && strings.IndexByte("+-.0123456789Ee", r.bytes[r.at]) >= 0 {
			r.at++
		}
		text = string(r.bytes[start:r.at])
	}
	switch text {
	case "NaN", "Infinity", "-Infinity":
		float, _ := strconv.ParseFloat(text, 64)
		return number{kind: 'f', float: float}
	}
	if !json.Valid([]byte(text)) || strings.Trim(text, "+-.0123456789Ee") != "" {
		return number{}
	}
	if value, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number{kind: 'i', int: value}
	}
	if value, err := strconv.ParseUint(text, 10, 64); err == nil {
		return number{kind: 'u', uint: value}
	}
	float, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return number{}
	}
	return number{kind: 'f', float: float}
}

func (r *jsonReader) data() []byte {
	text, ok := r.text()
	plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	bytes, err := base64.RawStdEncoding.DecodeString(plain)
	if !ok || err != nil {
		r.fail("bytes in base64")
	}
	return bytes
}

func (r *jsonReader) timestamp() time.Time {
	text, ok := r.text()
	value, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text))
	if !ok || err != nil {
		r.fail("an RFC 3339 timestamp")
	}
	return value.UTC()
}

func (r *jsonReader) raw() Raw {
	r.next()
	start := r.at
	r.pass()
	if r.err != nil {
		return nil
	}
	return Raw(string(r.bytes[start:r.at]))
}

// pass skips a value.
func (r *jsonReader) pass() {
	switch b := r.next(); b {
	case '{':
		r.openMap()
		for _, ok := r.key(); ok; _, ok = r.key() {
			r.pass()
		}
	case '[':
		r.openList()
		for r.item() {
			r.pass()
		}
	case '"':
		r.text()
	case 't', 'f':
		r.bool()
	case 'n':
		if !r.null() {
			r.fail("a value")
		}
	default:
		if r.number().kind == 0 {
			r.fail("a value")
		}
	}
}
