package client

import (
	"context"
	"sync"
)

// MaxEvents limits the pending calls of [Options.OnConnect], [Options.OnDisconnect] and [Options.OnAttemptFailed] behind one that
// blocks. Beyond it they are dropped, and counted in [Stats].
const MaxEvents = 1024

// events calls functions one after another, on a goroutine that runs only while there are some.
type events struct {
	mutex   sync.Mutex
	queue   []func()
	running chan struct{}
	dropped uint64
}

func (e *events) add(call func()) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if len(e.queue) >= MaxEvents {
		e.dropped++
		return
	}
	e.queue = append(e.queue, call)
	if e.running == nil {
		e.running = make(chan struct{})
		done := e.running
		go runCallbacks(func() { e.run(done) })
	}
}

func (e *events) run(done chan struct{}) {
	defer close(done)
	for {
		e.mutex.Lock()
		if len(e.queue) == 0 {
			e.running = nil
			e.mutex.Unlock()
			return
		}
		call := e.queue[0]
		e.queue = e.queue[1:]
		e.mutex.Unlock()
		call()
	}
}

func (e *events) isRunning() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.running != nil
}

// wait waits for the calls added so far.
func (e *events) wait(ctx context.Context) {
	e.mutex.Lock()
	running := e.running
	e.mutex.Unlock()
	if running == nil {
		return
	}
	select {
	case <-running:
	case <-ctx.Done():
	}
}
