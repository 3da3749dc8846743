package websocket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestBytesPassInBothDirections(t *testing.T) {
	client, server := open(t)
	for _, size := range []int{0, 1, 7, 125, 126, 127, 65535, 65536, 65537, 300_000} {
		sent := make([]byte, size)
		rand.New(rand.NewSource(int64(size))).Read(sent)
		for _, way := range []struct{ from, to *Conn }{{client, server}, {server, client}} {
			failed := make(chan error, 1)
			go func() {
				_, err := way.from.Write(sent)
				failed <- err
			}()
			got := make([]byte, size)
			if _, err := io.ReadFull(way.to, got); err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if err := <-failed; err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if !bytes.Equal(got, sent) {
				t.Fatalf("%d bytes arrived changed", size)
			}
		}
	}
}

func TestCloseEndsTheOtherSideCleanly(t *testing.T) {
	client, server := open(t)
	closed := make(chan error, 1)
	go func() { closed <- client.Close() }()
	if _, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("got %v, want io.EOF", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte{1}); err == nil {
		t.Fatal("writing after the close frame is refused")
	}
}

func TestFramesAreReadAtAnySplit(t *testing.T) {
	// A fragmented message with a ping within, then another message, all in one-byte reads.
	wire := []byte{0x02, 3, 'a', 'b', 'c', 0x89, 2, 'h', 'i', 0x80, 1, 'd', 0x82, 0, 0x82, 2, 'e', 'f', 0x88, 2, 3, 0xE8}
	answers := &recorder{}
	conn := newConn(answers, bufio.NewReader(iotest.OneByteReader(bytes.NewReader(wire))), true)
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "abcdef" {
		t.Fatalf("got %q, %v", got, err)
	}
	pong := answers.Bytes()
	if len(pong) < 8 || pong[0] != 0x8A || pong[1] != 0x82 {
		t.Fatalf("the ping was answered with % x", pong)
	}
	mask(pong[6:8], [4]byte(pong[2:6]), 0)
	if string(pong[6:8]) != "hi" {
		t.Fatalf("the pong carries %q", pong[6:8])
	}
}

func TestBrokenFramesAreRefused(t *testing.T) {
	for name, wire := range map[string][]byte{
		"a text message [MQTT-6.0.0-1]":         {0x81, 1, 'a'},
		"masked by a server":                    {0x82, 0x81, 1, 2, 3, 4, 'a'},
		"a reserved bit":                        {0xC2, 1, 'a'},
		"a continuation of nothing":             {0x80, 1, 'a'},
		"a message within a message":            {0x02, 1, 'a', 0x82, 1, 'b'},
		"a fragmented ping":                     {0x09, 0},
		"a long ping":                           {0x89, 126, 0, 126},
		"an unknown opcode":                     {0x83, 0},
		"a length of two bytes that needs none": {0x82, 126, 0, 125},
		"a length of eight that needs two":      {0x82, 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF},
		"a length beyond 63 bits":               {0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0},
	} {
		conn := newConn(&recorder{}, bufio.NewReader(bytes.NewReader(wire)), true)
		if _, err := io.ReadAll(conn); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: read again: %v", name, err)
		}
	}
}

func TestEndWithinAFrameIsNotClean(t *testing.T) {
	for _, wire := range [][]byte{{0x82}, {0x82, 5, 'a'}, {0x82, 126, 1}} {
		conn := newConn(&recorder{}, bufio.NewReader(bytes.NewReader(wire)), true)
		if _, err := io.ReadAll(conn); err != io.ErrUnexpectedEOF {
			t.Errorf("% x: got %v", wire, err)
		}
	}
}

func TestServerRefusesOtherSubprotocols(t *testing.T) {
	good := "GET /mqtt HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: x, mqtt\r\n\r\n"
	for _, each := range []struct{ name, change, to, status string }{
		{"as it should be", "", "", "101"},
		{"path", "/mqtt", "/other", "404"},
		{"method", "GET", "POST", "426"},
		{"no upgrade", "Upgrade: websocket", "X: y", "426"},
		{"version", "Version: 13", "Version: 8", "426"},
		{"key", "AAAAAAAAAAAAAAAAAAAAAA==", "AAAA", "400"},
		{"subprotocol", "x, mqtt", "mqttv3.1", "400"},
	} {
		near, far := net.Pipe()
		result := make(chan error, 1)
		go func() {
			_, err := Server(context.Background(), far, "/mqtt")
			result <- err
		}()
		go func() { _, _ = io.WriteString(near, strings.Replace(good, each.change, each.to, 1)) }()
		response, err := http.ReadResponse(bufio.NewReader(near), nil)
		if err != nil {
			t.Fatalf("%s: %v", each.name, err)
		}
		if !strings.HasPrefix(response.Status, each.status) {
			t.Errorf("%s: got %s", each.name, response.Status)
		}
		if err := <-result; (err == nil) != (each.status == "101") {
			t.Errorf("%s: got %v", each.name, err)
		}
		_ = near.Close()
	}
}

func TestClientRefusesOtherSubprotocols(t *testing.T) {
	for _, each := range []struct{ name, answer string }{
		{"another status", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		{"no upgrade", "HTTP/1.1 101 X\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"},
		{"another key", "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mqtt\r\n" +
			"Sec-WebSocket-Accept: AAAA\r\n\r\n"},
		{"not HTTP", "\x20\x02\x00\x00\r\n\r\n"},
		{"too much", "HTTP/1.1 101 X\r\nX: " + strings.Repeat("y", MaxHandshakeBytes) + "\r\n\r\n"},
	} {
		near, far := net.Pipe()
		go func() {
			_, _ = http.ReadRequest(bufio.NewReader(far))
			_, _ = io.WriteString(far, each.answer)
			_ = far.Close()
		}()
		if _, err := Client(context.Background(), near, &url.URL{Host: "h", Path: "/"}, nil); !errors.Is(err, ErrHandshake) {
			t.Errorf("%s: got %v", each.name, err)
		}
		_ = near.Close()
	}
}

func TestCanceledContextEndsTheHandshake(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = http.ReadRequest(bufio.NewReader(far))
		cancel()
	}()
	if _, err := Client(ctx, near, &url.URL{Host: "h"}, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func FuzzReading(f *testing.F) {
	f.Add([]byte{0x82, 1, 'a', 0x88, 0}, true)
	f.Add([]byte{0x82, 0x81, 1, 2, 3, 4, 'a'}, false)
	f.Fuzz(func(t *testing.T, wire []byte, client bool) {
		conn := newConn(&recorder{}, bufio.NewReader(bytes.NewReader(wire)), client)
		got, err := io.ReadAll(conn)
		if len(got) > len(wire) {
			t.Fatalf("%d bytes out of %d, %v", len(got), len(wire), err)
		}
	})
}

func open(t *testing.T) (client, server *Conn) {
	t.Helper()
	near, far := net.Pipe()
	accepted := make(chan *Conn, 1)
	go func() {
		conn, err := Server(context.Background(), far, "/mqtt")
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := Client(ctx, near, &url.URL{Host: "broker.example", Path: "/mqtt"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return client, server
}

// recorder is a connection that records what is written to it.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error)      { return r.Buffer.Write(p) }
func (r *recorder) Read(p []byte) (int, error)       { return r.Buffer.Read(p) }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
