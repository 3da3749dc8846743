package main

import (
	"strings"
	"testing"
)

func TestEachLineGetsItsResult(t *testing.T) {
	const lines = `4 100 c000
5 100 d000c0
4 100 c001
5 100 30
5 100 3005000161
5 3 3004000161
5 100 3003000000
5 100 4003000100
3 100 f000
`
	const want = `valid 2 c000
valid 2 d000
incomplete
incomplete
incomplete
too_large 149 packet_too_large 1 the packet is larger than its receiver accepts, or than MQTT allows: send less in one packet [packet_too_large] at byte 1 (MQTT-3.2.2-15)
protocol_error 130 topic_missing 2 the topic name is empty, and there is no topic alias: send one of them [topic_missing] at byte 2 (MQTT-4.7.3-1)
valid 5 40020001
malformed 129 auth_before_v5 2 AUTH exists only in MQTT 5.0: do not send it in 3.1.1 [auth_before_v5] at byte 2
`
	var got strings.Builder
	if err := run(strings.NewReader(lines), &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("answered\n%snot\n%s", got.String(), want)
	}
}

func TestInvalidLinesAreRefused(t *testing.T) {
	for _, line := range []string{"6 100 c000", "4 100", "4 many c000", "4 100 c0zz"} {
		if err := run(strings.NewReader(line), &strings.Builder{}); err == nil {
			t.Errorf("%q has an answer", line)
		}
	}
}
