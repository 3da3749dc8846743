package client_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// sink is a connection that discards everything, and answers CONNECT.
func sink(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		_, _ = packets.ReadPacket(far, packets.Options{})
		ack, _ := packets.NewConnAck(packets.ReasonSuccess)
		_, _ = ack.WriteTo(far)
		_, _ = io.Copy(io.Discard, far)
	}()
	return near, nil
}

// BenchmarkPublishQoS0 measures publishing at QoS 0, in memory.
func BenchmarkPublishQoS0(b *testing.B) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, "mqtt://sink", client.Options{Dial: sink})
	orPanic(err)
	defer crash(c)
	payload := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Publish(ctx, client.Publication{Topic: "sensors/7/temperature", Payload: payload}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReceiveQoS0 measures receiving at QoS 0, over loopback, with a handler.
func BenchmarkReceiveQoS0(b *testing.B) { benchmarkReceive(b, qos0) }

// BenchmarkReceiveQoS1 measures receiving at QoS 1, with acknowledgements.
func BenchmarkReceiveQoS1(b *testing.B) { benchmarkReceive(b, qos1) }

func benchmarkReceive(b *testing.B, qos packets.QoS) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	near, far := loopback(b)
	var got atomic.Int64
	done := make(chan struct{})
	wanted := int64(b.N)
	acked := make(chan struct{}, 1<<20)
	s := server.New(server.Options{Hooks: server.Hooks{
		PubAck: func(*server.Conn, *packets.PubAck) error { acked <- struct{}{}; return nil },
	}})
	go func() { _ = s.ServeConn(far) }()
	c, err := client.Connect(ctx, "mqtt://pipe", client.Options{
		Dial: func(context.Context) (net.Conn, error) { return near, nil },
		Subscriptions: []client.InitialSubscription{{
			Filter: "#", Options: client.SubscribeOptions{QoS: qos},
			Handler: func(context.Context, *client.Message) {
				if got.Add(1) == wanted {
					close(done)
				}
			},
		}},
	})
	orPanic(err)
	defer crash(c)
	message, _ := packets.NewPublish("sensors/7/temperature", make([]byte, 64))
	orPanic(message.SetQoS(qos))
	b.ReportAllocs()
	b.ResetTimer()
	conn := s.Connections()[0]
	open := 0
	for number := range b.N {
		if qos == qos1 {
			if open == 1000 {
				<-acked
				open--
			}
			open++
			orPanic(message.SetPacketID(packets.PacketID(number%60_000 + 1)))
		}
		for conn.Send(message) != nil {
			time.Sleep(100 * time.Microsecond)
		}
	}
	<-done
}

func loopback(b *testing.B) (near, far net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	orPanic(err)
	defer listener.Close()
	near, err = net.Dial("tcp", listener.Addr().String())
	orPanic(err)
	far, err = listener.Accept()
	orPanic(err)
	b.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}
