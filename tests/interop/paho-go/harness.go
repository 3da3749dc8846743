package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// caseTimeout limits a whole case.
const caseTimeout = 60 * time.Second

// run is one run of one case: the address of the broker, unique names, and a deadline.
type run struct {
	context.Context
	host, port string
	tag        string
	mutex      sync.Mutex
	cleanups   []func()
}

// failure ends a case by a panic, as testing.T.FailNow ends a test; attempt recovers it.
type failure struct{ reason string }

func attempt(each testCase, host, port string) (err error) {
	var random [6]byte
	_, _ = rand.Read(random[:])
	deadline, cancel := context.WithTimeout(context.Background(), caseTimeout)
	r := &run{Context: deadline, host: host, port: port, tag: hex.EncodeToString(random[:])}
	defer func() {
		cancel()
		for _, cleanup := range r.cleanups {
			cleanup()
		}
		switch recovered := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("%s", recovered.reason)
		default:
			panic(recovered)
		}
	}()
	each.run(r)
	return nil
}

func (r *run) failf(format string, arguments ...any) {
	panic(failure{fmt.Sprintf(format, arguments...)})
}

func (r *run) expect(condition bool, format string, arguments ...any) {
	if !condition {
		r.failf(format, arguments...)
	}
}

func (r *run) expectEqual(got, want any, what string) {
	if !reflect.DeepEqual(got, want) {
		r.failf("%s: got %s, want %s", what, short(got), short(want))
	}
}

func (r *run) must(err error, what string) {
	if err != nil {
		r.failf("%s: %v", what, err)
	}
}

// expectBalanced checks that every message went to exactly one member, and none got less than half a fair share.
func (r *run) expectBalanced(shares [][]string, total int) {
	var counts []int
	sum := 0
	for _, share := range shares {
		counts = append(counts, len(share))
		sum += len(share)
	}
	r.expectEqual(sum, total, fmt.Sprintf("messages delivered across the group %v", counts))
	for _, count := range counts {
		r.expect(2*count*len(shares) >= total, "unbalanced shared subscription: %v", counts)
	}
}

// letPass sleeps, only to test the passing of time; never to wait for an event.
func (r *run) letPass(duration time.Duration) { time.Sleep(duration) }

func (r *run) topic(suffix string) string    { return "interop/" + r.tag + "/" + suffix }
func (r *run) clientID(suffix string) string { return "interop-" + r.tag + "-" + suffix }

func (r *run) onEnd(cleanup func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.cleanups = append(r.cleanups, cleanup)
}

// dial opens the connection of a client, so that a case can cut it. The library writes a packet in pieces and from several
// goroutines: for TLS, its documentation requires a connection with a lock.
func (r *run) dial() net.Conn {
	connection, err := dialer(r)
	r.must(err, "dial")
	r.onEnd(func() { _ = connection.Close() })
	return packets.NewThreadSafeConn(connection)
}

// dialer connects by TCP, or by TLS if the environment sets its files.
func dialer(r *run) (net.Conn, error) {
	address := net.JoinHostPort(r.host, r.port)
	ca := os.Getenv("TAUTWIRE_TLS_CA")
	if ca == "" {
		return (&net.Dialer{}).DialContext(r, "tcp", address)
	}
	authorities, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"mqtt"}}
	config.RootCAs.AppendCertsFromPEM(authorities)
	if certificate := os.Getenv("TAUTWIRE_TLS_CERT"); certificate != "" {
		own, err := tls.LoadX509KeyPair(certificate, os.Getenv("TAUTWIRE_TLS_KEY"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return (&tls.Dialer{Config: config}).DialContext(r, "tcp", address)
}

// await waits for one value from a channel, such as the end of a connection.
func await[T any](r *run, channel <-chan T, what string) T {
	select {
	case value := <-channel:
		return value
	case <-r.Done():
		r.failf("no %s within %v", what, caseTimeout)
		panic("unreachable")
	}
}

// inbox queues received messages without limit, so that a handler never blocks a client.
type inbox struct {
	mutex    sync.Mutex
	messages []message
	arrived  chan struct{}
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

func (i *inbox) put(m message) {
	i.mutex.Lock()
	i.messages = append(i.messages, m)
	i.mutex.Unlock()
	select {
	case i.arrived <- struct{}{}:
	default:
	}
}

func (i *inbox) take() (message, bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if len(i.messages) == 0 {
		return message{}, false
	}
	first := i.messages[0]
	i.messages = i.messages[1:]
	return first, true
}

func short(value any) string {
	text := fmt.Sprintf("%v", value)
	if len(text) > 300 {
		return fmt.Sprintf("%s… (%d bytes)", text[:300], len(text))
	}
	return text
}
