package packets

import (
	"encoding/binary"
	"unicode/utf8"
	"unsafe"
)

// maxFieldBytes is the maximum length of a string or binary field: its length has two bytes (sections 1.5.4 and 1.5.6).
const maxFieldBytes = 65_535

// viewString returns the bytes as a string without a copy. The bytes must not change while the string is used: they belong
// to a packet that owns its memory, or the string does not leave this package, or the caller requested a view.
func viewString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// stringBytes returns the bytes of a string without a copy. They must not be modified.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// textFault validates a UTF-8 string: well-formed [MQTT-1.5.4-1], no U+0000 [MQTT-1.5.4-2]. It returns the position of the
// fault.
func textFault(text []byte) (Cause, int) {
	if isPlainASCII(text) {
		return causeNone, 0
	}
	return textFaultSlowly(text)
}

func textFaultSlowly(text []byte) (Cause, int) {
	if !utf8.Valid(text) {
		return CauseUTF8Invalid, validUpTo(text)
	}
	for at, c := range text {
		if c == 0 {
			return CauseUTF8Null, at
		}
	}
	return causeNone, 0
}

// stringCause is textFault with the length limit, for strings of the application.
func stringCause(text string) Cause {
	if len(text) > maxFieldBytes {
		return CauseFieldTooLong
	}
	if isPlainASCII(stringBytes(text)) {
		return causeNone
	}
	cause, _ := textFaultSlowly(stringBytes(text))
	return cause
}

// topicFault validates a non-empty topic name: a UTF-8 string without wildcards [MQTT-3.3.2-2].
func topicFault(topic []byte) (Cause, int) {
	if isPlainTopic(topic) {
		return causeNone, 0
	}
	if cause, at := textFaultSlowly(topic); cause != causeNone {
		return cause, at
	}
	for at, c := range topic {
		if c == '+' || c == '#' {
			return CauseTopicWildcard, at
		}
	}
	return causeNone, 0
}

func validUpTo(text []byte) int {
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

const (
	ones     = 0x0101_0101_0101_0101
	highBits = 0x8080_8080_8080_8080
	// padding fills a word with a byte that matches no search.
	padding = 0x6161_6161_6161_6161
)

// isPlainASCII reports whether every byte is ASCII and not zero.
func isPlainASCII(text []byte) bool {
	if len(text) < 8 {
		return notPlain(shortWord(text)) == 0
	}
	last := binary.LittleEndian.Uint64(text[len(text)-8:])
	for len(text) > 8 {
		if notPlain(binary.LittleEndian.Uint64(text)) != 0 {
			return false
		}
		text = text[8:]
	}
	// It overlaps the previous word, unless they are adjacent.
	return notPlain(last) == 0
}

// isPlainTopic reports whether every byte is ASCII, not zero, and no wildcard.
func isPlainTopic(text []byte) bool {
	if len(text) < 8 {
		word := shortWord(text)
		return notPlain(word)|wildcards(word) == 0
	}
	last := binary.LittleEndian.Uint64(text[len(text)-8:])
	for len(text) > 8 {
		word := binary.LittleEndian.Uint64(text)
		if notPlain(word)|wildcards(word) != 0 {
			return false
		}
		text = text[8:]
	}
	return notPlain(last)|wildcards(last) == 0
}

// notPlain is zero exactly if no byte of the word is zero or above 0x7F. Subtracting one from bytes above zero sets no new
// high bit; a borrow requires a zero byte, which is a match.
func notPlain(word uint64) uint64 { return (word - ones | word) & highBits }

// wildcards is zero exactly if no byte of the word is + or #, given that notPlain is zero. The two (0x2B and 0x23) differ in
// only one bit: with it masked out, one comparison finds both.
func wildcards(word uint64) uint64 { return ((word&^(0x08*ones) ^ 0x23*ones) - ones) & highBits }

// shortWord is up to seven bytes, padded or overlapping.
func shortWord(text []byte) uint64 {
	if n := len(text); n >= 4 {
		return uint64(binary.LittleEndian.Uint32(text)) | uint64(binary.LittleEndian.Uint32(text[n-4:]))<<32
	}
	word := uint64(padding)
	for _, c := range text {
		word = word<<8 | uint64(c)
	}
	return word
}
