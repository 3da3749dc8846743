package main

import (
	"fmt"
	"log"
	"os"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// paho is paho.mqtt.golang.
type paho struct {
	client mqtt.Client
	qos    byte
}

func openPaho(address string, qos byte) library {
	options := mqtt.NewClientOptions().
		AddBroker("tcp://" + address).
		SetProtocolVersion(4).
		SetClientID(fmt.Sprintf("rtt%d", os.Getpid())).
		SetAutoReconnect(false).
		SetKeepAlive(0).
		SetConnectionLostHandler(func(_ mqtt.Client, err error) { log.Fatal(err) })
	client := mqtt.NewClient(options)
	wait(client.Connect())
	return &paho{client, qos}
}

func (p *paho) subscribe(filter string, onPayload func([]byte)) {
	wait(p.client.Subscribe(filter, p.qos, func(_ mqtt.Client, m mqtt.Message) { onPayload(m.Payload()) }))
}

func (p *paho) publish(topic string, payload []byte) {
	p.client.Publish(topic, p.qos, false, payload)
}

func wait(token mqtt.Token) {
	if token.Wait(); token.Error() != nil {
		log.Fatal(token.Error())
	}
}
