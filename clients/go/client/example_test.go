package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// exampleBroker is a server that echoes publications, in place of "mqtt://broker.example".
func exampleBroker() (address string, stop func()) {
	s := server.New(server.Options{Hooks: server.Hooks{Publish: func(c *server.Conn, p *packets.Publish) error {
		back, err := packets.NewPublish(p.Topic(), p.Payload())
		if err != nil {
			return err
		}
		if err := back.SetProperties(p.Properties()); err != nil {
			return err
		}
		back.RemoveProperty(packets.TopicAlias)
		return errors.Join(c.Send(back), server.Acknowledge(c, p))
	}}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = s.Serve(context.Background(), listener) }()
	return "mqtt://" + listener.Addr().String(), func() { _ = s.Close(context.Background()) }
}

// Subscribe, publish and receive in a loop.
func Example() {
	address, stop := exampleBroker()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.Connect(ctx, address, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	sub, err := c.Subscribe(ctx, "sensors/+/temperature", client.SubscribeOptions{QoS: packets.AtLeastOnce})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = c.Publish(ctx, client.Publication{
		Topic: "sensors/7/temperature", Payload: []byte("21.5"), QoS: packets.AtLeastOnce,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for message, err := range sub.Messages(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s\n", message.Topic(), message.Payload())
		break
	}
	// Output: sensors/7/temperature: 21.5
}

// A handler may publish and wait: it cannot block the client.
func ExampleClient_Handle() {
	address, stop := exampleBroker()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, address, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	done := make(chan error)
	_, err = c.Handle(ctx, "commands/#", client.SubscribeOptions{}, func(ctx context.Context, m *client.Message) {
		done <- c.Publish(ctx, client.Publication{Topic: "log", Payload: m.Payload(), QoS: packets.ExactlyOnce})
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Publish(ctx, client.Publication{Topic: "commands/light", Payload: []byte("on")}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-done)
	// Output: <nil>
}

// With manual acknowledgement the server keeps unacknowledged messages, and sends at most ReceiveMaximum of them.
func ExampleMessage_Ack() {
	address, stop := exampleBroker()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, address, client.Options{Limits: client.Limits{ReceiveMaximum: 16}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	jobs, err := c.Subscribe(ctx, "jobs", client.SubscribeOptions{QoS: packets.AtLeastOnce, ManualAck: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Publish(ctx, client.Publication{Topic: "jobs", Payload: []byte("dig")}); err != nil {
		fmt.Println(err)
		return
	}
	job, err := jobs.Receive(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("done: %s\n", job.Payload())
	job.Ack()
	// Output: done: dig
}

// A request waits for its response; any number may be pending.
func ExampleClient_Request() {
	address, stop := exampleBroker()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, address, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	_, err = c.Respond(ctx, "greet", client.SubscribeOptions{},
		func(_ context.Context, m *client.Message) (client.Publication, error) {
			return client.Publication{Payload: append([]byte("hello "), m.Payload()...)}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := c.Request(ctx, client.Publication{Topic: "greet", Payload: []byte("world")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", response.Payload())
	// Output: hello world
}

// With a file store, messages survive a crash of the process: they are sent when it runs again.
func ExampleOptions_store() {
	address, stop := exampleBroker()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)

	session, err := store.OpenFile(filepath.Join(folder, "session"), store.FileOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.New(address, client.Options{ClientID: "meter-7", Store: session})
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := c.PublishAsync(ctx, client.Publication{
		Topic: "readings/7", Payload: []byte("42"), QoS: packets.ExactlyOnce,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reason, err := token.Wait(ctx)
	fmt.Println(reason, err, c.Close(ctx))
	// Output: Success (0x00) <nil> <nil>
}

// Errors have stable codes, and the server's reason.
func ExampleError() {
	_, err := client.New("mqtt://broker.example", client.Options{Limits: client.Limits{ReceiveMaximum: 100_000}})
	var typed *client.Error
	fmt.Println(errors.Is(err, client.ErrInvalidOptions), errors.As(err, &typed))
	fmt.Println(err)
	// Output:
	// true true
	// mqtt: options: an option is wrong, or does not go with another: correct it (Limits.ReceiveMaximum is 100000, not from 1 to 65535) [invalid_options]
}
