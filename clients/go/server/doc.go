// Package server has the building blocks of an MQTT 3.1.1 and 5.0 server: it accepts connections, performs the handshake, decodes
// and validates packets, calls a function for each packet, and writes the packets to send. These functions, the [Hooks],
// implement the meaning of the packets: which client may connect, who gets which message, what is stored.
//
//	s := server.New(server.Options{Hooks: server.Hooks{
//		Publish: func(c *server.Conn, p *packets.Publish) error { … },
//	}})
//	err := s.Serve(ctx, listener)
//
// The example of [Server] is a QoS 0 broker. For tests of clients, it can be a server that violates the protocol.
package server
