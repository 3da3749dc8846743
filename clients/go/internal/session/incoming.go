package session

import (
	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Incoming is a message of QoS 1 or 2 that the application has not finished with.
type Incoming struct {
	id    packets.PacketID
	qos   packets.QoS
	epoch uint64
	// receivers counts those who have yet to acknowledge it.
	receivers int
	reason    packets.ReasonCode
	// again says that it was acknowledged before, and came once more.
	again bool
}

// incoming is the receiving half of a session.
type incoming struct {
	// pending messages are with the application.
	pending map[packets.PacketID]*Incoming
	// received messages of QoS 2 were acknowledged with PUBREC and not released; by the epoch in which they came.
	received map[packets.PacketID]uint64
	// acks and recs are the messages to acknowledge.
	acks, recs ackQueue
	// open counts what takes of our Receive Maximum on this connection.
	open int
}

// OnPublish takes note of a PUBLISH of QoS 1 or 2. It gives what each of the receivers acknowledges by Ack, or nil if the message
// came before and is not to be delivered again. It returns ReasonReceiveMaximumExceeded, or ReasonSuccess.
func (s *Session) OnPublish(
	id packets.PacketID, qos packets.QoS, dup bool, receivers int,
) (*Incoming, packets.ReasonCode) {
	queue := &s.acks
	if qos == packets.ExactlyOnce {
		queue = &s.recs
		if _, known := s.received[id]; known {
			// [MQTT-4.3.3-10], in its turn [MQTT-4.6.0-3].
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
			// It came on an earlier connection, and the application has it still or was done with it meanwhile. A server
			// may only use the identifier for another message once this one is acknowledged.
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

// Ack acknowledges a message for one receiver. The packet is sent when all have, and those before it are
// [MQTT-4.6.0-2]. It does nothing for a message whose session is over.
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
		// It will come again, and is then acknowledged.
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

// settle acknowledges from the oldest on, until one that the application has not finished with.
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

// OnPubRel answers with PUBCOMP. After it the identifier may come with another message [MQTT-4.3.3-12].
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

// Unacknowledged gives the number of messages that the application has.
func (s *Session) Unacknowledged() int { return len(s.pending) }

// ackQueue has messages in the order in which they came on this connection.
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
