package server_test

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// broker forwards each message at QoS 0 to all clients with a matching filter.
type broker struct {
	mutex   sync.Mutex
	filters map[*server.Conn][]string
}

func (b *broker) subscribe(c *server.Conn, p *packets.Subscribe) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	answer, err := packets.NewSubAck(p.PacketID())
	if err != nil {
		return err
	}
	for filter := range p.Requests() {
		b.filters[c] = append(b.filters[c], filter)
		if err := answer.Add(packets.ReasonGrantedQoS0); err != nil {
			return err
		}
	}
	return c.Send(answer)
}

func (b *broker) publish(c *server.Conn, p *packets.Publish) error {
	message, err := packets.NewPublish(p.Topic(), p.Payload())
	if err != nil {
		return err
	}
	b.mutex.Lock()
	for receiver, filters := range b.filters {
		for _, filter := range filters {
			if packets.MatchTopic(filter, message.Topic()) {
				_ = receiver.Send(message)
				break
			}
		}
	}
	b.mutex.Unlock()
	return server.Acknowledge(c, p)
}

func (b *broker) closed(c *server.Conn, _ error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.filters, c)
}

// A broker in 60 lines, with a client.
func Example() {
	b := &broker{filters: map[*server.Conn][]string{}}
	s := server.New(server.Options{
		Hooks: server.Hooks{Subscribe: b.subscribe, Publish: b.publish, Closed: b.closed},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	go func() { _ = s.Serve(ctx, listener) }()
	defer s.Close(ctx)

	c, err := client.Connect(ctx, "mqtt://"+listener.Addr().String(), client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	sub, err := c.Subscribe(ctx, "rooms/+/temperature", client.SubscribeOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = c.Publish(ctx, client.Publication{
		Topic: "rooms/kitchen/temperature", Payload: []byte("21.5"), QoS: packets.AtLeastOnce,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	message, err := sub.Receive(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s\n", message.Topic(), message.Payload())
	// Output: rooms/kitchen/temperature: 21.5
}
