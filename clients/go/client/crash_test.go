package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

var errPowerCut = errors.New("the power is cut")

// dying is a file store that loses power at some call. Its durable content is copied, as the crash would leave it.
type dying struct {
	*store.File
	path, copy string
	random     *rand.Rand

	mutex sync.Mutex
	left  int
	died  chan struct{}
}

// lives counts a call. The mutex is held.
func (d *dying) lives() bool {
	if d.left < 0 {
		return false
	}
	if d.left--; d.left >= 0 {
		return true
	}
	if d.random.Intn(2) == 0 {
		// It was written, but the caller got no result.
		_ = d.File.Sync()
	}
	content, err := os.ReadFile(d.path)
	orPanic(err)
	torn := make([]byte, d.random.Intn(40))
	d.random.Read(torn)
	orPanic(os.WriteFile(d.copy, append(content, torn...), 0o600))
	close(d.died)
	return false
}

func (d *dying) Record(change store.Change) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.lives() {
		d.File.Record(change)
	}
}

func (d *dying) Sync() error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !d.lives() {
		return errPowerCut
	}
	return d.File.Sync()
}

// observed records which changes have been synced.
type observed struct {
	*store.Memory
	mutex   sync.Mutex
	waiting []store.Kind
	synced  chan store.Kind
}

func (o *observed) Record(change store.Change) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.waiting = append(o.waiting, change.Kind)
	o.Memory.Record(change)
}

func (o *observed) Sync() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, kind := range o.waiting {
		o.synced <- kind
	}
	o.waiting = nil
	return o.Memory.Sync()
}

// Otherwise a client with nothing more to send would, after a crash, send again what was acknowledged long before.
func TestIndependentRecordsAreSyncedSoon(t *testing.T) {
	o := &observed{Memory: store.NewMemory(), synced: make(chan store.Kind, 100)}
	hooks := newBroker().hooks()
	onPublish := hooks.Publish
	arrived, proceed := make(chan struct{}), make(chan struct{})
	hooks.Publish = func(c *server.Conn, p *packets.Publish) error {
		close(arrived)
		<-proceed
		return onPublish(c, p)
	}
	c := newFake(t, hooks).connect(client.Options{ClientID: "one", Store: o})
	publication := client.Publication{Topic: "up", QoS: packets.AtLeastOnce}
	_, err := c.PublishAsync(testContext(t), publication)
	must(t, err)
	await(t, arrived)
	eventually(t, "the writer has nothing to do", c.WriterIsIdle)
	close(proceed)
	for await(t, o.synced) != store.Done {
	}
}

// A process that publishes crashes repeatedly. All published messages arrive, at QoS 2 once each, and in order.
func TestProcessCrashesLoseNothing(t *testing.T) {
	for seed := range int64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewSource(seed))
			qos := packets.QoS(1 + seed%2)
			version := versions[seed/2%2]
			const messages = 40
			b := newBroker()
			b.window = 1 + random.Intn(8)
			cuts := rand.New(rand.NewSource(seed + 1000))
			b.cut = func(string) (bool, bool) { return cuts.Intn(100) == 0, cuts.Intn(100) == 0 }
			f := newFake(t, b.hooks())
			folder := t.TempDir()
			path := filepath.Join(folder, "life 0")
			for life := 1; ; life++ {
				next := filepath.Join(folder, fmt.Sprint("life ", life))
				if liveOnce(t, f, b, version, qos, path, next, random, messages, life > 15) {
					break
				}
				path = next
			}
			published, _ := b.state()
			var want []string
			for number := range messages {
				want = append(want, fmt.Sprint(number))
			}
			check(t, "published", published, want, qos)
		})
	}
}

// liveOnce publishes the remaining messages, and reports whether it finished before it crashed.
func liveOnce(
	t *testing.T, f *fake, b *broker, version packets.Version, qos packets.QoS, path, next string, random *rand.Rand,
	messages int, immortal bool,
) bool {
	ctx := testContext(t)
	file, err := store.OpenFile(path, store.FileOptions{CompactBytes: 512, WithoutSync: true})
	must(t, err)
	d := &dying{File: file, path: path, copy: next, random: random, left: random.Intn(60), died: make(chan struct{})}
	if immortal {
		d.left = 1 << 30
	}
	known := numbersIn(t, path)
	published, _ := b.state()
	for _, payload := range published {
		number, _ := strconv.Atoi(payload)
		known = append(known, number)
	}
	number := 0
	if len(known) > 0 {
		number = slices.Max(known) + 1
	}
	c := f.start(client.Options{Version: version, ClientID: "one", Store: d})
	defer crash(c)
	for ; number < messages; number++ {
		publication := client.Publication{Topic: "up", Payload: []byte(fmt.Sprint(number)), QoS: qos}
		if _, err := c.PublishAsync(ctx, publication); err != nil && !errors.Is(err, client.ErrStore) {
			t.Fatal(err)
		}
		select {
		case <-d.died:
			return false
		default:
		}
	}
	finished := make(chan struct{})
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(finished)
		for c.Stats().Held > 0 && stop.Err() == nil {
			_ = c.AwaitConnection(stop)
		}
	}()
	select {
	case <-d.died:
		cancel()
		<-finished
		return false
	case <-finished:
		must(t, ctx.Err())
		return true
	}
}

// numbersIn returns the messages in a copy of the store.
func numbersIn(t *testing.T, path string) (numbers []int) {
	content, err := os.ReadFile(path)
	must(t, err)
	copied := filepath.Join(t.TempDir(), "copy")
	must(t, os.WriteFile(copied, content, 0o600))
	file, err := store.OpenFile(copied, store.FileOptions{WithoutSync: true})
	must(t, err)
	defer file.Close()
	state, err := file.Load()
	must(t, err)
	for _, message := range state.Outgoing {
		if message.Packet == nil {
			continue
		}
		p, _, err := packets.Decode(message.Packet, packets.Options{Version: packets.Version(message.Version)})
		must(t, err)
		number, err := strconv.Atoi(string(p.(*packets.Publish).Payload()))
		must(t, err)
		numbers = append(numbers, number)
	}
	return numbers
}

func TestQueuedMessagesSurviveTheProcess(t *testing.T) {
	ctx := testContext(t)
	path := filepath.Join(t.TempDir(), "session")
	b := newBroker()
	f := newFake(t, b.hooks())
	f.setDown(true)
	for life := range 3 {
		file, err := store.OpenFile(path, store.FileOptions{})
		must(t, err)
		// The version may change meanwhile: packets are stored with their version.
		c := f.start(client.Options{ClientID: "one", Store: file, Version: versions[life%2]})
		for _, qos := range []packets.QoS{qos1, qos2} {
			_, err := c.PublishAsync(ctx, client.Publication{Topic: "a", Payload: []byte(fmt.Sprint(life, qos)), QoS: qos})
			must(t, err)
		}
		crash(c)
	}
	f.setDown(false)
	file, err := store.OpenFile(path, store.FileOptions{})
	must(t, err)
	c := f.connect(client.Options{ClientID: "one", Store: file})
	if held := c.Stats().Held + int(c.Stats().Acknowledged); held != 6 {
		t.Errorf("%d messages are held", held)
	}
	closeNow(t, c)
	published, _ := b.state()
	want := []string{"0 QoS 1", "0 QoS 2", "1 QoS 1", "1 QoS 2", "2 QoS 1", "2 QoS 2"}
	if !slices.Equal(published, want) {
		t.Errorf("got %q", published)
	}
	again, err := store.OpenFile(path, store.FileOptions{})
	must(t, err)
	defer again.Close()
	state, err := again.Load()
	if err != nil || len(state.Outgoing) != 0 || !state.Began {
		t.Errorf("%+v, %v", state, err)
	}
}
