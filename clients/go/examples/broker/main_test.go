package main

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
)

func TestBrokerForwardsMessages(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- serve(serving, listener) }()
	c, err := client.Connect(ctx, "mqtt://"+address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := c.Subscribe(ctx, "a/+", client.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(ctx, client.Publication{Topic: "a/b", Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.Receive(ctx); err != nil || string(m.Payload()) != "x" {
		t.Fatalf("%v, %v", m, err)
	}
	if err := sub.Unsubscribe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
