// Command broker is a small QoS 0 broker, built on package server: it forwards each message to all clients with a
// matching filter.
//
//	broker 127.0.0.1:1883
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"

	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// broker holds the subscriptions.
type broker struct {
	mutex   sync.RWMutex
	filters map[*server.Conn]map[string]bool
}

func main() {
	address := "127.0.0.1:1883"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", address)
	if err == nil {
		fmt.Println("listening on mqtt://" + listener.Addr().String())
		err = serve(ctx, listener)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, listener net.Listener) error {
	b := &broker{filters: map[*server.Conn]map[string]bool{}}
	s := server.New(server.Options{
		Hooks:  server.Hooks{Subscribe: b.subscribe, Unsubscribe: b.unsubscribe, Publish: b.publish, Closed: b.closed},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err := s.Serve(ctx, listener); ctx.Err() == nil {
		return err
	}
	return s.Close(context.Background())
}

func (b *broker) subscribe(c *server.Conn, p *packets.Subscribe) error {
	answer, err := packets.NewSubAck(p.PacketID())
	if err != nil {
		return err
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.filters[c] == nil {
		b.filters[c] = map[string]bool{}
	}
	for filter := range p.Requests() {
		b.filters[c][filter] = true
		if err := answer.Add(packets.ReasonGrantedQoS0); err != nil {
			return err
		}
	}
	return c.Send(answer)
}

func (b *broker) unsubscribe(c *server.Conn, p *packets.Unsubscribe) error {
	b.mutex.Lock()
	for filter := range p.Filters() {
		delete(b.filters[c], filter)
	}
	b.mutex.Unlock()
	return server.AcceptUnsubscribe(c, p)
}

func (b *broker) publish(c *server.Conn, p *packets.Publish) error {
	message, err := packets.NewPublish(p.Topic(), p.Payload())
	if err != nil {
		return err
	}
	b.mutex.RLock()
	for receiver, filters := range b.filters {
		for filter := range filters {
			if packets.MatchTopic(filter, message.Topic()) {
				// A slow client loses messages, as QoS 0 allows. It gets a copy, because the protocol version is that of the
				// receiver.
				_ = receiver.Send(message.Clone())
				break
			}
		}
	}
	b.mutex.RUnlock()
	return server.Acknowledge(c, p)
}

func (b *broker) closed(c *server.Conn, _ error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.filters, c)
}
