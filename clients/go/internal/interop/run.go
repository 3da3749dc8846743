package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// caseTimeout limits a whole case.
const caseTimeout = 20 * time.Second

// run is one run of one case: the address of the broker, unique names, and a deadline.
type run struct {
	context.Context
	address, tag string
	version      packets.Version
	clients      []*client.Client
}

// failed ends a case by a panic, which attempt recovers.
type failed struct{ error }

func attempt(each testCase, host, port string) (err error) {
	var random [6]byte
	_, _ = rand.Read(random[:])
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	defer cancel()
	r := &run{Context: ctx, address: net.JoinHostPort(host, port), tag: hex.EncodeToString(random[:])}
	defer func() {
		for _, c := range r.clients {
			_ = c.Close(ctx)
		}
		switch recovered := recover().(type) {
		case nil:
		case failed:
			err = recovered.error
		default:
			panic(recovered)
		}
	}()
	each.run(r)
	return nil
}

func (r *run) must(err error, what string) {
	if err != nil {
		panic(failed{fmt.Errorf("%s: %w", what, err)})
	}
}

func (r *run) expect(condition bool, format string, arguments ...any) {
	if !condition {
		panic(failed{fmt.Errorf(format, arguments...)})
	}
}

func (r *run) topic(suffix string) string { return "interop/" + r.tag + "/" + suffix }

func (r *run) connect(o client.Options) *client.Client {
	o.Version = r.version
	o.Reconnect.Min, o.Reconnect.Max = 10*time.Millisecond, 100*time.Millisecond
	if o.ClientID == "" {
		o.SessionExpiry = client.NoSession
	}
	c, err := client.Connect(r, "mqtt://"+r.address, o)
	r.must(err, "connect")
	r.clients = append(r.clients, c)
	return c
}

func (r *run) subscribe(c *client.Client, filter string, qos packets.QoS) *client.Subscription {
	sub, err := c.Subscribe(r, filter, client.SubscribeOptions{QoS: qos})
	r.must(err, "subscribe")
	return sub
}

func (r *run) publish(c *client.Client, topic, payload string, qos packets.QoS, retain bool) {
	r.must(c.Publish(r, client.Publication{Topic: topic, Payload: []byte(payload), QoS: qos, Retain: retain}), "publish")
}

// receive receives a message, and acknowledges it.
func (r *run) receive(sub *client.Subscription) *client.Message {
	m, err := sub.Receive(r)
	r.must(err, "receive")
	m.Ack()
	return m
}

// wire dials, and can cut the connection.
type wire struct {
	address string
	mutex   sync.Mutex
	conn    net.Conn
	// gate, if not nil, delays the next dial until it is closed.
	gate chan struct{}
}

func (w *wire) dial(ctx context.Context) (net.Conn, error) {
	w.mutex.Lock()
	gate := w.gate
	w.mutex.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.address)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.conn = conn
	return conn, err
}

// cut closes the connection without DISCONNECT. There is no new one until the returned gate is closed.
func (w *wire) cut() (gate chan struct{}) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.gate = make(chan struct{})
	_ = w.conn.Close()
	return w.gate
}
