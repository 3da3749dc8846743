package client_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/client/store"
)

var errDiskFull = errors.New("no space left on the device")

// disk is a store that cannot be written while it is full.
type disk struct {
	*store.Memory
	isFull atomic.Bool
}

func (d *disk) Sync() error {
	if d.isFull.Load() {
		return errDiskFull
	}
	return d.Memory.Sync()
}

// A caller may publish again after an error: the message must not arrive twice.
func TestFailedRecordsAreNotSentLater(t *testing.T) {
	ctx := testContext(t)
	b := newBroker()
	f := newFake(t, b.hooks())
	f.setDown(true)
	d := &disk{Memory: store.NewMemory()}
	d.isFull.Store(true)
	c := f.start(client.Options{ClientID: "one", Store: d})
	_, err := c.PublishAsync(ctx, client.Publication{Topic: "a", Payload: []byte("1"), QoS: qos2})
	wantError(t, err, client.ErrStore)
	if !errors.Is(err, errDiskFull) || c.Stats().Held != 0 {
		t.Errorf("%v; %d are held", err, c.Stats().Held)
	}
	d.isFull.Store(false)
	again, err := c.PublishAsync(ctx, client.Publication{Topic: "a", Payload: []byte("1 again"), QoS: qos2})
	must(t, err)
	f.setDown(false)
	must(t, outcome(ctx, again))
	if published, _ := b.state(); !slices.Equal(published, []string{"1 again"}) {
		t.Errorf("%v arrived", published)
	}
}
