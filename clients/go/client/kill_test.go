package client_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// childVariable configures TestPublishUntilKilled: address, store, version and first number.
const childVariable = "TAUTWIRE_TEST_CHILD"

// numbered returns the message with that number: even ones have QoS 2, odd ones QoS 1.
func numbered(number int) client.Publication {
	qos := qos2
	if number%2 != 0 {
		qos = qos1
	}
	return client.Publication{Topic: "numbers", Payload: []byte(strconv.Itoa(number)), QoS: qos}
}

func killedOptions(t *testing.T, path string, version packets.Version) client.Options {
	t.Helper()
	file, err := store.OpenFile(path, store.FileOptions{})
	must(t, err)
	return client.Options{Version: version, ClientID: "killed", Store: file, Reconnect: quick}
}

var quick = client.Reconnect{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}

// TestPublishUntilKilled is not a test: it is the process that the next one kills. It prints what it publishes and what is acknowledged.
func TestPublishUntilKilled(t *testing.T) {
	words := strings.Split(os.Getenv(childVariable), "|")
	if len(words) != 4 {
		return
	}
	version, err := strconv.Atoi(words[2])
	must(t, err)
	number, err := strconv.Atoi(words[3])
	must(t, err)
	ctx := testContext(t)
	c, err := client.New(words[0], killedOptions(t, words[1], packets.Version(version)))
	must(t, err)
	// The limit of unacknowledged messages.
	tokens := make(chan *client.Token, 50)
	go func(number int) {
		for ; ; number++ {
			if outcome(ctx, <-tokens) == nil {
				fmt.Println("acknowledged", number)
			}
		}
	}(number)
	for ; ctx.Err() == nil; number++ {
		// Printed first: the next process must not use the number again.
		fmt.Println("publishing", number)
		token, err := c.PublishAsync(ctx, numbered(number))
		must(t, err)
		tokens <- token
	}
	t.Fatal("it was not killed")
}

// live runs that process until it has printed so many lines, each of which is passed to onLine.
func live(t *testing.T, words string, lines int, onLine func(word string, number int)) {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	command := exec.Command(program, "-test.run=^TestPublishUntilKilled$")
	command.Env = append(os.Environ(), childVariable+"="+words)
	var log strings.Builder
	command.Stderr = &log
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	count := 0
	// Its output is read to the end.
	for said := bufio.NewScanner(output); said.Scan(); {
		word, digits, _ := strings.Cut(said.Text(), " ")
		number, err := strconv.Atoi(digits)
		if err != nil {
			_ = command.Process.Kill()
			t.Errorf("unexpected output %q", said.Text())
			continue
		}
		onLine(word, number)
		if count++; count == lines {
			must(t, command.Process.Kill())
		}
	}
	_ = command.Wait()
	if count < lines {
		t.Fatalf("it ended unexpectedly: %s", log.String())
	}
}

// mortal is a broker that keeps its data and its port when it is killed and restarted.
type mortal struct {
	t             *testing.T
	data, address string
	stop          func()
}

func newMortal(t *testing.T, data string) *mortal {
	t.Helper()
	m := &mortal{t: t, data: data}
	m.start("127.0.0.1:0")
	return m
}

func (m *mortal) start(listen string) {
	m.t.Helper()
	var addresses []string
	addresses, m.stop = serve(m.t, []string{"--set", "data.path=" + m.data}, listen)
	m.address = addresses[0]
}

func (m *mortal) kill() {
	m.t.Helper()
	m.stop()
	m.start(strings.TrimPrefix(m.address, "mqtt://"))
}

// witness collects the numbers that arrive, across all restarts of the broker.
type witness struct {
	mutex   sync.Mutex
	numbers []int
}

func newWitness(t *testing.T, address string) *witness {
	t.Helper()
	w := &witness{}
	ctx := testContext(t)
	c, err := client.Connect(ctx, address, client.Options{
		ClientID: "witness", SessionExpiry: time.Hour, Reconnect: quick, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(func() { closeNow(t, c) })
	_, err = c.Handle(ctx, "numbers", client.SubscribeOptions{QoS: qos2}, func(_ context.Context, m *client.Message) {
		number, err := strconv.Atoi(string(m.Payload()))
		orPanic(err)
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.numbers = append(w.numbers, number)
	})
	must(t, err)
	return w
}

func (w *witness) seen() []int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.numbers)
}

// A process with a store is killed repeatedly, and so is the broker. Nothing is lost that was acknowledged or in the store, and QoS 2
// messages arrive once.
func TestKillsOfProcessAndBrokerLoseNothing(t *testing.T) {
	brokerBinary(t)
	const kills = 6
	for _, version := range versions {
		t.Run(version.String(), func(t *testing.T) {
			random := rand.New(rand.NewSource(int64(version)))
			folder := t.TempDir()
			path := filepath.Join(folder, "session")
			broker := newMortal(t, filepath.Join(folder, "data"))
			w := newWitness(t, broker.address)
			var acknowledged, kept []int
			first := 0
			for kill := range kills {
				lines := 1 + random.Intn(300)
				brokerDiesAt := -1
				if kill%2 == 0 {
					brokerDiesAt = random.Intn(lines)
				}
				count := 0
				words := fmt.Sprintf("%s|%s|%d|%d", broker.address, path, version, first)
				live(t, words, lines, func(word string, number int) {
					if word == "publishing" {
						first = number + 1
					} else {
						acknowledged = append(acknowledged, number)
					}
					if count++; count == brokerDiesAt+1 {
						broker.kill()
					}
				})
				kept = append(kept, numbersIn(t, path)...)
			}
			c, err := client.New(broker.address, killedOptions(t, path, version))
			must(t, err)
			t.Cleanup(func() { closeNow(t, c) })
			last := first + first%2
			token, err := c.PublishAsync(context.Background(), numbered(last))
			must(t, err)
			must(t, outcome(testContext(t), token))
			eventually(t, "the last number arrives", func() bool { return slices.Contains(w.seen(), last) })

			arrived := map[int]int{}
			for _, number := range w.seen() {
				if arrived[number]++; number%2 == 0 && arrived[number] > 1 {
					t.Errorf("QoS 2 message %d arrived %d times", number, arrived[number])
				}
			}
			for _, number := range append(acknowledged, kept...) {
				if arrived[number] == 0 {
					t.Errorf("%d was acknowledged or stored, but did not arrive", number)
				}
			}
			if len(acknowledged) < kills || len(kept) == 0 {
				t.Errorf("only %d acknowledged and %d stored: the test proves nothing", len(acknowledged), len(kept))
			}
		})
	}
}
