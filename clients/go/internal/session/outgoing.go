package session

import (
	"encoding/binary"
	"time"

	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
)

type state uint8

const (
	// stateQueued has no packet identifier, and is in the queue.
	stateQueued state = iota
	// stateSent has one, waits for PUBACK or PUBREC, and is among the flights.
	stateSent
	// stateReleased waits for PUBCOMP, and is among the releases.
	stateReleased
	// stateDone is in no list.
	stateDone
)

// Outgoing is an outgoing message.
type Outgoing struct {
	sequence uint64
	id       packets.PacketID
	qos      packets.QoS
	retain   bool
	state    state
	// packet is the PUBLISH, with a packet identifier at idAt; topicEnd is the end of the topic.
	packet         []byte
	idAt, topicEnd int
	bytes          int
	// expires is zero for a message that does not.
	expires time.Time
	// attempted says that the packet may have been sent [MQTT-3.3.1-1].
	attempted bool
	// epoch is the connection on which it counts towards the window.
	epoch          uint64
	previous, next *Outgoing

	done   chan struct{}
	reason packets.ReasonCode
	err    error
}

// Result returns how the message ended, once it has.
func (m *Outgoing) Result() (reason packets.ReasonCode, err error, done bool) {
	return m.reason, m.err, m.state == stateDone
}

// Done returns a channel that is closed when the message has ended.
func (m *Outgoing) Done() <-chan struct{} {
	if m.done == nil {
		m.done = make(chan struct{})
		if m.state == stateDone {
			close(m.done)
		}
	}
	return m.done
}

// outgoing is the sending half of a session.
type outgoing struct {
	lastSequence uint64
	lastID       packets.PacketID
	byID         map[packets.PacketID]*Outgoing
	requests     map[packets.PacketID]struct{}
	queue        list
	// flights are in the order in which they were first sent [MQTT-4.6.0-1], releases in that of PUBREC [MQTT-4.6.0-4].
	flights, releases list
	// resend is the first flight that was not sent on this connection.
	resend *Outgoing
	// outstanding counts the messages towards the server's Receive Maximum.
	outstanding int
	// held and heldBytes are the messages that are not done, and their size.
	held, heldBytes int
}

// NewOutgoing creates a message. It copies p.
func NewOutgoing(p *packets.Publish, version packets.Version, now time.Time) (*Outgoing, error) {
	p.SetVersion(version)
	if p.QoS() != packets.AtMostOnce && p.PacketID() == 0 {
		_ = p.SetPacketID(1)
	}
	packet, err := p.AppendTo(make([]byte, 0, p.Size()))
	if err != nil {
		return nil, err
	}
	m := &Outgoing{packet: packet}
	m.locate()
	if seconds, ok := p.MessageExpiryInterval(); ok {
		m.expires = now.Add(time.Duration(seconds) * time.Second)
	}
	return m, nil
}

// adopt restores a stored packet, and reports whether it can be sent in that version.
func (m *Outgoing) adopt(packet []byte, stored, version packets.Version) bool {
	p, err := decodePublish(packet, stored)
	if err != nil || p.QoS() == packets.AtMostOnce {
		return false
	}
	if stored != version {
		if version != packets.V5 {
			_ = p.SetProperties(packets.Properties{})
		}
		p.SetVersion(version)
		if packet, err = p.AppendTo(nil); err != nil {
			return false
		}
	}
	m.packet = packet
	m.locate()
	m.attempted = m.id != 0
	return true
}

// locate finds the parts of a packet that is known to be well formed.
func (m *Outgoing) locate() {
	at := 1
	for m.packet[at] >= 0x80 {
		at++
	}
	at++
	m.topicEnd = at + 2 + int(binary.BigEndian.Uint16(m.packet[at:]))
	m.idAt = m.topicEnd
	m.qos = packets.QoS(m.packet[0] >> 1 & 3)
	m.retain = m.packet[0]&1 != 0
	m.bytes = len(m.packet)
}

// HasRoom reports whether a message of that many bytes may be queued. A message larger than the whole queue is accepted if
// the queue is empty.
func (s *Session) HasRoom(bytes int) bool {
	return s.held < s.config.MaxQueuedMessages && (s.heldBytes+bytes <= s.config.MaxQueuedBytes || s.held == 0)
}

// HasMuchRoom reports whether at least a quarter of the queue is free.
func (s *Session) HasMuchRoom() bool {
	return s.held == 0 || s.held <= s.config.MaxQueuedMessages/4*3 && s.heldBytes <= s.config.MaxQueuedBytes/4*3
}

// Check checks a message against the known limits of the server.
func (s *Session) Check(m *Outgoing) error {
	switch {
	case !s.connected:
		return nil
	case m.qos > s.limits.MaximumQoS:
		return ErrQoS // [MQTT-3.2.2-11]
	case m.retain && !s.limits.RetainAvailable:
		return ErrRetain // [MQTT-3.2.2-14]
	case len(m.packet) > s.limits.MaximumPacketSize:
		return ErrTooLarge // [MQTT-3.2.2-15]
	}
	return nil
}

// Enqueue accepts a message of any QoS, and sends it if possible. QoS 0 messages are done when they are in the output, and
// are not stored. It returns ErrQueueFull, or an error of Check.
func (s *Session) Enqueue(m *Outgoing, now time.Time) error {
	if err := s.Check(m); err != nil {
		s.Counters.Failed++
		return err
	}
	if !s.HasRoom(len(m.packet)) {
		s.Counters.QueueFull++
		return ErrQueueFull
	}
	s.Counters.Queued++
	s.lastSequence++
	m.sequence = s.lastSequence
	if m.qos != packets.AtMostOnce {
		s.record(store.Change{
			Kind: store.Queued, Sequence: m.sequence, Version: byte(s.config.Version), Packet: m.packet,
		})
	}
	s.hold(m)
	s.queue.append(m)
	s.Pump(now)
	return nil
}

// SendNow writes a QoS 0 message to the output without queueing it. There must be a connection.
func (s *Session) SendNow(p *packets.Publish) error {
	size := p.Size()
	switch {
	case p.Retain() && !s.limits.RetainAvailable:
		return ErrRetain
	case size > s.limits.MaximumPacketSize:
		return ErrTooLarge
	}
	start := len(s.output)
	output, err := p.AppendTo(s.output)
	if err != nil {
		return err
	}
	s.output = output
	if s.aliases.use(len(p.TopicView()), size) {
		s.aliasInPlace(start)
	}
	return nil
}

func (s *Session) hold(m *Outgoing) {
	s.held++
	s.heldBytes += m.bytes
}

// Held returns the number of messages that are not done.
func (s *Session) Held() int { return s.held }

// Pump sends what may be sent: first messages to send again, in their original order [MQTT-4.6.0-1].
func (s *Session) Pump(now time.Time) {
	window := min(s.limits.ReceiveMaximum, s.config.MaxInFlight)
	for s.connected && len(s.output) < s.config.MaxOutputBytes {
		if m := s.resend; m != nil {
			if s.outstanding >= window {
				return
			}
			s.resend = m.next
			if err := s.Check(m); err != nil {
				s.finish(m, packets.ReasonUnspecifiedError, err)
				continue
			}
			s.transmit(m)
			continue
		}
		m := s.queue.first
		if m == nil || m.qos != packets.AtMostOnce && s.outstanding >= window {
			return // [MQTT-4.9.0-2]
		}
		if err := s.Check(m); err != nil {
			s.finish(m, packets.ReasonUnspecifiedError, err)
			continue
		}
		if !m.expires.IsZero() && !s.refresh(m, now) {
			s.Counters.Expired++
			s.finish(m, packets.ReasonUnspecifiedError, ErrExpired)
			continue
		}
		if m.qos == packets.AtMostOnce {
			s.appendPublish(m)
			s.finish(m, packets.ReasonSuccess, nil)
			continue
		}
		id := s.nextID()
		if id == 0 {
			return
		}
		s.queue.remove(m)
		m.id, m.state = id, stateSent
		s.byID[id] = m
		s.flights.append(m)
		s.record(store.Change{Kind: store.Sent, Sequence: m.sequence, PacketID: uint16(id)})
		s.transmit(m)
	}
}

func (s *Session) transmit(m *Outgoing) {
	m.epoch = s.epoch
	s.outstanding++
	s.appendPublish(m)
	if m.attempted {
		s.Counters.Resent++
	}
	m.attempted = true
}

// appendPublish copies the packet to the output, with its identifier, DUP, and perhaps a topic alias.
func (s *Session) appendPublish(m *Outgoing) {
	start := len(s.output)
	s.output = append(s.output, m.packet...)
	written := s.output[start:]
	if m.qos != packets.AtMostOnce {
		binary.BigEndian.PutUint16(written[m.idAt:], uint16(m.id))
		if m.attempted {
			written[0] |= 0b1000
		}
	}
	if s.aliases.use(m.topicEnd, m.bytes) {
		s.aliasInPlace(start)
	}
}

// refresh reduces the expiry interval by the time in the queue, and reports whether any is left. A message that has been
// sent no longer expires [MQTT-4.3.3-7].
func (s *Session) refresh(m *Outgoing, now time.Time) bool {
	left := m.expires.Sub(now)
	if left <= 0 {
		return false
	}
	p, err := decodePublish(m.packet, s.config.Version)
	if err != nil {
		return true
	}
	seconds := uint32((left + time.Second - 1) / time.Second)
	if was, _ := p.MessageExpiryInterval(); was == seconds {
		return true
	}
	p.SetMessageExpiryInterval(seconds)
	if packet, err := p.AppendTo(nil); err == nil {
		m.packet = packet
		bytes := m.bytes
		m.locate()
		m.bytes = bytes
	}
	return true
}

// nextID returns an identifier that is not in use [MQTT-2.2.1-3]; 0 if there is none.
func (s *Session) nextID() packets.PacketID {
	for range 65_536 {
		s.lastID++
		if s.lastID == 0 {
			continue
		}
		if _, sent := s.byID[s.lastID]; sent {
			continue
		}
		if _, asked := s.requests[s.lastID]; !asked {
			return s.lastID
		}
	}
	return 0
}

// NewRequest returns an identifier for SUBSCRIBE or UNSUBSCRIBE on this connection; 0 if none is free.
func (s *Session) NewRequest() packets.PacketID {
	id := s.nextID()
	if id != 0 {
		s.requests[id] = struct{}{}
	}
	return id
}

// EndRequest frees the identifier of an answered request, and reports whether there was one.
func (s *Session) EndRequest(id packets.PacketID) bool {
	_, known := s.requests[id]
	delete(s.requests, id)
	return known
}

// OnPubAck completes a QoS 1 message. Acknowledgements of unknown messages are ignored: they may be late.
func (s *Session) OnPubAck(id packets.PacketID, reason packets.ReasonCode, now time.Time) {
	m := s.byID[id]
	if m == nil || m.qos != packets.AtLeastOnce {
		return
	}
	s.finish(m, reason, nil)
	s.Pump(now)
}

// OnPubRec answers with PUBREL, or ends the message if the server refuses it.
func (s *Session) OnPubRec(id packets.PacketID, reason packets.ReasonCode, now time.Time) {
	m := s.byID[id]
	switch {
	case m == nil || m.qos != packets.ExactlyOnce:
		if !reason.IsError() {
			s.appendAck(packets.TypePubRel, id, packets.ReasonPacketIdentifierNotFound)
		}
	case reason.IsError():
		// [MQTT-4.4.0-2]
		s.finish(m, reason, nil)
		s.Pump(now)
	case m.state == stateReleased:
		s.appendAck(packets.TypePubRel, id, packets.ReasonSuccess)
	default:
		s.unlink(m)
		m.state, m.reason = stateReleased, reason
		// The server owns the message now, so it is not sent again [MQTT-4.3.3-6].
		s.heldBytes -= m.bytes
		m.packet, m.bytes = nil, 0
		s.releases.append(m)
		if m.epoch != s.epoch {
			m.epoch = s.epoch
			s.outstanding++
		}
		s.record(store.Change{Kind: store.Released, Sequence: m.sequence})
		s.appendAck(packets.TypePubRel, id, packets.ReasonSuccess) // [MQTT-4.3.3-4]
	}
}

// OnPubComp completes a QoS 2 message.
func (s *Session) OnPubComp(id packets.PacketID, now time.Time) {
	m := s.byID[id]
	if m == nil || m.state != stateReleased {
		return
	}
	s.finish(m, m.reason, nil)
	s.Pump(now)
}

// Abandon ends a message that was not sent yet, and reports whether it did.
func (s *Session) Abandon(m *Outgoing, err error) bool {
	if m.state != stateQueued || m.sequence == 0 {
		return false
	}
	s.finish(m, packets.ReasonUnspecifiedError, err)
	return true
}

// AbandonAll ends all messages. They remain in the store.
func (s *Session) AbandonAll(err error) {
	s.config.Store = nil
	for _, l := range []*list{&s.releases, &s.flights, &s.queue} {
		for m := l.first; m != nil; m = l.first {
			s.finish(m, packets.ReasonUnspecifiedError, err)
		}
	}
}

// unlink removes the message from its list.
func (s *Session) unlink(m *Outgoing) {
	switch m.state {
	case stateQueued:
		s.queue.remove(m)
	case stateSent:
		if s.resend == m {
			s.resend = m.next
		}
		s.flights.remove(m)
	case stateReleased:
		s.releases.remove(m)
	}
}

func (s *Session) finish(m *Outgoing, reason packets.ReasonCode, err error) {
	s.unlink(m)
	if m.id != 0 {
		delete(s.byID, m.id)
		if m.epoch == s.epoch && s.outstanding > 0 {
			s.outstanding--
		}
	}
	s.held--
	s.heldBytes -= m.bytes
	if m.qos != packets.AtMostOnce {
		s.record(store.Change{Kind: store.Done, Sequence: m.sequence})
	}
	if err != nil || reason.IsError() {
		s.Counters.Failed++
	} else {
		s.Counters.Acknowledged++
	}
	m.packet = nil
	m.state, m.reason, m.err = stateDone, reason, err
	if m.done != nil {
		close(m.done)
	}
}
