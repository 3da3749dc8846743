package client

// WriterIsIdle reports whether the writer of the connection waits for output.
func (c *Client) WriterIsIdle() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.current != nil && c.current.idle
}
