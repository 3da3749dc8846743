package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

const messageCount = 100

func connects(r *run) {
	c := r.connect(client.Options{})
	info, ok := c.Server()
	r.expect(ok && !info.SessionPresent && info.ClientID != "", "%+v", info)
	r.must(c.Close(r), "close")
}

// roundTrip sends messages through the broker and back: they arrive once each, in order.
func roundTrip(r *run, qos packets.QoS) {
	receiver, sender := r.connect(client.Options{}), r.connect(client.Options{})
	topic := r.topic("roundtrip")
	sub := r.subscribe(receiver, topic, qos)
	var tokens []*client.Token
	for number := range messageCount {
		token, err := sender.PublishAsync(r, client.Publication{Topic: topic, Payload: []byte(fmt.Sprint(number)), QoS: qos})
		r.must(err, "publish")
		tokens = append(tokens, token)
	}
	for number := range messageCount {
		m := r.receive(sub)
		r.expect(string(m.Payload()) == fmt.Sprint(number) && m.QoS() == qos && !m.Retain() && !m.Dup() && m.Topic() == topic,
			"number %d is %v: %q", number, m, m.Payload())
	}
	for _, token := range tokens {
		_, err := token.Wait(r)
		r.must(err, "acknowledgement")
	}
}

func retained(r *run) {
	publisher := r.connect(client.Options{})
	topic := r.topic("retained")
	r.publish(publisher, topic, "first", packets.AtLeastOnce, true)
	r.publish(publisher, topic, "second", packets.AtLeastOnce, true)
	sub := r.subscribe(r.connect(client.Options{}), r.topic("+"), packets.AtLeastOnce)
	m := r.receive(sub)
	r.expect(string(m.Payload()) == "second" && m.Retain(), "got %v: %q", m, m.Payload())
	r.publish(publisher, topic, "", packets.AtLeastOnce, true)
	m = r.receive(sub)
	r.expect(len(m.Payload()) == 0, "the deletion has the payload %q", m.Payload())
	late := r.subscribe(r.connect(client.Options{}), topic, packets.AtLeastOnce)
	r.publish(publisher, topic, "fence", packets.AtLeastOnce, false)
	m = r.receive(late)
	r.expect(string(m.Payload()) == "fence", "after the deletion %q arrived", m.Payload())
}

func will(r *run) {
	sub := r.subscribe(r.connect(client.Options{}), r.topic("will"), packets.AtLeastOnce)
	message, err := packets.NewWill(r.topic("will"), []byte("gone"))
	r.must(err, "will")
	r.must(message.SetQoS(packets.AtLeastOnce), "will")
	w := &wire{address: r.address}
	r.connect(client.Options{Will: message, Dial: w.dial})
	w.cut()
	m := r.receive(sub)
	r.expect(string(m.Payload()) == "gone" && m.QoS() == packets.AtLeastOnce, "got %v: %q", m, m.Payload())
}

// reconnects cuts the connection of a client with a session. A message that was published meanwhile arrives once.
func reconnects(r *run) {
	w := &wire{address: r.address}
	infos := make(chan client.ServerInfo, 10)
	receiver := r.connect(client.Options{
		ClientID: "interop-" + r.tag, SessionExpiry: time.Minute, Dial: w.dial,
		OnConnect: func(info client.ServerInfo) { infos <- info },
	})
	r.await(infos)
	topic := r.topic("reconnect")
	sub := r.subscribe(receiver, topic, packets.AtLeastOnce)
	sender := r.connect(client.Options{})
	gate := w.cut()
	for receiver.Connected() {
		r.must(r.Err(), "the cut")
		time.Sleep(time.Millisecond)
	}
	r.publish(sender, topic, "meanwhile", packets.AtLeastOnce, false)
	close(gate)
	info := r.await(infos)
	r.expect(info.SessionPresent, "the session is not present")
	m := r.receive(sub)
	r.expect(string(m.Payload()) == "meanwhile", "got %q", m.Payload())
	r.publish(sender, topic, "fence", packets.AtLeastOnce, false)
	m = r.receive(sub)
	r.expect(string(m.Payload()) == "fence", "got %q once more", m.Payload())
	r.discardSession(receiver)
}

// discardSession removes the session from the broker.
func (r *run) discardSession(c *client.Client) {
	id := c.ClientID()
	r.must(c.Close(r), "close")
	last, err := client.Connect(r, "mqtt://"+r.address, client.Options{
		Version: r.version, ClientID: id, SessionExpiry: client.NoSession,
	})
	r.must(err, "connect")
	r.must(last.Close(r), "close")
}

func (r *run) await(infos <-chan client.ServerInfo) client.ServerInfo {
	select {
	case info := <-infos:
		return info
	case <-r.Done():
		r.must(r.Err(), "connect")
		return client.ServerInfo{}
	}
}

// properties uses QoS 0: mochi-mqtt answers user properties with a PUBACK with an invalid reason code [MQTT-3.4.2-1],
// which this client does not accept.
func properties(r *run) {
	receiver, sender := r.connect(client.Options{}), r.connect(client.Options{})
	sub := r.subscribe(receiver, r.topic("properties"), packets.AtLeastOnce)
	pairs := []client.UserProperty{{Name: "b", Value: "1"}, {Name: "a", Value: "2"}, {Name: "b", Value: "3"}}
	r.must(sender.Publish(r, client.Publication{
		Topic: r.topic("properties"), Payload: []byte("grüß dich"),
		Text: true, Expiry: time.Hour, ContentType: "text/plain", ResponseTopic: r.topic("response"),
		CorrelationData: []byte{0, 1, 255}, UserProperties: pairs,
	}), "publish")
	m := r.receive(sub)
	contentType, _ := m.ContentType()
	response, _ := m.ResponseTopic()
	correlation, _ := m.CorrelationData()
	expiry, hasExpiry := m.Expiry()
	var got []client.UserProperty
	for name, value := range m.UserProperties() {
		got = append(got, client.UserProperty{Name: name, Value: value})
	}
	r.expect(m.Text(), "the payload is not marked as text")
	r.expect(contentType == "text/plain", "content type %q", contentType)
	r.expect(response == r.topic("response"), "response topic %q", response)
	r.expect(string(correlation) == "\x00\x01\xff", "correlation data % x", correlation)
	r.expect(hasExpiry && expiry > 3590*time.Second && expiry <= time.Hour, "message expiry interval %v", expiry)
	r.expect(slices.Equal(got, pairs), "user properties %v", got)
	if id := sub.ID(); id != 0 {
		ids := slices.Collect(m.SubscriptionIDs())
		r.expect(slices.Equal(ids, []uint32{id}), "subscription identifiers %v, not %d", ids, id)
	}
}
