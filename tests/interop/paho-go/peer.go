package main

import "github.com/eclipse/paho.golang/paho"

// options of a connection, in terms that both versions share; the zero value is a plain clean session.
type options struct {
	clientID string
	// persistent requests a session that outlives the connection.
	persistent bool
	// manualAck leaves QoS 1 messages unacknowledged unless the case acknowledges them.
	manualAck bool
	will      *will
	// v5 holds what only MQTT 5.0 can express.
	v5 v5Options
}

type v5Options struct {
	connect paho.ConnectProperties
	will    *paho.WillProperties
}

type will struct {
	topic  string
	qos    byte
	retain bool
}

// willPayload is the payload of every will.
const willPayload = "gone"

type message struct {
	topic, payload string
	qos            byte
	retain, dup    bool
	packetID       uint16
	properties     *paho.PublishProperties
	acknowledge    func()
}

// library is what the two client libraries have in common, with awaited steps.
type library interface {
	subscribe(qos byte, filters ...string) []byte
	unsubscribe(filters ...string) []byte
	publishAll(qos byte, retain bool, topic string, payloads ...string)
	// disconnect sends DISCONNECT and closes.
	disconnect()
	// cut closes the TCP connection without DISCONNECT, like a crash.
	cut()
	// closed waits for the end of the connection and returns the broker's reason code, if it gave one.
	closed() byte
	sessionPresent() bool
}

// connect is connectV3 or connectV5.
type connect func(*run, options) *peer

// peer is one connection with its received messages.
type peer struct {
	library
	run   *run
	inbox *inbox
}

func (p *peer) publish(topic, payload string, qos byte) { p.publishAll(qos, false, topic, payload) }
func (p *peer) retain(topic, payload string, qos byte)  { p.publishAll(qos, true, topic, payload) }

func (p *peer) receive() message {
	for {
		if received, ok := p.inbox.take(); ok {
			return received
		}
		await(p.run, p.inbox.arrived, "message")
	}
}

func (p *peer) receiveMany(count int) []message {
	var received []message
	for len(received) < count {
		if next, ok := p.inbox.take(); ok {
			received = append(received, next)
			continue
		}
		select {
		case <-p.inbox.arrived:
		case <-p.run.Done():
			p.run.failf("no message within %v: %d of %d so far", caseTimeout, len(received), count)
		}
	}
	return received
}

// receiveUntil returns what arrives before the message with this payload: the fence, which is not returned.
func (p *peer) receiveUntil(payload string) []message {
	var received []message
	for {
		next := p.receive()
		if next.payload == payload {
			return received
		}
		received = append(received, next)
	}
}

func payloads(messages []message) []string {
	texts := []string{}
	for _, each := range messages {
		texts = append(texts, each.payload)
	}
	return texts
}
