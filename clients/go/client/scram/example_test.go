package scram_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/client/scram"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// pretender is a server that accepts every client, and knows no passwords.
func pretender() (address string, stop func()) {
	s := server.New(server.Options{Hooks: server.Hooks{
		Connect: func(_ *server.Conn, p *packets.Connect) (*packets.ConnAck, error) {
			method, _ := p.AuthenticationMethod()
			ack, err := packets.NewConnAck(packets.ReasonSuccess)
			return ack, errors.Join(err, ack.SetAuthenticationMethod(method))
		},
	}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = s.Serve(context.Background(), listener) }()
	return "mqtt://" + listener.Addr().String(), func() { _ = s.Close(context.Background()) }
}

// A server that does not know the password is refused.
func Example() {
	address, stop := pretender() // In place of "mqtts://broker.example".
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	user, err := scram.SHA256("ann", "correct horse battery staple")
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.Connect(ctx, address, client.Options{Authenticator: user})
	if errors.Is(err, scram.ErrServerSignature) {
		fmt.Println("this is not our broker")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	// Later, on the same connection, while messages flow:
	if err := c.Reauthenticate(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: this is not our broker
}
