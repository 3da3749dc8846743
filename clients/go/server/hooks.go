package server

import (
	"github.com/tautwire/tautwire/clients/go/packets"
)

// Hooks are called with the packets of a connection, one after another, on the connection's own goroutine; hooks of different
// connections run concurrently. A packet is valid until the hook returns: keep a Clone. An error ends the connection; return an
// [*Error] to send a reason to the client.
//
// A hook that is nil has a default, which keeps the protocol running: it accepts everything, and delivers nothing. A hook that is
// set replaces it completely: with Publish set, the server sends no PUBACK or PUBREC by itself.
type Hooks struct {
	// Connect accepts or refuses a client, and returns CONNACK. A CONNACK with a failure ends the connection after it was sent; nil
	// ends it without one. The default accepts, without a session.
	Connect func(c *Conn, p *packets.Connect) (*packets.ConnAck, error)
	// Connected is called after CONNACK was sent, before any other packet.
	Connected func(c *Conn) error
	// Publish gets a message. The default acknowledges it.
	Publish func(c *Conn, p *packets.Publish) error
	// PubAck, PubRec, PubRel and PubComp get acknowledgements. The defaults send PUBREL after PUBREC, and PUBCOMP after PUBREL.
	PubAck  func(c *Conn, p *packets.PubAck) error
	PubRec  func(c *Conn, p *packets.PubRec) error
	PubRel  func(c *Conn, p *packets.PubRel) error
	PubComp func(c *Conn, p *packets.PubComp) error
	// Subscribe answers SUBSCRIBE. The default grants the requested QoS.
	Subscribe func(c *Conn, p *packets.Subscribe) error
	// Unsubscribe answers UNSUBSCRIBE. The default accepts.
	Unsubscribe func(c *Conn, p *packets.Unsubscribe) error
	// Ping answers PINGREQ. The default does.
	Ping func(c *Conn, p *packets.PingReq) error
	// Auth handles enhanced authentication, also during the handshake. The default ends the connection.
	Auth func(c *Conn, p *packets.Auth) error
	// Disconnect gets the client's last packet. The connection ends after it.
	Disconnect func(c *Conn, p *packets.Disconnect)
	// Closed is called once when a connection that reached Connect has ended. err is nil after DISCONNECT.
	Closed func(c *Conn, err error)
}

// withDefaults sets the nil hooks.
func (h Hooks) withDefaults() Hooks {
	if h.Connect == nil {
		h.Connect = func(*Conn, *packets.Connect) (*packets.ConnAck, error) {
			return packets.NewConnAck(packets.ReasonSuccess)
		}
	}
	if h.Connected == nil {
		h.Connected = func(*Conn) error { return nil }
	}
	if h.Publish == nil {
		h.Publish = Acknowledge
	}
	if h.PubAck == nil {
		h.PubAck = func(*Conn, *packets.PubAck) error { return nil }
	}
	if h.PubRec == nil {
		h.PubRec = func(c *Conn, p *packets.PubRec) error {
			if p.Reason().IsError() {
				return nil
			}
			answer, err := packets.NewPubRel(p.PacketID())
			return c.answer(answer, err)
		}
	}
	if h.PubRel == nil {
		h.PubRel = func(c *Conn, p *packets.PubRel) error {
			answer, err := packets.NewPubComp(p.PacketID())
			return c.answer(answer, err)
		}
	}
	if h.PubComp == nil {
		h.PubComp = func(*Conn, *packets.PubComp) error { return nil }
	}
	if h.Subscribe == nil {
		h.Subscribe = Grant
	}
	if h.Unsubscribe == nil {
		h.Unsubscribe = AcceptUnsubscribe
	}
	if h.Ping == nil {
		h.Ping = func(c *Conn, _ *packets.PingReq) error { return c.Send(&packets.PingResp{}) }
	}
	if h.Auth == nil {
		h.Auth = func(*Conn, *packets.Auth) error { return &Error{Reason: packets.ReasonBadAuthenticationMethod} }
	}
	if h.Disconnect == nil {
		h.Disconnect = func(*Conn, *packets.Disconnect) {}
	}
	if h.Closed == nil {
		h.Closed = func(*Conn, error) {}
	}
	return h
}

// Acknowledge answers a message with PUBACK or PUBREC, according to its QoS; nothing at QoS 0. It is the default of Hooks.Publish.
func Acknowledge(c *Conn, p *packets.Publish) error {
	switch p.QoS() {
	case packets.AtLeastOnce:
		answer, err := packets.NewPubAck(p.PacketID())
		return c.answer(answer, err)
	case packets.ExactlyOnce:
		answer, err := packets.NewPubRec(p.PacketID())
		return c.answer(answer, err)
	}
	return nil
}

// Grant answers SUBSCRIBE with the requested QoS of each filter. It is the default of Hooks.Subscribe.
func Grant(c *Conn, p *packets.Subscribe) error {
	answer, err := packets.NewSubAck(p.PacketID())
	if err != nil {
		return err
	}
	for _, options := range p.Requests() {
		if err := answer.Add(packets.ReasonCode(options.QoS)); err != nil {
			return err
		}
	}
	return c.Send(answer)
}

// AcceptUnsubscribe answers UNSUBSCRIBE with success for each filter. It is the default of Hooks.Unsubscribe.
func AcceptUnsubscribe(c *Conn, p *packets.Unsubscribe) error {
	answer, err := packets.NewUnsubAck(p.PacketID())
	if err != nil {
		return err
	}
	if c.Version() == packets.V5 {
		for range p.Len() {
			if err := answer.Add(packets.ReasonSuccess); err != nil {
				return err
			}
		}
	}
	return c.Send(answer)
}

func (c *Conn) answer(p packets.Packet, err error) error {
	if err != nil {
		return err
	}
	return c.Send(p)
}
