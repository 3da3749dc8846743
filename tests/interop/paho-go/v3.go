package main

import (
	"net"
	"net/url"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// v3 is a paho.mqtt.golang client: MQTT 3.1.1.
type v3 struct {
	run        *run
	client     mqtt.Client
	connection net.Conn
	lost       chan struct{}
	present    bool
}

func connectV3(r *run, o options) *peer {
	v := &v3{run: r, lost: make(chan struct{}, 16)}
	received := newInbox()
	configuration := mqtt.NewClientOptions().
		AddBroker("tcp://" + net.JoinHostPort(r.host, r.port)).
		SetProtocolVersion(4).
		SetClientID(o.clientID).
		SetCleanSession(!o.persistent).
		SetAutoReconnect(false).
		SetAutoAckDisabled(o.manualAck).
		SetConnectTimeout(caseTimeout).
		SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
			connection, err := dialer(r)
			v.connection = connection
			return connection, err
		}).
		SetConnectionLostHandler(func(mqtt.Client, error) { v.lost <- struct{}{} }).
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
			received.put(message{
				topic: m.Topic(), payload: string(m.Payload()), qos: m.Qos(), retain: m.Retained(),
				dup: m.Duplicate(), packetID: m.MessageID(), acknowledge: m.Ack,
			})
		})
	if o.will != nil {
		configuration.SetWill(o.will.topic, willPayload, o.will.qos, o.will.retain)
	}
	v.client = mqtt.NewClient(configuration)
	token := v.client.Connect()
	v.wait(token, "CONNECT")
	v.present = token.(*mqtt.ConnectToken).SessionPresent()
	r.onEnd(func() { v.client.Disconnect(0) })
	return &peer{library: v, run: r, inbox: received}
}

func (v *v3) subscribe(qos byte, filters ...string) []byte {
	requests := map[string]byte{}
	for _, filter := range filters {
		requests[filter] = qos
	}
	token := v.client.SubscribeMultiple(requests, nil)
	v.wait(token, "SUBSCRIBE")
	var granted []byte
	for _, filter := range filters {
		code := token.(*mqtt.SubscribeToken).Result()[filter]
		v.run.expect(code <= 2, "subscription to %s refused: %#x", filter, code)
		granted = append(granted, code)
	}
	return granted
}

func (v *v3) unsubscribe(filters ...string) []byte {
	v.wait(v.client.Unsubscribe(filters...), "UNSUBSCRIBE")
	return nil
}

func (v *v3) publishAll(qos byte, retain bool, topic string, payloads ...string) {
	var tokens []mqtt.Token
	for _, payload := range payloads {
		tokens = append(tokens, v.client.Publish(topic, qos, retain, payload))
	}
	for _, token := range tokens {
		v.wait(token, "PUBLISH")
	}
}

func (v *v3) disconnect() { v.client.Disconnect(uint(caseTimeout.Milliseconds())) }

func (v *v3) cut() {
	// Closing it here would look like the library's own close; half-closed, the broker's answer ends
	// it.
	v.run.must(v.connection.(interface{ CloseWrite() error }).CloseWrite(), "cut")
	v.closed()
}

func (v *v3) closed() byte {
	await(v.run, v.lost, "end of the connection")
	return 0
}

func (v *v3) sessionPresent() bool { return v.present }

func (v *v3) wait(token mqtt.Token, what string) {
	await(v.run, token.Done(), "end of "+what)
	v.run.must(token.Error(), what)
}
