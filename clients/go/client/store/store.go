// Package store persists the session of a client beyond the life of a process: unacknowledged messages, and the packet
// identifiers of received QoS 2 messages (MQTT 5.0 section 4.1).
//
// A store records changes in order and later returns the resulting state. [Memory] keeps it in memory; [File] is safe
// against a crash at any time. Implement [Store] for another one.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Store persists one session. Its methods may be called from several goroutines.
type Store interface {
	// Load returns the state that results from the recorded changes. It is called once, before anything is recorded.
	Load() (State, error)
	// Record adds a change. It must not wait for a device: the client calls it with a lock held, and calls Sync before it
	// acts on the change. The store may keep Change.Packet, which is never modified.
	Record(Change)
	// Sync returns when all changes recorded before the call are as durable as the store makes them. The client then sends
	// the packets that depend on them. After an error the client drops its connection and tries again later.
	Sync() error
	// Close syncs and releases the store.
	Close() error
}

// ErrCorrupt means that the store cannot be read. It is unchanged: move it away to start with an empty session.
var ErrCorrupt = errors.New("store: the file cannot be read [store_corrupt]")

// ErrInUse means that another process, or another client of this one, has the store open.
var ErrInUse = errors.New("store: the store is open elsewhere [store_in_use]")

// Kind is the kind of a change.
type Kind uint8

const (
	// Began: the server has a new session for ClientID, and received identifiers are void. Messages remain.
	Began Kind = 1 + iota
	// Queued: the message Sequence, a PUBLISH of protocol version Version in Packet, is queued.
	Queued
	// Sent: the message Sequence has PacketID, and may have been sent with it.
	Sent
	// Unsent: the message Sequence is queued again, without a packet identifier, because its session was lost.
	Unsent
	// Released: the server has accepted the QoS 2 message Sequence (PUBREC); only PUBREL and PUBCOMP remain.
	Released
	// Done: the message Sequence is complete.
	Done
	// Received: the application has accepted the incoming QoS 2 message PacketID.
	Received
	// Completed: the server has released PacketID (PUBREL), and may use it for another message.
	Completed
)

// Change is one change of a session. Its [Kind] says which fields are used.
type Change struct {
	Kind     Kind
	Sequence uint64
	PacketID uint16
	Version  byte
	ClientID string
	Packet   []byte
}

// Outgoing is an outgoing message.
type Outgoing struct {
	// Sequence orders messages as the application published them.
	Sequence uint64
	// PacketID is 0 for a message that has not been sent.
	PacketID uint16
	// Release is 0 until PUBREC; then it orders messages by the arrival of theirs [MQTT-4.6.0-4].
	Release uint64
	// Version is the protocol version of Packet: 4 or 5.
	Version byte
	// Packet is the PUBLISH packet with a placeholder packet identifier, or nil once it was released.
	Packet []byte
}

// State is the state of a stored session.
type State struct {
	// Began says that the server may hold a session for ClientID.
	Began    bool
	ClientID string
	// Outgoing is in the order of publication.
	Outgoing []Outgoing
	// Received are the identifiers of incoming QoS 2 messages that were accepted and not yet released.
	Received []uint16
}

// ledger applies changes to a state.
type ledger struct {
	began    bool
	clientID string
	outgoing map[uint64]*Outgoing
	received map[uint16]struct{}
	releases uint64
}

func newLedger() *ledger {
	return &ledger{outgoing: map[uint64]*Outgoing{}, received: map[uint16]struct{}{}}
}

// apply refuses a change that contradicts the earlier ones, and changes nothing then.
func (l *ledger) apply(change Change) error {
	message, known := l.outgoing[change.Sequence]
	switch change.Kind {
	case Sent, Unsent, Released, Done:
		if !known {
			return fmt.Errorf("there is no message %d", change.Sequence)
		}
	}
	switch change.Kind {
	case Began:
		l.began, l.clientID = true, change.ClientID
		clear(l.received)
	case Queued:
		l.outgoing[change.Sequence] = &Outgoing{Sequence: change.Sequence, Version: change.Version, Packet: change.Packet}
	case Sent:
		message.PacketID = change.PacketID
	case Unsent:
		message.PacketID = 0
	case Released:
		l.releases++
		message.Release, message.Packet = l.releases, nil
	case Done:
		delete(l.outgoing, change.Sequence)
	case Received:
		l.received[change.PacketID] = struct{}{}
	case Completed:
		delete(l.received, change.PacketID)
	default:
		return fmt.Errorf("kind %d of change is unknown", change.Kind)
	}
	return nil
}

func (l *ledger) inOrder() []*Outgoing {
	all := make([]*Outgoing, 0, len(l.outgoing))
	for _, message := range l.outgoing {
		all = append(all, message)
	}
	slices.SortFunc(all, func(a, b *Outgoing) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return all
}

func (l *ledger) state() State {
	state := State{Began: l.began, ClientID: l.clientID}
	for _, message := range l.inOrder() {
		state.Outgoing = append(state.Outgoing, *message)
	}
	for id := range l.received {
		state.Received = append(state.Received, id)
	}
	slices.Sort(state.Received)
	return state
}
