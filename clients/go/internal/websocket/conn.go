package websocket

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	readBufferBytes = 32 * 1024
	// maxFrameBytes limits the size of written frames, and of the copy that a client masks.
	maxFrameBytes   = 64 * 1024
	maxControlBytes = 125
	maxHeaderBytes  = 14
	// closeWriteTimeout limits the wait for room to send the close frame.
	closeWriteTimeout = time.Second
)

type opcode byte

const (
	continuation opcode = 0
	binaryFrame  opcode = 2
	closeFrame   opcode = 8
	pingFrame    opcode = 9
	pongFrame    opcode = 10
)

// Conn is a stream of bytes over WebSocket. Reading joins the content of binary messages, because packets need not be
// aligned with frames [MQTT-6.0.0-2]; each Write sends one binary message, or several if it is long. It answers pings
// and the closing handshake while it reads. One goroutine may read while another writes.
type Conn struct {
	net.Conn
	reader *bufio.Reader
	client bool

	// State of the frame that is being read.
	remaining   uint64
	key         [4]byte
	keyAt       int
	inMessage   bool
	readFailure error

	writing sync.Mutex
	closed  bool
	scratch []byte
	keys    [512]byte
	keysAt  int
}

func newConn(conn net.Conn, reader *bufio.Reader, client bool) *Conn {
	c := &Conn{Conn: conn, reader: reader, client: client}
	c.keysAt = len(c.keys)
	return c
}

// Read returns bytes of binary messages, and io.EOF after the closing handshake.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for c.remaining == 0 {
		if c.readFailure != nil {
			return 0, c.readFailure
		}
		if err := c.nextFrame(); err != nil {
			// Reading may continue after a deadline: no byte of the frame header has been consumed.
			if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
				c.readFailure = err
			}
			return 0, err
		}
	}
	if uint64(len(p)) > c.remaining {
		p = p[:c.remaining]
	}
	n, err := c.reader.Read(p)
	c.remaining -= uint64(n)
	if !c.client {
		c.keyAt = mask(p[:n], c.key, c.keyAt)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// nextFrame reads a frame header. Control frames are handled here.
func (c *Conn) nextFrame() error {
	header, err := c.reader.Peek(2)
	if err != nil {
		return unexpected(err, len(header))
	}
	first, second := header[0], header[1]
	code, final, masked := opcode(first&0x0F), first&0x80 != 0, second&0x80 != 0
	length, size := uint64(second&0x7F), 2
	switch length {
	case 126:
		size = 4
	case 127:
		size = 10
	}
	if masked {
		size += 4
	}
	if header, err = c.reader.Peek(size); err != nil {
		return unexpected(err, size)
	}
	switch length {
	case 126:
		if length = uint64(binary.BigEndian.Uint16(header[2:])); length < 126 {
			return c.fail("the payload length is not in its shortest form")
		}
	case 127:
		if length = binary.BigEndian.Uint64(header[2:]); length < 1<<16 || length>>63 != 0 {
			return c.fail("the payload length is not in its shortest form, or too large")
		}
	}
	if masked {
		copy(c.key[:], header[size-4:])
		c.keyAt = 0
	}
	if first&0x70 != 0 {
		return c.fail("a reserved bit is set")
	}
	if masked == c.client {
		return c.fail("the mask bit is wrong: only clients mask")
	}
	control := code >= closeFrame
	if control && (!final || length > maxControlBytes) {
		return c.fail("a control frame is fragmented or too long")
	}
	switch code {
	case continuation:
		if !c.inMessage {
			return c.fail("a continuation frame without a message")
		}
		c.inMessage = !final
	case binaryFrame:
		if c.inMessage {
			return c.fail("a message starts within another")
		}
		c.inMessage = !final
	case closeFrame, pingFrame, pongFrame:
	default:
		// [MQTT-6.0.0-1]
		return c.fail("opcode %d is not a binary message", code)
	}
	if !control {
		_, _ = c.reader.Discard(size)
		c.remaining = length
		return nil
	}
	// The whole frame at once, so that nothing of it is lost if a deadline passes meanwhile.
	frame, err := c.reader.Peek(size + int(length))
	if err != nil {
		return unexpected(err, size)
	}
	var body [maxControlBytes]byte
	content := body[:copy(body[:], frame[size:])]
	_, _ = c.reader.Discard(len(frame))
	if masked {
		mask(content, c.key, 0)
	}
	switch code {
	case pingFrame:
		return c.writeFrame(pongFrame, content)
	case closeFrame:
		if len(content) > 2 {
			content = content[:2]
		}
		c.sendClose(content)
		return io.EOF
	}
	return nil
}

// unexpected converts the end of the stream without a closing handshake, which is a lost connection for MQTT.
func unexpected(err error, have int) error {
	if errors.Is(err, io.EOF) && have > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *Conn) fail(format string, arguments ...any) error {
	c.sendClose(binary.BigEndian.AppendUint16(nil, 1002))
	return protocolError(format, arguments...)
}

// Write sends p in binary messages.
func (c *Conn) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		part := p[written:min(len(p), written+maxFrameBytes)]
		if err := c.writeFrame(binaryFrame, part); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

func (c *Conn) writeFrame(code opcode, body []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	return c.writeLocked(code, body)
}

func (c *Conn) writeLocked(code opcode, body []byte) error {
	frame := append(c.scratch[:0], 0x80|byte(code))
	var masked byte
	if c.client {
		masked = 0x80
	}
	switch length := len(body); {
	case length < 126:
		frame = append(frame, masked|byte(length))
	case length < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, masked|126), uint16(length))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, masked|127), uint64(length))
	}
	var key [4]byte
	if c.client {
		key = c.nextKey()
		frame = append(frame, key[:]...)
	}
	start := len(frame)
	frame = append(frame, body...)
	if c.client {
		mask(frame[start:], key, 0)
	}
	c.scratch = frame
	_, err := c.Conn.Write(frame)
	return err
}

// nextKey must be unpredictable for intermediate proxies (RFC 6455 section 5.3); many keys are generated at once to be
// cheap.
func (c *Conn) nextKey() (key [4]byte) {
	if c.keysAt == len(c.keys) {
		_, _ = rand.Read(c.keys[:])
		c.keysAt = 0
	}
	c.keysAt += copy(key[:], c.keys[c.keysAt:])
	return key
}

func (c *Conn) sendClose(body []byte) {
	_ = c.Conn.SetWriteDeadline(time.Now().Add(closeWriteTimeout))
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.closed {
		c.closed = true
		_ = c.writeLocked(closeFrame, body)
	}
}

// Close sends a close frame and closes the underlying connection. It does not wait for the peer's close frame.
func (c *Conn) Close() error {
	c.sendClose(binary.BigEndian.AppendUint16(nil, 1000))
	return c.Conn.Close()
}

// mask applies key to p from byte at of the key, and returns the next position in the key.
func mask(p []byte, key [4]byte, at int) int {
	if len(p) >= 16 {
		var wide [8]byte
		for i := range wide {
			wide[i] = key[(at+i)&3]
		}
		word := binary.LittleEndian.Uint64(wide[:])
		for len(p) >= 8 {
			binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^word)
			p = p[8:]
		}
	}
	for i := range p {
		p[i] ^= key[at&3]
		at++
	}
	return at & 3
}
