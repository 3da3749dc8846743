// Package client is an MQTT 5.0 and 3.1.1 client, over TCP, TLS, WebSocket or any net.Conn.
//
//	c, err := client.Connect(ctx, "mqtt://broker.example", client.Options{})
//	…
//	defer c.Close(context.Background())
//	sub, err := c.Subscribe(ctx, "sensors/+/temperature", client.SubscribeOptions{QoS: packets.AtLeastOnce})
//	…
//	for message, err := range sub.Messages(ctx) {
//		…
//	}
//
// A client maintains its connection: when it breaks, the client reconnects after a random delay that grows, and resumes its
// session. [Connect] returns the result of the first attempt; [New] keeps trying. QoS 1 messages are delivered at least once, QoS 2
// messages exactly once, over any number of lost connections; with a [store.File], across crashes of the process, too.
// Subscriptions are renewed when the server has lost them.
//
// Handlers cannot block the client: it reads, acknowledges and pings on goroutines of its own. Handlers may publish and wait,
// subscribe, unsubscribe, block, and close the client.
//
// Every queue is bounded, by [Options], and counted, in [Stats].
package client
