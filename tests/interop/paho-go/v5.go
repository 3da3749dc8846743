package main

import (
	"net"

	"github.com/eclipse/paho.golang/paho"
)

const sessionExpiryS = 300

// v5 is a paho.golang client: MQTT 5.0.
type v5 struct {
	run        *run
	client     *paho.Client
	connection net.Conn
	connack    *paho.Connack
	// ended has the reason code of the broker's DISCONNECT, or 0 if there was none.
	ended chan byte
}

func connectV5(r *run, o options) *peer {
	v := &v5{run: r, connection: r.dial(), ended: make(chan byte, 16)}
	received := newInbox()
	v.client = paho.NewClient(paho.ClientConfig{
		ClientID:                   o.clientID,
		Conn:                       v.connection,
		PacketTimeout:              caseTimeout,
		EnableManualAcknowledgment: o.manualAck,
		OnServerDisconnect:         func(d *paho.Disconnect) { v.ended <- d.ReasonCode },
		OnClientError:              func(error) { v.ended <- 0 },
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			received.put(message{
				topic: p.Packet.Topic, payload: string(p.Packet.Payload), qos: p.Packet.QoS,
				retain: p.Packet.Retain, dup: p.Packet.Duplicate(), packetID: p.Packet.PacketID,
				properties:  p.Packet.Properties,
				acknowledge: func() { r.must(p.Client.Ack(p.Packet), "acknowledge") },
			})
			return true, nil
		}},
	})
	properties := o.v5.connect
	if o.persistent && properties.SessionExpiryInterval == nil {
		properties.SessionExpiryInterval = paho.Uint32(sessionExpiryS)
	}
	request := &paho.Connect{
		ClientID: o.clientID, KeepAlive: 60, CleanStart: !o.persistent, Properties: &properties, WillProperties: o.v5.will,
	}
	if o.will != nil {
		request.WillMessage = &paho.WillMessage{
			Topic: o.will.topic, Payload: []byte(willPayload), QoS: o.will.qos, Retain: o.will.retain,
		}
	}
	connack, err := v.client.Connect(r, request)
	r.must(err, "CONNECT")
	v.connack = connack
	return &peer{library: v, run: r, inbox: received}
}

// asV5 returns the MQTT 5.0 client of a peer.
func (p *peer) asV5() *v5 { return p.library.(*v5) }

func (v *v5) subscribe(qos byte, filters ...string) []byte {
	var subscriptions []paho.SubscribeOptions
	for _, filter := range filters {
		subscriptions = append(subscriptions, paho.SubscribeOptions{Topic: filter, QoS: qos})
	}
	return v.subscribeWith(nil, subscriptions...)
}

func (v *v5) subscribeWith(properties *paho.SubscribeProperties, subscriptions ...paho.SubscribeOptions) []byte {
	suback, err := v.client.Subscribe(v.run, &paho.Subscribe{Subscriptions: subscriptions, Properties: properties})
	v.run.must(err, "SUBSCRIBE")
	for _, code := range suback.Reasons {
		v.run.expect(code <= 2, "subscription refused: %#x", code)
	}
	return suback.Reasons
}

func (v *v5) unsubscribe(filters ...string) []byte {
	unsuback, err := v.client.Unsubscribe(v.run, &paho.Unsubscribe{Topics: filters})
	v.run.must(err, "UNSUBSCRIBE")
	return unsuback.Reasons
}

func (v *v5) publishAll(qos byte, retain bool, topic string, payloads ...string) {
	for _, payload := range payloads {
		v.publishWith(&paho.Publish{QoS: qos, Retain: retain, Topic: topic, Payload: []byte(payload)})
	}
}

// publishWith returns the reason code of the broker's acknowledgement: 0 for QoS 0, which has none.
func (v *v5) publishWith(publish *paho.Publish) byte {
	response, err := v.client.Publish(v.run, publish)
	v.run.must(err, "PUBLISH")
	if response == nil {
		return 0
	}
	return response.ReasonCode
}

func (v *v5) disconnect() { v.disconnectWith(&paho.Disconnect{}) }

func (v *v5) disconnectWith(packet *paho.Disconnect) {
	v.run.must(v.client.Disconnect(packet), "DISCONNECT")
	await(v.run, v.client.Done(), "end of the connection")
}

func (v *v5) cut() {
	_ = v.connection.Close()
	await(v.run, v.client.Done(), "end of the connection")
}

func (v *v5) closed() byte { return await(v.run, v.ended, "end of the connection") }

func (v *v5) sessionPresent() bool { return v.connack.SessionPresent }
