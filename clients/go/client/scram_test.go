package client_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/client/scram"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// scramBroker is the broker with the users ann and "a=b,c", whose passwords are pencil.
func scramBroker(t *testing.T) (address string) {
	t.Helper()
	folder := t.TempDir()
	users, password := filepath.Join(folder, "users"), filepath.Join(folder, "password")
	must(t, os.WriteFile(password, []byte("pencil"), 0o600))
	for _, name := range []string{"ann", "a=b,c"} {
		add := exec.Command(brokerBinary(t), "user", "add", "--file", users, "--password-file", password, name)
		if output, err := add.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	addresses, _ := runBrokerWith(t, []string{"auth.password_file=" + users}, "127.0.0.1:0")
	return addresses[0]
}

func scramUser(t *testing.T, begin func(string, string) (*scram.User, error), name, password string) *scram.User {
	t.Helper()
	user, err := begin(name, password)
	must(t, err)
	return user
}

func TestOnlyTheCorrectPasswordAuthenticates(t *testing.T) {
	address := scramBroker(t)
	for _, begin := range []func(string, string) (*scram.User, error){scram.SHA256, scram.SHA512} {
		for _, name := range []string{"ann", "a=b,c"} {
			good := client.Options{Authenticator: scramUser(t, begin, name, "pencil")}
			c, err := client.Connect(testContext(t), address, good)
			must(t, err)
			closeNow(t, c)
			bad := client.Options{Authenticator: scramUser(t, begin, name, "rubber")}
			refused := wantError(t, firstFailure(t, address, bad), client.ErrConnectionRefused)
			if refused.Reason != packets.ReasonBadUserNameOrPassword {
				t.Errorf("got %v", refused)
			}
		}
	}
}

// [MQTT-4.12.1-1]
func TestClientReauthenticatesWhileMessagesFlow(t *testing.T) {
	ctx := testContext(t)
	c, err := client.Connect(ctx, scramBroker(t), client.Options{Authenticator: scramUser(t, scram.SHA256, "ann", "pencil")})
	must(t, err)
	defer closeNow(t, c)
	sub, err := c.Subscribe(ctx, "t", client.SubscribeOptions{QoS: qos1})
	must(t, err)
	for round := range 5 {
		for number := range 20 {
			payload := []byte(fmt.Sprint(round, number))
			_, err := c.PublishAsync(ctx, client.Publication{Topic: "t", Payload: payload, QoS: qos1})
			must(t, err)
		}
		must(t, c.Reauthenticate(ctx))
		for number := range 20 {
			m := receive(t, sub)
			if want := fmt.Sprint(round, number); string(m.Payload()) != want {
				t.Fatalf("got %s, want %s", m.Payload(), want)
			}
			m.Ack()
		}
	}
	if connects := c.Stats().Connects; connects != 1 {
		t.Errorf("it connected %d times", connects)
	}
}

func TestReconnectedClientAuthenticatesAgain(t *testing.T) {
	ctx := testContext(t)
	var conns lastConn
	address := scramBroker(t)
	c, err := client.Connect(ctx, address, client.Options{
		Authenticator: scramUser(t, scram.SHA512, "ann", "pencil"),
		Dial: func(ctx context.Context) (net.Conn, error) {
			return conns.dial(ctx, strings.TrimPrefix(address, "mqtt://"))
		},
	})
	must(t, err)
	defer closeNow(t, c)
	for range 3 {
		conns.cut()
		must(t, c.Publish(ctx, client.Publication{Topic: "t", QoS: qos1}))
	}
	if connects := c.Stats().Connects; connects < 2 {
		t.Errorf("it connected %d times", connects)
	}
	must(t, c.Reauthenticate(ctx))
}

// An impostor accepts every client. It knows neither the password nor its keys.
func TestServerWithoutThePasswordIsRefused(t *testing.T) {
	for name, impostor := range map[string]struct {
		challenge func(nonce string) string
		code      scram.Code
		isProved  bool
	}{
		"signature": {func(nonce string) string { return "r=" + nonce + "x,s=c2FsdA==,i=4096" }, scram.ErrServerSignature, true},
		"few":       {func(nonce string) string { return "r=" + nonce + "x,s=c2FsdA==,i=4095" }, scram.ErrIterations, false},
		"many":      {func(nonce string) string { return "r=" + nonce + "x,s=c2FsdA==,i=1000000000" }, scram.ErrIterations, false},
		"nonce":     {func(string) string { return "r=another,s=c2FsdA==,i=4096" }, scram.ErrNonce, false},
	} {
		t.Run(name, func(t *testing.T) {
			const method = "SCRAM-SHA-256"
			var proofs atomic.Int64
			success, err := packets.NewConnAck(packets.ReasonSuccess)
			must(t, err)
			must(t, success.SetAuthenticationMethod(method))
			must(t, success.SetAuthenticationData([]byte("v="+base64.StdEncoding.EncodeToString(make([]byte, 32)))))
			f := newFake(t, server.Hooks{
				Connect: func(c *server.Conn, p *packets.Connect) (*packets.ConnAck, error) {
					first, _ := p.AuthenticationData()
					_, nonce, _ := strings.Cut(string(first), "r=")
					auth, err := packets.NewAuth(packets.ReasonContinueAuthentication, method)
					orPanic(err)
					orPanic(auth.SetAuthenticationData([]byte(impostor.challenge(nonce))))
					return success, c.Send(auth)
				},
				Auth: func(*server.Conn, *packets.Auth) error {
					proofs.Add(1)
					return nil
				},
			})
			c, err := client.New("mqtt://fake", f.options(client.Options{Authenticator: scramUser(t, scram.SHA256, "ann", "pencil")}))
			must(t, err)
			// Another attempt would fail in the same way.
			await(t, c.Done())
			if err := c.Err(); !errors.Is(err, client.ErrAuthentication) || !errors.Is(err, impostor.code) {
				t.Errorf("got %v, want %v", err, impostor.code)
			}
			closeNow(t, c)
			if !impostor.isProved && proofs.Load() != 0 {
				t.Error("the client has said what can be guessed at")
			}
		})
	}
}
