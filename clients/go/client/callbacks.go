package client

import (
	"reflect"
	"runtime"
)

// runCallbacks is the entry point of each goroutine that calls functions of the application.
//
//go:noinline
func runCallbacks(run func()) { run() }

var runCallbacksEntry = reflect.ValueOf(runCallbacks).Pointer()

// isCallback reports whether the caller is called by this client: a handler, or a connection callback. Close uses it, because it must
// not wait for its own caller, and a handler need not pass its context on.
//
// Go does not say which client a goroutine belongs to. So while this client runs callbacks, a callback of another client counts as one
// of this client, too: two handlers that close each other's clients must not wait for each other.
func (c *Client) isCallback() bool {
	return c.isCalling() && isCalledBack()
}

// isCalling reports whether this client is running functions of the application.
func (c *Client) isCalling() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for worker := range c.workers {
		if worker.inbox.isHandled() {
			return true
		}
	}
	return c.events.isRunning()
}

// isCalledBack reports whether the calling goroutine was started by a client to run functions of the application.
func isCalledBack() bool {
	var callers [32]uintptr
	for skip := 0; ; skip += len(callers) {
		found := callers[:runtime.Callers(skip, callers[:])]
		if len(found) == 0 {
			return false
		}
		frames := runtime.CallersFrames(found)
		for {
			frame, more := frames.Next()
			if frame.Entry == runCallbacksEntry {
				return true
			}
			if !more {
				break
			}
		}
	}
}
