// Command sensor publishes a reading every second, at QoS 1, and executes commands. Without a connection, readings wait in a
// file.
//
//	sensor mqtt://127.0.0.1:1883 kitchen
package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/client/store"
	"github.com/tautwire/tautwire/clients/go/packets"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sensor ADDRESS NAME")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sensor:", err)
		os.Exit(1)
	}
}

func run(address, name string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	session, err := store.OpenFile("sensor-"+name+".session", store.FileOptions{})
	if err != nil {
		return err
	}
	will, err := packets.NewWill("sensors/"+name+"/status", []byte("lost"))
	if err != nil {
		return err
	}
	will.SetRetain(true)

	interval := make(chan time.Duration, 1)
	c, err := client.New(address, client.Options{
		ClientID: "sensor-" + name, Store: session, Will: will,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Subscriptions: []client.InitialSubscription{{
			Filter: "sensors/" + name + "/interval", Options: client.SubscribeOptions{QoS: packets.AtLeastOnce},
			Handler: func(ctx context.Context, m *client.Message) {
				if d, err := time.ParseDuration(string(m.Payload())); err == nil && d > 0 {
					select {
					case interval <- d:
					case <-ctx.Done():
					}
				}
			},
		}},
	})
	if err != nil {
		return err
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			reading := fmt.Sprintf("%.1f", 20+rand.NormFloat64())
			_, err := c.PublishAsync(ctx, client.Publication{
				Topic: "sensors/" + name + "/temperature", Payload: []byte(reading), QoS: packets.AtLeastOnce,
				Expiry: time.Hour,
			})
			if err != nil && ctx.Err() == nil {
				return err
			}
		case d := <-interval:
			ticker.Reset(d)
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return c.Close(context.Background())
		}
	}
}
