package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

func TestFormattedPublicationHasNoPayload(t *testing.T) {
	m := client.Publication{Topic: "t-7", Payload: []byte("hunter2"), CorrelationData: []byte("hunter2")}
	for _, value := range []any{m, &m, []client.Publication{m}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if shown := fmt.Sprintf(verb, value); strings.Contains(shown, "hunter2") || strings.Contains(shown, "117") ||
				strings.Contains(shown, "0x75") || !strings.Contains(shown, "t-7") {
				t.Errorf("%s of %T shows %s", verb, value, shown)
			}
		}
	}
}

func TestFormattedClientAndOptionsHaveNoSecrets(t *testing.T) {
	will, err := packets.NewWill("t", []byte("hunter2"))
	must(t, err)
	options := client.Options{
		ClientID: "c-7", Username: "ann", Password: []byte("hunter2"), Will: will,
		Header: http.Header{"Authorization": {"Bearer hunter2"}},
		Dial:   func(context.Context) (net.Conn, error) { return nil, errors.New("nobody is there") },
		Logger: slog.New(slog.DiscardHandler),
	}
	c, err := client.New("ws://127.0.0.1:1/mqtt?token=hunter2", options)
	must(t, err)
	defer func() { must(t, c.Close(context.Background())) }()
	for _, value := range []any{options, &options, c, []any{options, c}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			shown := fmt.Sprintf(verb, value)
			// As text, and as bytes in both ways.
			for _, secret := range []string{"hunter2", "104 117 110", "0x68, 0x75, 0x6e"} {
				if strings.Contains(shown, secret) {
					t.Errorf("%s of %T shows %s: %s", verb, value, secret, shown)
				}
			}
			if !strings.Contains(shown, "c-7") {
				t.Errorf("%s of %T does not say which client it is: %s", verb, value, shown)
			}
		}
	}
}
