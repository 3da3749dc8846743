// Package session is the state of an MQTT client's session (sections 4.1, 4.3, 4.4, 4.6 and 4.9 of MQTT 5.0), without
// I/O: packets come in by calls, bytes go out to a buffer, and the time is an argument. It has no lock.
package session

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Config are the limits of this side. None is 0.
type Config struct {
	Version packets.Version
	// ReceiveMaximum is how many incoming QoS 1 and 2 messages may be unacknowledged at once.
	ReceiveMaximum uint16
	// MaxInFlight limits outgoing messages that are sent but not acknowledged, besides the server's Receive Maximum.
	MaxInFlight int
	// MaxQueuedMessages and MaxQueuedBytes limit unacknowledged messages, sent or not.
	MaxQueuedMessages int
	MaxQueuedBytes    int
	// MaxOutputBytes is how much output may be pending before messages are queued.
	MaxOutputBytes int
	// MaxAliases limits the topic aliases towards the server, besides its Topic Alias Maximum; 0 for none.
	MaxAliases int
	Store      store.Store
}

// MaxInFlight is the maximum of Config.MaxInFlight: some identifiers must remain for requests.
const MaxInFlight = 60_000

// Limits are the limits of the server, from CONNACK.
type Limits struct {
	ReceiveMaximum    int
	MaximumQoS        packets.QoS
	RetainAvailable   bool
	MaximumPacketSize int
	TopicAliasMaximum int
}

// Counters count messages by result.
type Counters struct {
	// Queued messages entered the queue; Acknowledged ones were accepted by the server.
	Queued, Acknowledged uint64
	// Failed were refused by the server or because of its limits, or lost with the session.
	Failed uint64
	// Expired messages waited longer than their Message Expiry Interval.
	Expired uint64
	// Resent counts PUBLISH packets that were sent again after a lost connection.
	Resent uint64
	// QueueFull counts how often the queue was full.
	QueueFull uint64
	// Duplicates are incoming messages that arrived again and were not delivered again.
	Duplicates uint64
}

// The errors of messages that were not delivered.
var (
	ErrQueueFull   = errors.New("the queue is full")
	ErrSessionLost = errors.New("the server has lost the session: it is unknown whether it delivered the message")
	ErrExpired     = errors.New("the message expired before it could be sent")
	ErrTooLarge    = errors.New("the packet is larger than the server accepts")
	ErrQoS         = errors.New("the server does not accept this QoS")
	ErrRetain      = errors.New("the server does not support retained messages")
)

// Session is one session with one server. Create it with New; the zero value is not usable.
type Session struct {
	config    Config
	limits    Limits
	connected bool
	// epoch counts connections, to recognise state of earlier ones.
	epoch uint64
	// began says that the server may hold a session.
	began    bool
	clientID string

	Counters Counters

	output []byte
	// unsynced says that changes were recorded since the last TakeOutput or TakeUnsynced. The output depends on them.
	unsynced bool
	aliases  aliases

	outgoing
	incoming
}

// New creates a session from a stored state, or an empty one from the zero State.
func New(config Config, state store.State) *Session {
	s := &Session{config: config, began: state.Began, clientID: state.ClientID}
	s.byID = map[packets.PacketID]*Outgoing{}
	s.requests = map[packets.PacketID]struct{}{}
	s.pending = map[packets.PacketID]*Incoming{}
	s.received = map[packets.PacketID]uint64{}
	for _, id := range state.Received {
		s.received[packets.PacketID(id)] = 0
	}
	s.restore(state.Outgoing)
	return s
}

func (s *Session) restore(stored []store.Outgoing) {
	var released []*Outgoing
	ranks := map[*Outgoing]uint64{}
	for _, each := range stored {
		s.lastSequence = max(s.lastSequence, each.Sequence)
		m := &Outgoing{sequence: each.Sequence, id: packets.PacketID(each.PacketID), qos: packets.ExactlyOnce}
		switch {
		case each.Release != 0:
			m.state = stateReleased
			released, ranks[m] = append(released, m), each.Release
			s.byID[m.id] = m
			s.held++
		default:
			if !m.adopt(each.Packet, packets.Version(each.Version), s.config.Version) {
				s.record(store.Change{Kind: store.Done, Sequence: each.Sequence})
				continue
			}
			s.hold(m)
			if m.id != 0 {
				m.state = stateSent
				s.byID[m.id] = m
				s.flights.append(m)
			} else {
				s.queue.append(m)
			}
		}
	}
	slices.SortFunc(released, func(a, b *Outgoing) int { return cmp.Compare(ranks[a], ranks[b]) })
	for _, m := range released {
		s.releases.append(m)
	}
	s.resend = s.flights.first
}

// Began reports whether the server may hold a session of this client, and under which client identifier.
func (s *Session) Began() (clientID string, began bool) { return s.clientID, s.began }

// Connected handles a successful CONNACK. Without present the server has a new session: the old one is discarded
// [MQTT-3.2.2-5]; QoS 1 messages that were sent are sent again, with other identifiers, and QoS 2 messages fail with
// ErrSessionLost, because they might be delivered twice. Then it sends all it may [MQTT-4.4.0-1].
func (s *Session) Connected(clientID string, present bool, limits Limits, now time.Time) {
	s.epoch++
	s.connected = true
	s.limits = limits
	s.output = s.output[:0]
	s.outstanding, s.open = 0, 0
	s.aliases.reset(min(limits.TopicAliasMaximum, s.config.MaxAliases))
	if !present {
		s.discard()
	}
	if !present || !s.began || clientID != s.clientID {
		s.record(store.Change{Kind: store.Began, ClientID: clientID})
		if present {
			// It is the session of an earlier process, whose state is not stored here.
			for id := range s.received {
				s.record(store.Change{Kind: store.Received, PacketID: uint16(id)})
			}
		}
	}
	s.began, s.clientID = true, clientID
	s.resend = s.flights.first
	for m := s.releases.first; m != nil; m = m.next {
		// They count towards the window until PUBCOMP, but are not limited by it [MQTT-3.3.4-8].
		m.epoch = s.epoch
		s.outstanding++
		s.appendAck(packets.TypePubRel, m.id, packets.ReasonSuccess)
	}
	s.Pump(now)
}

// discard drops the state of a lost session.
func (s *Session) discard() {
	clear(s.received)
	clear(s.pending)
	clear(s.requests)
	s.acks, s.recs = ackQueue{}, ackQueue{}
	for m := s.releases.first; m != nil; m = s.releases.first {
		s.finish(m, packets.ReasonUnspecifiedError, ErrSessionLost)
	}
	again := list{}
	for m := s.flights.first; m != nil; m = s.flights.first {
		if m.qos == packets.ExactlyOnce {
			s.finish(m, packets.ReasonUnspecifiedError, ErrSessionLost)
			continue
		}
		s.flights.remove(m)
		delete(s.byID, m.id)
		m.id, m.state, m.attempted = 0, stateQueued, false
		s.record(store.Change{Kind: store.Unsent, Sequence: m.sequence})
		again.append(m)
	}
	again.join(&s.queue)
	s.queue = again
}

// Disconnected handles the end of a connection. Pending output is lost.
func (s *Session) Disconnected() {
	s.connected = false
	s.output = nil
	clear(s.requests)
	// Unacknowledged messages may arrive again, in a new order.
	s.acks, s.recs = ackQueue{}, ackQueue{}
}

// IsConnected reports whether there is a connection.
func (s *Session) IsConnected() bool { return s.connected }

// TakeOutput returns the output to write, and takes an empty buffer for later output. If sync is true, the store must be
// synced first.
func (s *Session) TakeOutput(empty []byte, now time.Time) (output []byte, sync bool) {
	output, sync = s.output, s.unsynced
	s.output, s.unsynced = empty[:0], false
	if len(output) >= s.config.MaxOutputBytes {
		s.Pump(now)
	}
	return output, sync
}

// HasOutput reports whether there is output to write.
func (s *Session) HasOutput() bool { return len(s.output) > 0 }

// OutputIsFull reports whether messages must wait until output is taken.
func (s *Session) OutputIsFull() bool { return len(s.output) >= s.config.MaxOutputBytes }

// Append appends any other packet to the output.
func (s *Session) Append(p packets.Packet) error {
	output, err := p.AppendTo(s.output)
	if err != nil {
		return err
	}
	if len(output)-len(s.output) > s.limits.MaximumPacketSize {
		return ErrTooLarge
	}
	s.output = output
	return nil
}

// appendAck writes an acknowledgement; all have the same form (sections 3.4 to 3.7). Before 5.0 they have no reason code,
// so a refusal looks like a success.
func (s *Session) appendAck(t packets.Type, id packets.PacketID, reason packets.ReasonCode) {
	first := byte(t) << 4
	if t == packets.TypePubRel {
		first |= 0b0010 // [MQTT-3.6.1-1]
	}
	if reason == packets.ReasonSuccess || s.config.Version != packets.V5 {
		s.output = append(s.output, first, 2, byte(id>>8), byte(id))
	} else {
		s.output = append(s.output, first, 3, byte(id>>8), byte(id), byte(reason))
	}
}

func (s *Session) record(change store.Change) {
	if s.config.Store != nil {
		s.config.Store.Record(change)
		s.unsynced = true
	}
}

// IsUnsynced reports whether changes were recorded without a sync having been started.
func (s *Session) IsUnsynced() bool { return s.unsynced }

// TakeUnsynced records that the store is synced without output.
func (s *Session) TakeUnsynced() { s.unsynced = false }

// MarkUnsynced records that syncing the store failed: the next output depends on the earlier changes.
func (s *Session) MarkUnsynced() { s.unsynced = true }
