// Command uses sends itself a message with the module that go get has brought: uses ADDRESS.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "uses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	c, err := client.Connect(ctx, address, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	sub, err := c.Subscribe(ctx, "demo/hello", client.SubscribeOptions{QoS: packets.AtLeastOnce})
	if err != nil {
		return err
	}
	hello := client.Publication{Topic: "demo/hello", Payload: []byte("hi"), QoS: packets.AtLeastOnce}
	if err := c.Publish(ctx, hello); err != nil {
		return err
	}
	for message, err := range sub.Messages(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", message.Topic(), message.Payload())
		break
	}
	return nil
}
