package client

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID gives the number of the calling goroutine, as stack traces show it; 0 if they do not any more. Only Close asks for it: a
// handler that closes the client need not hand its own context on, and must not wait for itself.
func goroutineID() uint64 {
	var buffer [64]byte
	text := buffer[:runtime.Stack(buffer[:], false)]
	number, _, _ := bytes.Cut(bytes.TrimPrefix(text, []byte("goroutine ")), []byte(" "))
	id, _ := strconv.ParseUint(string(number), 10, 64)
	return id
}

// isCallback says whether the caller is a handler of this client, or is told of its connections.
func (c *Client) isCallback() bool {
	id := goroutineID()
	if id == 0 {
		return false
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, worker := range c.workers {
		if worker == id {
			return true
		}
	}
	return c.events.runsOn(id)
}
