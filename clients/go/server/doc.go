// Package server is what one needs to write an MQTT server, of 3.1.1 and 5.0: it accepts connections, does the handshake, decodes
// and checks what comes, calls a function for each packet, and writes what is sent. What the packets mean is left to these
// functions, the [Hooks]: which client may connect, who gets which message, what is kept.
//
//	s := server.New(server.Options{Hooks: server.Hooks{
//		Publish: func(c *server.Conn, p *packets.Publish) error { … },
//	}})
//	err := s.Serve(ctx, listener)
//
// A broker on it, of QoS 0, is in the example of [Server]. For tests of clients it makes a server that does what a test wants,
// wrong things too.
package server
