package scram

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
)

// messageBytesMax is the maximum length of a server message.
const messageBytesMax = 1024

// serverFirst is the first message of the server (RFC 5802, section 7).
type serverFirst struct {
	text       string
	nonce      string
	salt       []byte
	iterations int
}

func parseServerFirst(data []byte, clientNonce string) (serverFirst, error) {
	text, err := checked(data)
	if err != nil {
		return serverFirst{}, err
	}
	fields := strings.Split(text, ",")
	if len(fields) < 3 {
		return serverFirst{}, malformed("a field is missing")
	}
	// A mandatory extension, m=…, would be in the place of the nonce.
	nonce, hasNonce := strings.CutPrefix(fields[0], "r=")
	salt, hasSalt := strings.CutPrefix(fields[1], "s=")
	iterations, hasIterations := strings.CutPrefix(fields[2], "i=")
	if !hasNonce || !hasSalt || !hasIterations {
		return serverFirst{}, malformed("nonce, salt or iterations are missing")
	}
	first := serverFirst{text: text, nonce: nonce}
	if first.salt, err = decoded(salt); err != nil {
		return serverFirst{}, err
	}
	if len(first.salt) == 0 {
		return serverFirst{}, malformed("the salt is empty")
	}
	if first.iterations, err = number(iterations); err != nil {
		return serverFirst{}, err
	}
	if !strings.HasPrefix(nonce, clientNonce) || len(nonce) == len(clientNonce) {
		return serverFirst{}, failure(ErrNonce, "the server did not extend the client's nonce")
	}
	return first, nil
}

// parseServerFinal returns the signature in the server's last message.
func parseServerFinal(data []byte) ([]byte, error) {
	text, err := checked(data)
	if err != nil {
		return nil, err
	}
	field, _, _ := strings.Cut(text, ",")
	signature, found := strings.CutPrefix(field, "v=")
	if !found {
		return nil, malformed("the signature is missing")
	}
	return decoded(signature)
}

// checked returns a message if it is visible ASCII, which is all that a server needs, and no refusal.
func checked(data []byte) (string, error) {
	text := string(data)
	if len(text) > messageBytesMax {
		return "", malformed("the message is longer than 1,024 bytes")
	}
	if !isVisible(text) {
		return "", malformed("the message has bytes other than visible ASCII")
	}
	if why, refused := strings.CutPrefix(text, "e="); refused {
		return "", failure(ErrRefused, "the server refuses: %s", why)
	}
	return text, nil
}

func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func decoded(text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, malformed("a field is not Base64")
	}
	return data, nil
}

// number parses iterations. One that is too large for its type becomes the largest, which is refused.
func number(text string) (int, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" || len(text) > 1 && text[0] == '0' {
		return 0, malformed("the iterations are not a number")
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return math.MaxInt, nil
	}
	return number, nil
}

func malformed(what string) error {
	return failure(ErrMalformed, "the server sent an invalid SCRAM message: %s", what)
}
