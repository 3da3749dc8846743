package packets

// MaxRemainingLength is the largest variable byte integer, and so the maximum length of a packet body: 268,435,455 bytes
// (section 1.5.5).
const MaxRemainingLength = 1<<28 - 1

// varintLen returns the encoded length of the value, 1 to 4 bytes.
func varintLen(value int) int {
	switch {
	case value < 1<<7:
		return 1
	case value < 1<<14:
		return 2
	case value < 1<<21:
		return 3
	}
	return 4
}

func appendVarint(dst []byte, value int) []byte {
	for value >= 0x80 {
		dst = append(dst, byte(value)|0x80)
		value >>= 7
	}
	return append(dst, byte(value))
}

// putVarint writes the value at the start of dst, which must have room for it, and returns its length.
func putVarint(dst []byte, value int) int {
	if value < 0x80 {
		dst[0] = byte(value)
		return 1
	}
	return putLongVarint(dst, value)
}

func putLongVarint(dst []byte, value int) (n int) {
	for ; value >= 0x80; n++ {
		dst[n] = byte(value) | 0x80
		value >>= 7
	}
	dst[n] = byte(value)
	return n + 1
}

// readVarint reads a variable byte integer at the start of b. n is its length; 0 with a cause if it is incomplete, too long,
// or not in its shortest form [MQTT-1.5.5-1].
func readVarint(b []byte) (value, n int, cause Cause) {
	for n < len(b) && n < 4 {
		c := b[n]
		value |= int(c&0x7F) << (7 * n)
		n++
		if c < 0x80 {
			if c == 0 && n > 1 {
				return 0, 0, CauseVariableByteIntegerNotMinimal
			}
			return value, n, causeNone
		}
	}
	if n == 4 {
		return 0, 0, CauseVariableByteIntegerTooLong
	}
	return 0, 0, CauseIncomplete
}
