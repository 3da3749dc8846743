package client_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/client"
)

// Messages that were in flight when a subscription ended may be thousands: one log line is enough.
func TestManyUnroutedMessagesAreOneLogLine(t *testing.T) {
	ctx := testContext(t)
	var log safeBuffer
	f := echo(t)
	options := f.options(client.Options{})
	options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c, err := client.New("mqtt://fake", options)
	must(t, err)
	defer func() { must(t, c.Close(context.Background())) }()
	for range 100 {
		must(t, c.Publish(ctx, client.Publication{Topic: "nobody", QoS: qos1}))
	}
	// The last echo has arrived when the next request is answered.
	sub, err := c.Subscribe(ctx, "end", client.SubscribeOptions{QoS: qos1})
	must(t, err)
	must(t, c.Publish(ctx, client.Publication{Topic: "end", QoS: qos1}))
	receive(t, sub)
	if lines := strings.Count(log.String(), "without a matching subscription"); lines != 1 || c.Stats().Unrouted != 100 {
		t.Errorf("%d lines for %d messages", lines, c.Stats().Unrouted)
	}
}
