package session

import (
	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Incoming is a QoS 1 or 2 message that the application has not acknowledged.
type Incoming struct {
	id    packets.PacketID
	qos   packets.QoS
	epoch uint64
	// receivers counts the receivers that have not acknowledged it.
	receivers int
	reason    packets.ReasonCode
	// again says that it was acknowledged before, and arrived again.
	again bool
}

// incoming is the receiving half of a session.
type incoming struct {
	// pending messages are not yet acknowledged by the application.
	pending map[packets.PacketID]*Incoming
	// received holds QoS 2 messages after PUBREC and before PUBREL, with the epoch of their arrival.
	received map[packets.PacketID]uint64
	// acks and recs are the messages to acknowledge.
	acks, recs ackQueue
	// open counts the messages towards our Receive Maximum on this connection.
	open int
}

// OnPublish handles a QoS 1 or 2 PUBLISH. It returns the message that each receiver acknowledges by Ack, or nil for a duplicate
// that is not to be delivered again. The reason is ReasonReceiveMaximumExceeded or ReasonSuccess.
func (s *Session) OnPublish(
	id packets.PacketID, qos packets.QoS, dup bool, receivers int,
) (*Incoming, packets.ReasonCode) {
	queue := &s.acks
	if qos == packets.ExactlyOnce {
		queue = &s.recs
		if _, known := s.received[id]; known {
			// [MQTT-4.3.3-10], in order [MQTT-4.6.0-3].
			s.Counters.Duplicates++
			queue.push(&Incoming{id: id, qos: qos, epoch: s.epoch, again: true})
			s.settle(queue)
			return nil, packets.ReasonSuccess
		}
	}
	if m := s.pending[id]; m != nil && m.qos == qos {
		switch {
		case m.epoch == s.epoch:
			s.Counters.Duplicates++
			return nil, packets.ReasonSuccess
		case dup || qos == packets.ExactlyOnce:
			// It arrived on an earlier connection, and the application has it or has meanwhile acknowledged it. A server may use the
			// identifier for another message only after this one is acknowledged.
			s.Counters.Duplicates++
			m.epoch = s.epoch
			s.open++
			queue.push(m)
			s.settle(queue)
			return nil, packets.ReasonSuccess
		}
	}
	if s.config.Version == packets.V5 && s.open >= int(s.config.ReceiveMaximum) {
		return nil, packets.ReasonReceiveMaximumExceeded // [MQTT-3.3.4-9]
	}
	m := &Incoming{id: id, qos: qos, epoch: s.epoch, receivers: receivers}
	s.open++
	s.pending[id] = m
	queue.push(m)
	return m, packets.ReasonSuccess
}

// Ack acknowledges a message for one receiver. The packet is sent when all receivers have acknowledged it, and after those of
// earlier messages [MQTT-4.6.0-2]. It does nothing for a message of an ended session.
func (s *Session) Ack(m *Incoming, reason packets.ReasonCode) {
	if m.receivers == 0 {
		return
	}
	m.receivers--
	if m.reason == packets.ReasonSuccess {
		m.reason = reason
	}
	switch {
	case m.receivers > 0:
		return
	case m.epoch != s.epoch || !s.connected:
		// It will be sent again, and is then acknowledged.
		if m.qos == packets.ExactlyOnce && !m.reason.IsError() && s.pending[m.id] == m {
			s.accept(m)
		}
		return
	}
	if m.qos == packets.ExactlyOnce {
		s.settle(&s.recs)
	} else {
		s.settle(&s.acks)
	}
}

// settle sends acknowledgements from the oldest message on, up to the first that the application has not acknowledged.
func (s *Session) settle(queue *ackQueue) {
	for m := queue.front(); m != nil && m.receivers <= 0; m = queue.front() {
		queue.pop()
		if m.qos == packets.AtLeastOnce {
			s.appendAck(packets.TypePubAck, m.id, m.reason)
			s.forget(m)
			continue
		}
		if !m.again {
			s.accept(m)
		}
		s.appendAck(packets.TypePubRec, m.id, m.reason) // [MQTT-4.3.3-8]
	}
}

// accept ends the application's part of a QoS 2 message.
func (s *Session) accept(m *Incoming) {
	if m.reason.IsError() {
		s.forget(m) // [MQTT-4.3.3-9]
		return
	}
	delete(s.pending, m.id)
	s.received[m.id] = m.epoch
	s.record(store.Change{Kind: store.Received, PacketID: uint16(m.id)})
}

func (s *Session) forget(m *Incoming) {
	if s.pending[m.id] == m {
		delete(s.pending, m.id)
	}
	s.open--
}

// OnPubRel answers with PUBCOMP. After that the identifier may be used for another message [MQTT-4.3.3-12].
func (s *Session) OnPubRel(id packets.PacketID) {
	epoch, known := s.received[id]
	reason := packets.ReasonSuccess
	if known {
		delete(s.received, id)
		if epoch == s.epoch {
			s.open--
		}
		s.record(store.Change{Kind: store.Completed, PacketID: uint16(id)})
	} else {
		reason = packets.ReasonPacketIdentifierNotFound
	}
	s.appendAck(packets.TypePubComp, id, reason) // [MQTT-4.3.3-11]
}

// Unacknowledged returns the number of messages that the application has not acknowledged.
func (s *Session) Unacknowledged() int { return len(s.pending) }

// ackQueue has the messages in the order of arrival on this connection.
type ackQueue struct {
	items []*Incoming
	head  int
}

func (q *ackQueue) push(m *Incoming) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		rest := copy(q.items, q.items[q.head:])
		clear(q.items[rest:])
		q.items, q.head = q.items[:rest], 0
	}
	q.items = append(q.items, m)
}

func (q *ackQueue) front() *Incoming {
	if q.head == len(q.items) {
		return nil
	}
	return q.items[q.head]
}

func (q *ackQueue) pop() {
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}
