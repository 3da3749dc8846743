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
	// messages and bytes are of QoS 0 alone.
	messages, bytes int
	// stuck says that waiting for room was in vain; it is given up until half of it is free.
	stuck bool
	ended bool
	err   error
	// handled says that a message has been taken, and nobody has come back for the next one.
	handled bool

	ready chan struct{}
	room  chan struct{}
	// finished is closed when it has ended.
	finished chan struct{}
}

func newInbox(maxMessages, maxBytes int) *inbox {
	return &inbox{
		maxMessages: maxMessages, maxBytes: maxBytes, ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
		finished: make(chan struct{}),
	}
}

// delivery is what became of a message that was put.
type delivery uint8

const (
	taken delivery = iota
	// full: waiting for room may help.
	full
	// stuck: it did not, lately.
	stuck
	// over: nobody takes messages any more.
	over
)

// put adds a message, unless there is no room for it. One of QoS 1 or 2 has always room.
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

// giveUp stops the waiting for room until there is much of it.
func (i *inbox) giveUp() {
	i.mutex.Lock()
	i.stuck = true
	i.mutex.Unlock()
}

// take waits for a message. It gives nil and the reason when the inbox has ended and is empty, or when ctx has.
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
			// Others may wait too.
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

// isHandled says whether the one who takes the messages is busy with one.
func (i *inbox) isHandled() bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.handled
}

// end lets what is there be taken, and nothing more come.
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

// hasEnded says whether no more messages come.
func (i *inbox) hasEnded() bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.ended
}

// failure says why no more messages come; nil if the client was closed, or as long as they do.
func (i *inbox) failure() error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.err
}

// discard takes all that is there.
func (i *inbox) discard() []*Message {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	rest := i.items[i.head:]
	i.items, i.head, i.messages, i.bytes = nil, 0, 0, 0
	return rest
}

// signal marks that something happened, for one who waits or will wait.
func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
