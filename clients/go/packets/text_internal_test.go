package packets

import (
	"strings"
	"testing"
)

func TestScansAgreeWithAPlainSearch(t *testing.T) {
	for length := range 40 {
		for at := range length {
			for c := range 256 {
				text := []byte(strings.Repeat("x", length))
				text[at] = byte(c)
				plain := c >= 1 && c < 0x80
				if isPlainASCII(text) != plain {
					t.Fatalf("isPlainASCII is wrong for 0x%02x at %d of %d", c, at, length)
				}
				if isPlainTopic(text) != (plain && c != '+' && c != '#') {
					t.Fatalf("isPlainTopic is wrong for 0x%02x at %d of %d", c, at, length)
				}
			}
		}
	}
}

func TestScansFindAByteNextToSimilarOnes(t *testing.T) {
	for _, text := range []string{"\x22\x24,*\x22\x24,*", "\x01\x01\x01\x01\x01\x01\x01\x01\x01", "\x7f\x7e\x7f"} {
		if !isPlainTopic([]byte(text)) {
			t.Errorf("%q is plain", text)
		}
	}
	for _, text := range []string{"\x22#\x24,*\x22\x24,*", "\x01\x01\x01\x00\x01\x01\x01\x01\x01", "\x7f\x80\x7f"} {
		if isPlainTopic([]byte(text)) {
			t.Errorf("%q is not plain", text)
		}
	}
}

func TestVariableByteIntegersRoundTripAtEveryBoundary(t *testing.T) {
	for _, value := range []int{0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, MaxRemainingLength} {
		b := appendVarint(nil, value)
		var put [4]byte
		if n := putVarint(put[:], value); n != len(b) || string(put[:n]) != string(b) || n != varintLen(value) {
			t.Errorf("%d: the ways to write it differ", value)
		}
		if got, n, cause := readVarint(b); got != value || n != len(b) || cause != causeNone {
			t.Errorf("%d is read as %d, %d bytes, %v", value, got, n, cause)
		}
		for cut := range len(b) {
			if _, _, cause := readVarint(b[:cut]); cause != CauseIncomplete {
				t.Errorf("%d cut after %d bytes: %v", value, cut, cause)
			}
		}
	}
}
