package client

import (
	"reflect"
	"runtime"
)

// runCallbacks is the first function of each goroutine that calls functions of the application.
//
//go:noinline
func runCallbacks(run func()) { run() }

var runCallbacksEntry = reflect.ValueOf(runCallbacks).Pointer()

// isCallback says whether the caller is called by this client: a handler, or a function that is told of connections. Close asks for it,
// because it must not wait for its own caller, and a handler need not hand its context on.
//
// Go does not say which client a goroutine serves. So a function that another client calls is taken for one of this client while this
// client calls functions, too: two handlers that close each other's clients must not wait for each other either.
func (c *Client) isCallback() bool {
	return c.isCalling() && isCalledBack()
}

// isCalling says whether this client is calling functions of the application.
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

// isCalledBack says whether the calling goroutine is one that a client has begun to call functions of the application.
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
