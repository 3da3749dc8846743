package client

import (
	"context"
	"sync"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// inbox holds the messages of one subscription until they are taken.
type inbox struct {
	maxMessages, maxBytes int

	mutex sync.Mutex
	items []*Message
	head  int
	// messages and bytes count only QoS 0.
	messages, bytes int
	// stuck says that waiting for room has failed; there is no further waiting until half of it is free.
	stuck bool
	ended bool
	err   error
	// handled says that a message has been taken and the next one has not been requested.
	handled bool
	// dropped are the QoS 0 messages without room.
	dropped uint64

	ready chan struct{}
	room  chan struct{}
	// finished is closed when the inbox has ended.
	finished chan struct{}
}

func newInbox(maxMessages, maxBytes int) *inbox {
	return &inbox{
		maxMessages: maxMessages, maxBytes: maxBytes, ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
		finished: make(chan struct{}),
	}
}

// delivery is the result of put.
type delivery uint8

const (
	taken delivery = iota
	// full: waiting for room may help.
	full
	// stuck: waiting has failed recently.
	stuck
	// over: no more messages are accepted.
	over
)

// put adds a message, unless there is no room. QoS 1 and 2 always have room.
func (i *inbox) put(m *Message) delivery {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.ended {
		return over
	}
	if m.QoS() == packets.AtMostOnce {
		size := len(m.Payload())
		if i.messages > 0 && (i.messages >= i.maxMessages || i.bytes+size > i.maxBytes) {
			if i.stuck {
				return stuck
			}
			return full
		}
		i.messages++
		i.bytes += size
	}
	if i.head > 0 && len(i.items) == cap(i.items) {
		rest := copy(i.items, i.items[i.head:])
		clear(i.items[rest:])
		i.items, i.head = i.items[:rest], 0
	}
	i.items = append(i.items, m)
	if len(i.items)-i.head == 1 {
		signal(i.ready)
	}
	return taken
}

// drop counts a message without room.
func (i *inbox) drop() {
	i.mutex.Lock()
	i.dropped++
	i.mutex.Unlock()
}

// giveUp stops waiting for room until there is much of it.
func (i *inbox) giveUp() {
	i.mutex.Lock()
	i.stuck = true
	i.mutex.Unlock()
}

// take waits for a message. It returns nil and the reason when the inbox has ended and is empty, or when ctx
// has ended.
func (i *inbox) take(ctx context.Context) (*Message, error) {
	for {
		if m, err, done := i.next(); done {
			return m, err
		}
		select {
		case <-i.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (i *inbox) next() (m *Message, err error, done bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.head == len(i.items) {
		if i.ended {
			// Other callers may be waiting, too.
			signal(i.ready)
			return nil, i.err, true
		}
		i.handled = false
		return nil, nil, false
	}
	i.handled = true
	m = i.items[i.head]
	i.items[i.head] = nil
	i.head++
	if i.head == len(i.items) {
		i.items, i.head = i.items[:0], 0
	} else {
		signal(i.ready)
	}
	if m.QoS() == packets.AtMostOnce {
		i.messages--
		i.bytes -= len(m.Payload())
		if i.messages <= i.maxMessages/2 && i.bytes <= i.maxBytes/2 {
			i.stuck = false
			signal(i.room)
		}
	}
	return m, nil, true
}

// isHandled reports whether the taker is busy with a message.
func (i *inbox) isHandled() bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.handled
}

// end accepts no more messages; the remaining ones can still be taken.
func (i *inbox) end(err error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if !i.ended {
		i.ended, i.err = true, err
		close(i.finished)
	}
	signal(i.ready)
	signal(i.room)
}

// hasEnded reports whether no more messages follow.
func (i *inbox) hasEnded() bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.ended
}

// failure returns why the inbox ended; nil if the client was closed, or if it has not ended.
func (i *inbox) failure() error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.err
}

// discard takes all remaining messages.
func (i *inbox) discard() []*Message {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	rest := i.items[i.head:]
	i.items, i.head, i.messages, i.bytes = nil, 0, 0, 0
	return rest
}

// signal wakes a current or future waiter.
func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
