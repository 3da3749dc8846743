// Package client is an MQTT client, of MQTT 5.0 and 3.1.1, over TCP, TLS, WebSocket or any net.Conn.
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
// A client keeps its connection: when it breaks it connects again, after a random pause that grows, and takes up its session
// where it was. [Connect] reports how the first attempt ended; [New] goes on trying. Messages of QoS 1 are delivered at least once,
// those of QoS 2 exactly once, over any number of broken connections; with a [store.File], over crashes of the process too.
// Subscriptions are renewed when the server has lost them.
//
// Nothing that a handler does can stop the client: it reads, acknowledges and pings on goroutines of its own. Handlers may
// publish and wait, subscribe, unsubscribe, block, and close the client.
//
// All that waits is bounded, by [Options], and counted, in [Stats].
package client
