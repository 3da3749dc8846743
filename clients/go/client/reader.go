package client

import (
	"errors"
	"io"
	"time"

	"github.com/tautwire/tautwire/clients/go/internal/session"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// counted is the connection of the reader; it counts bytes.
type counted struct{ n *connection }

func (s counted) Read(p []byte) (int, error) {
	length, err := s.n.conn.Read(p)
	if length > 0 {
		if missing := connAckBytesV311 - len(s.n.head); missing > 0 {
			s.n.head = append(s.n.head, p[:min(length, missing)]...)
		}
		s.n.client.stats.bytesReceived.Add(uint64(length))
		s.n.receivedAt.Store(int64(time.Since(s.n.opened)))
	}
	return length, err
}

// read runs the reader. It ends with the connection.
func (n *connection) read() error {
	for {
		p, err := n.reader.Next()
		if err == nil {
			err = n.handle(p)
		} else if malformed := (*packets.Error)(nil); !errors.As(err, &malformed) || errors.Is(err, io.ErrUnexpectedEOF) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return wrap(ErrConnectionLost, "read", err)
		}
		if err != nil {
			return n.leave(err)
		}
	}
}

// leave sends DISCONNECT with the reason, if the version has one (section 4.13).
func (n *connection) leave(err error) error {
	var own *Error
	var malformed *packets.Error
	switch {
	case errors.As(err, &own):
	case errors.As(err, &malformed):
		own = &Error{Code: ErrProtocol, Operation: "read", Reason: malformed.Reason(), Err: err}
	default:
		own = wrap(ErrProtocol, "read", err)
	}
	switch own.Code {
	case ErrServerDisconnected, ErrSessionTakenOver, ErrRedirected:
		return own
	}
	disconnect := &packets.Disconnect{}
	disconnect.SetVersion(n.client.options.Version)
	if own.Code == ErrAuthentication {
		_ = disconnect.SetReason(packets.ReasonNotAuthorized)
	} else if own.Reason == 0 || disconnect.SetReason(own.Reason) != nil {
		_ = disconnect.SetReason(packets.ReasonProtocolError)
	}
	c := n.client
	c.mutex.Lock()
	n.finish(disconnect, own)
	c.mutex.Unlock()
	<-n.stop
	return own
}

// handle handles one packet. An error ends the connection.
func (n *connection) handle(p packets.Packet) error {
	switch p := p.(type) {
	case *packets.Publish:
		return n.onPublish(p)
	case *packets.PubAck:
		n.onAck(func(s *session.Session, now time.Time) { s.OnPubAck(p.PacketID(), p.Reason(), now) })
	case *packets.PubRec:
		n.onAck(func(s *session.Session, now time.Time) { s.OnPubRec(p.PacketID(), p.Reason(), now) })
	case *packets.PubRel:
		n.onAck(func(s *session.Session, _ time.Time) { s.OnPubRel(p.PacketID()) })
	case *packets.PubComp:
		n.onAck(func(s *session.Session, now time.Time) { s.OnPubComp(p.PacketID(), now) })
	case *packets.SubAck:
		return n.onSubAck(p.PacketID(), p.Len(), p.Reason, p.ReasonString)
	case *packets.UnsubAck:
		return n.onUnsubAck(p)
	case *packets.PingResp:
	case *packets.Disconnect:
		ended := &Error{Code: farewellCode(p.Reason()), Operation: "connection", Reason: p.Reason()}
		ended.ReasonString, _ = p.ReasonString()
		ended.ServerReference, _ = p.ServerReference()
		if n.client.options.Version != packets.V5 {
			return failure(ErrProtocol, "read", "DISCONNECT from a server in MQTT 3.1.1")
		}
		return ended
	case *packets.Auth:
		return n.onAuth(p)
	default:
		return failure(ErrProtocol, "read", "%v from a server", p.Type())
	}
	return nil
}

// onAck advances the session, and wakes the waiters.
func (n *connection) onAck(step func(*session.Session, time.Time)) {
	c := n.client
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.current != n {
		return
	}
	step(c.session, time.Now())
	c.wakeWriter()
	if c.queueWaiters > 0 && c.session.HasMuchRoom() || c.closing && c.session.Held() == 0 {
		c.broadcast()
	}
}

// onPublish delivers a message to the matching subscriptions.
func (n *connection) onPublish(p *packets.Publish) error {
	c := n.client
	if reason := n.aliases.Resolve(p); reason != packets.ReasonSuccess {
		return &Error{Code: ErrProtocol, Operation: "read", Detail: "invalid topic alias", Reason: reason}
	}
	c.stats.received.Add(1)
	receivers := n.router.route(c, p)
	if p.QoS() == packets.AtMostOnce {
		if len(receivers) == 0 {
			c.stats.unrouted.Add(1)
			return nil
		}
		for _, receiver := range receivers {
			n.deliver(receiver, &Message{publish: p.Clone(), client: c})
		}
		return nil
	}
	c.mutex.Lock()
	if c.current != n {
		c.mutex.Unlock()
		return nil
	}
	pending, reason := c.session.OnPublish(p.PacketID(), p.QoS(), p.Dup(), max(len(receivers), 1))
	c.wakeWriter()
	c.mutex.Unlock()
	if reason != packets.ReasonSuccess {
		return &Error{
			Code: ErrProtocol, Operation: "read", Detail: "ReceiveMaximum exceeded", Reason: reason,
		}
	}
	if pending == nil {
		return nil
	}
	if len(receivers) == 0 {
		c.stats.unrouted.Add(1)
		if !n.hasToldUnrouted {
			// Once: after an Unsubscribe there may be a thousand of them in flight.
			n.hasToldUnrouted = true
			c.log.Warn("mqtt: received a message without a matching subscription; Stats.Unrouted counts further ones", "topic", p.Topic())
		}
		(&Message{client: c, pending: pending}).Ack() // [MQTT-4.5.0-2]
		return nil
	}
	for _, receiver := range receivers {
		n.deliver(receiver, &Message{publish: p.Clone(), client: c, pending: pending})
	}
	return nil
}

// deliver adds a message to an inbox. If there is no room it waits a while, unless a caller waits for an answer of the
// server.
func (n *connection) deliver(to *Subscription, m *Message) {
	c := n.client
	switch to.inbox.put(m) {
	case taken:
		return
	case over:
		m.Ack()
		return
	case stuck:
		to.inbox.drop()
		c.stats.droppedIncoming.Add(1)
		return
	}
	c.stats.readPauses.Add(1)
	timer := time.NewTimer(c.options.Limits.MaxReadPause)
	defer timer.Stop()
	c.paused.Store(true)
	n.readPaused.Store(true)
	defer func() {
		c.paused.Store(false)
		n.readPaused.Store(false)
		// Answers of the server were not read meanwhile.
		n.receivedAt.Store(int64(time.Since(n.opened)))
	}()
	heldUp := false
	for c.waiting.Load() == 0 {
		select {
		case <-to.inbox.room:
			if to.inbox.put(m) != full {
				return
			}
			continue
		case <-c.hurry:
			continue
		case <-timer.C:
			heldUp = true
		case <-n.stop:
		}
		break
	}
	to.inbox.giveUp()
	if to.inbox.put(m) != taken {
		to.inbox.drop()
		c.stats.droppedIncoming.Add(1)
	}
	if heldUp {
		c.log.Warn("mqtt: a full inbox has paused reading for too long; its QoS 0 messages are dropped until it is read", "filters", to.filters)
		if call := c.options.OnHeldUp; call != nil {
			c.events.add(func() { call(to) })
		}
	}
}
