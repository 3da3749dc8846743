// Verdict prints how package packets decodes packets, for comparison with decoders in other languages.
//
// Each line of the input is "VERSION MAX_PACKET_SIZE HEX", with version 3, 4 or 5. Each line of the output is one of "valid CONSUMED
// HEX", with the packet encoded again, "incomplete", or "CLASS REASON CODE OFFSET MESSAGE", with the class malformed, protocol_error
// or too_large. A result that differs between the ways to decode begins with "disagreement".
package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/tautwire/tautwire/clients/go/packets"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	answers := bufio.NewWriter(out)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			answer, err := answerTo(strings.TrimRight(line, "\n"))
			if err != nil {
				return err
			}
			fmt.Fprintln(answers, answer)
		}
		if lines.Buffered() == 0 || err != nil {
			// The caller may wait for each answer.
			if err := answers.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func answerTo(line string) (string, error) {
	words := strings.SplitN(line, " ", 3)
	if len(words) != 3 {
		return "", fmt.Errorf("%q is not VERSION MAX_PACKET_SIZE HEX", line)
	}
	versions := map[string]packets.Version{"3": packets.V31, "4": packets.V311, "5": packets.V5}
	version, ok := versions[words[0]]
	if !ok {
		return "", errors.New("the first word is not 3, 4 or 5")
	}
	maxPacketSize, err := strconv.ParseUint(words[1], 10, 32)
	if err != nil {
		return "", err
	}
	input, err := hex.DecodeString(words[2])
	if err != nil {
		return "", err
	}
	options := packets.Options{Version: version, MaxPacketSize: uint32(maxPacketSize)}
	var decoder packets.Decoder
	p, consumed, err := decoder.Decode(input, options)
	view := verdict(input, p, consumed, err)
	p, consumed, err = packets.Decode(input, options)
	owned := verdict(input, p, consumed, err)
	if view != owned {
		return fmt.Sprintf("disagreement: view %s, owned %s", view, owned), nil
	}
	return owned, nil
}

func verdict(input []byte, p packets.Packet, consumed int, err error) string {
	var problem *packets.Error
	switch {
	case err == nil:
		encoded, err := p.AppendTo(nil)
		if errors.Is(err, packets.CauseClientIDMissing) {
			// A server has to read the packet to refuse it, but a client must not send it [MQTT-3.1.3-7].
			encoded, err = input[:consumed], nil
		}
		if err != nil {
			return fmt.Sprintf("disagreement: valid, and not well formed: %v", err)
		}
		return fmt.Sprintf("valid %d %x", consumed, encoded)
	case !errors.As(err, &problem):
		return fmt.Sprintf("disagreement: %v", err)
	case problem.Fault() == packets.FaultIncomplete:
		return "incomplete"
	}
	return fmt.Sprintf("%s %d %s %d %v", problem.Fault(), uint8(problem.Reason()), problem.Code(), problem.Offset, problem)
}
