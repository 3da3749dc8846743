package client_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// brokerBinary is the path of the broker: TAUTWIRE_BIN, or the output of `make build`. With TAUTWIRE_REQUIRED=1 a
// missing broker is a failure.
func brokerBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("TAUTWIRE_BIN")
	if path == "" {
		path = filepath.Join("..", "..", "..", "bin", "tautwire")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("TAUTWIRE_REQUIRED") == "1" {
			t.Fatalf("no broker binary: run `make build`, or set TAUTWIRE_BIN: %v", err)
		}
		t.Skipf("no broker binary: run `make build`, or set TAUTWIRE_BIN: %v", err)
	}
	return path
}

// runBroker starts the broker on ports that the kernel picks, and returns the addresses that it listens on.
func runBroker(t *testing.T, listen ...string) (addresses []string, stop func()) {
	t.Helper()
	return runBrokerWith(t, nil, listen...)
}

func runBrokerWith(t *testing.T, settings []string, listen ...string) (addresses []string, stop func()) {
	t.Helper()
	arguments := []string{"--memory"}
	for _, each := range settings {
		arguments = append(arguments, "--set", each)
	}
	return serve(t, arguments, listen...)
}

func serve(t *testing.T, arguments []string, listen ...string) (addresses []string, stop func()) {
	t.Helper()
	arguments = append([]string{"serve"}, arguments...)
	for _, each := range listen {
		arguments = append(arguments, "--listen", each)
	}
	command := exec.Command(brokerBinary(t), arguments...)
	var log strings.Builder
	command.Stderr = &log
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	stop = sync.OnceFunc(func() {
		_ = command.Process.Kill()
		_, _ = io.Copy(io.Discard, output)
		_ = command.Wait()
	})
	t.Cleanup(stop)
	lines := bufio.NewScanner(output)
	for range listen {
		if !lines.Scan() {
			stop()
			t.Fatalf("the broker does not start: %s", log.String())
		}
		address, found := strings.CutPrefix(lines.Text(), "listening on ")
		if !found {
			t.Fatalf("unexpected output of the broker: %q", lines.Text())
		}
		addresses = append(addresses, address)
	}
	return addresses, stop
}

func TestTheBrokerDeliversAtEachQoS(t *testing.T) {
	addresses, _ := runBroker(t, "127.0.0.1:0")
	for _, version := range versions {
		for _, qos := range []packets.QoS{qos0, qos1, qos2} {
			ctx := testContext(t)
			c, err := client.Connect(ctx, addresses[0], client.Options{Version: version})
			must(t, err)
			topic := fmt.Sprintf("delivery/%d/%d", version, qos)
			sub, err := c.Subscribe(ctx, topic+"/#", client.SubscribeOptions{QoS: qos})
			must(t, err)
			const messages = 2000
			go func() {
				for number := range messages {
					_, err := c.PublishAsync(ctx, client.Publication{Topic: topic + "/a", Payload: []byte(fmt.Sprint(number)), QoS: qos})
					if err != nil {
						t.Error(err)
						return
					}
				}
			}()
			count := 0
			for m, err := range sub.Messages(ctx) {
				must(t, err)
				if string(m.Payload()) != fmt.Sprint(count) || m.QoS() != qos || m.Topic() != topic+"/a" {
					t.Fatalf("number %d is %v: %s", count, m, m.Payload())
				}
				if count++; count == messages {
					break
				}
			}
			closeNow(t, c)
		}
	}
}

func TestTheBrokerResumesASession(t *testing.T) {
	addresses, _ := runBroker(t, "127.0.0.1:0")
	for _, version := range versions {
		ctx := testContext(t)
		other, err := client.Connect(ctx, addresses[0], client.Options{Version: version})
		must(t, err)
		var conns lastConn
		infos := make(chan client.ServerInfo, 10)
		gate := make(chan struct{}, 1)
		gate <- struct{}{}
		address := strings.TrimPrefix(addresses[0], "mqtt://")
		c, err := client.Connect(ctx, addresses[0], client.Options{
			Version: version, ClientID: fmt.Sprint("resume", version), SessionExpiry: time.Minute, OnConnect: func(i client.ServerInfo) { infos <- i },
			Dial: func(ctx context.Context) (net.Conn, error) {
				<-gate
				return conns.dial(ctx, address)
			},
		})
		must(t, err)
		await(t, infos)
		sub, err := c.Subscribe(ctx, "resume", client.SubscribeOptions{QoS: qos2})
		must(t, err)
		conns.cut()
		eventually(t, "the cut is noticed", func() bool { return !c.Connected() })
		// Of this client, without a connection, and of another: all arrive.
		mine, err := c.PublishAsync(ctx, client.Publication{Topic: "resume", Payload: []byte("mine"), QoS: qos2})
		must(t, err)
		must(t, other.Publish(ctx, client.Publication{Topic: "resume", Payload: []byte("other"), QoS: qos1}))
		gate <- struct{}{}
		if info := await(t, infos); !info.SessionPresent {
			t.Error("the session is gone")
		}
		must(t, outcome(ctx, mine))
		got := string(receive(t, sub).Payload()) + " " + string(receive(t, sub).Payload())
		if got != "other mine" && got != "mine other" {
			t.Errorf("got %q", got)
		}
		close(gate)
		closeNow(t, c)
		closeNow(t, other)
	}
}

type lastConn struct {
	mutex sync.Mutex
	conn  net.Conn
}

func (l *lastConn) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.conn = conn
	return conn, err
}

func (l *lastConn) cut() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_ = l.conn.Close()
}

func TestTheBrokerServesOverWebSocket(t *testing.T) {
	ctx := testContext(t)
	addresses, _ := runBroker(t, "ws://127.0.0.1:0/mqtt")
	c, err := client.Connect(ctx, addresses[0], client.Options{})
	must(t, err)
	defer closeNow(t, c)
	sub, err := c.Subscribe(ctx, "ws", client.SubscribeOptions{QoS: qos2})
	must(t, err)
	for _, size := range []int{0, 200, 100_000} {
		must(t, c.Publish(ctx, client.Publication{Topic: "ws", Payload: make([]byte, size), QoS: qos2}))
		if got := len(receive(t, sub).Payload()); got != size {
			t.Errorf("%d bytes came as %d", size, got)
		}
	}
}

func TestTheBrokerRoutesRequestsAndResponses(t *testing.T) {
	ctx := testContext(t)
	addresses, _ := runBroker(t, "127.0.0.1:0")
	responder, err := client.Connect(ctx, addresses[0], client.Options{})
	must(t, err)
	defer closeNow(t, responder)
	_, err = responder.Respond(ctx, "$share/workers/length", client.SubscribeOptions{QoS: qos1},
		func(_ context.Context, m *client.Message) (client.Publication, error) {
			return client.Publication{Payload: []byte(fmt.Sprint(len(m.Payload())))}, nil
		})
	must(t, err)
	c, err := client.Connect(ctx, addresses[0], client.Options{})
	must(t, err)
	defer closeNow(t, c)
	for size := range 100 {
		m, err := c.Request(ctx, client.Publication{Topic: "length", Payload: make([]byte, size), QoS: qos1})
		must(t, err)
		if string(m.Payload()) != fmt.Sprint(size) {
			t.Errorf("got %s", m.Payload())
		}
	}
	_, err = c.Request(ctx, client.Publication{Topic: "nobody", QoS: qos1})
	if e := wantError(t, err, client.ErrNoResponder); e.Reason != packets.ReasonNoMatchingSubscribers {
		t.Errorf("got %v", e)
	}
}
