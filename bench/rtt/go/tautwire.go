package main

import (
	"context"
	"log"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// tautwire is this repository's client.
type tautwire struct {
	client *client.Client
	qos    packets.QoS
}

func openTautwire(address string, qos byte) library {
	opened, err := client.Connect(context.Background(), "mqtt://"+address, client.Options{
		Version: packets.V311, KeepAlive: client.NoKeepAlive, SessionExpiry: client.NoSession,
		OnDisconnect: func(err error) { log.Fatal(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	return &tautwire{opened, packets.QoS(qos)}
}

func (t *tautwire) subscribe(filter string, onPayload func([]byte)) {
	options := client.SubscribeOptions{QoS: t.qos}
	_, err := t.client.Handle(context.Background(), filter, options, func(_ context.Context, m *client.Message) { onPayload(m.Payload()) })
	if err != nil {
		log.Fatal(err)
	}
}

func (t *tautwire) publish(topic string, payload []byte) {
	m := client.Publication{Topic: topic, Payload: payload, QoS: t.qos}
	var err error
	if t.qos == packets.AtMostOnce {
		err = t.client.Publish(context.Background(), m)
	} else {
		_, err = t.client.PublishAsync(context.Background(), m)
	}
	if err != nil {
		log.Fatal(err)
	}
}
