package main

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
)

const (
	largePayloadBytes = 1024 * 1024
	messageCount      = 100
	sharedMessages    = 300
)

// bothVersions are cases with the same meaning in MQTT 3.1.1 and 5.0.
var bothVersions = []struct {
	name string
	run  func(*run, connect)
}{
	{"qos0_roundtrip", func(r *run, connect connect) { roundtrip(r, connect, 0) }},
	{"qos1_roundtrip", func(r *run, connect connect) { roundtrip(r, connect, 1) }},
	{"qos2_roundtrip", func(r *run, connect connect) { roundtrip(r, connect, 2) }},
	{"qos_is_the_lower_of_both", qosIsTheLowerOfBoth},
	{"wildcards", wildcards},
	{"overlapping_subscriptions", overlappingSubscriptions},
	{"unsubscribe", unsubscribe},
	{"retained_on_subscribe", retainedOnSubscribe},
	{"retained_replace", retainedReplace},
	{"retained_delete", retainedDelete},
	{"will_on_cut", willOnCut},
	{"will_retained", willRetained},
	{"no_will_on_disconnect", noWillOnDisconnect},
	{"shared_subscription", sharedSubscription},
	{"shared_subscription_member_leaves", sharedSubscriptionMemberLeaves},
	{"large_payload", largePayload},
	{"persistent_session", persistentSession},
	{"persistent_session_after_cut", persistentSessionAfterCut},
	{"clean_session_discards", cleanSessionDiscards},
	{"redelivery_after_cut", redeliveryAfterCut},
	{"takeover", takeover},
}

func numbered(count int, prefix string) []string {
	texts := make([]string, count)
	for number := range texts {
		texts[number] = fmt.Sprintf("%s %d", prefix, number)
	}
	return texts
}

func roundtrip(r *run, connect connect, qos byte) {
	topic := r.topic("roundtrip")
	subscriber, publisher := connect(r, options{}), connect(r, options{})
	r.expectEqual(subscriber.subscribe(qos, topic), []byte{qos}, "granted QoS")
	sent := numbered(messageCount, "message")
	publisher.publishAll(qos, false, topic, append(slices.Clone(sent), "fence")...)
	received := subscriber.receiveUntil("fence")
	r.expectEqual(payloads(received), sent, "payloads")
	for _, each := range received {
		r.expect(each.qos == qos && !each.retain && !each.dup, "QoS %d, RETAIN %v, DUP %v", each.qos, each.retain, each.dup)
	}
}

func qosIsTheLowerOfBoth(r *run, connect connect) {
	publisher := connect(r, options{})
	for granted := range byte(3) {
		topic := r.topic(fmt.Sprintf("granted/%d", granted))
		subscriber := connect(r, options{})
		subscriber.subscribe(granted, topic)
		for sent := range byte(3) {
			publisher.publish(topic, "x", sent)
			r.expectEqual(subscriber.receive().qos, min(sent, granted), fmt.Sprintf("sent at QoS %d, granted %d", sent, granted))
		}
	}
}

func wildcards(r *run, connect connect) {
	subscriber, publisher := connect(r, options{}), connect(r, options{})
	subscriber.subscribe(1, r.topic("a/+/c"), r.topic("b/#"))
	matching := []string{"a/x/c", "a//c", "b", "b/x", "b/x/y"}
	for _, suffix := range append(slices.Clone(matching), "a/c", "a/x/y/c", "bb", "fence", "b/fence") {
		publisher.publish(r.topic(suffix), suffix, 1)
	}
	r.expectEqual(payloads(subscriber.receiveUntil("b/fence")), matching, "topics")
}

func overlappingSubscriptions(r *run, connect connect) {
	subscriber, publisher := connect(r, options{}), connect(r, options{})
	subscriber.subscribe(0, r.topic("a/#"))
	subscriber.subscribe(2, r.topic("a/+"))
	subscriber.subscribe(1, r.topic("a/b"))
	publisher.publish(r.topic("a/b"), "once", 2)
	publisher.publish(r.topic("a/b"), "fence", 2)
	received := subscriber.receiveUntil("fence")
	r.expectEqual(payloads(received), []string{"once"}, "copies")
	r.expectEqual(received[0].qos, byte(2), "QoS")
}

func unsubscribe(r *run, connect connect) {
	left, kept := r.topic("left"), r.topic("kept")
	subscriber, publisher := connect(r, options{}), connect(r, options{})
	subscriber.subscribe(1, left, kept)
	subscriber.unsubscribe(left)
	publisher.publish(left, "unwanted", 1)
	publisher.publish(kept, "fence", 1)
	r.expectEqual(payloads(subscriber.receiveUntil("fence")), []string{}, "messages after UNSUBACK")
}

func retainedOnSubscribe(r *run, connect connect) {
	topic := r.topic("retained")
	live, publisher := connect(r, options{}), connect(r, options{})
	live.subscribe(2, topic)
	for qos := range byte(3) {
		value := fmt.Sprintf("value %d", qos)
		publisher.retain(topic, value, qos)
		now := live.receive()
		r.expect(now.payload == value && !now.retain, "to a live subscription: %q, RETAIN %v", now.payload, now.retain)
		late := connect(r, options{})
		late.subscribe(2, r.topic("+"))
		stored := late.receive()
		r.expect(stored.topic == topic && stored.payload == value && stored.qos == qos && stored.retain,
			"to a new subscription: %q at QoS %d, RETAIN %v", stored.payload, stored.qos, stored.retain)
	}
}

func retainedReplace(r *run, connect connect) {
	topic := r.topic("retained")
	publisher, subscriber := connect(r, options{}), connect(r, options{})
	publisher.publishAll(1, true, topic, "first", "second", "third")
	publisher.publish(topic, "not retained", 1)
	subscriber.subscribe(1, topic)
	publisher.publish(topic, "fence", 1)
	r.expectEqual(payloads(subscriber.receiveUntil("fence")), []string{"third"}, "retained messages")
}

func retainedDelete(r *run, connect connect) {
	topic := r.topic("retained")
	publisher, live, late := connect(r, options{}), connect(r, options{}), connect(r, options{})
	publisher.retain(topic, "value", 1)
	live.subscribe(1, topic)
	r.expectEqual(live.receive().payload, "value", "retained message before it is deleted")
	publisher.retain(topic, "", 1)
	deletion := live.receive()
	r.expect(deletion.payload == "" && !deletion.retain, "the deletion: %q, RETAIN %v", deletion.payload, deletion.retain)
	late.subscribe(1, topic)
	publisher.publish(topic, "fence", 1)
	r.expectEqual(payloads(late.receiveUntil("fence")), []string{}, "retained messages after deletion")
}

func willOnCut(r *run, connect connect) {
	watcher := connect(r, options{})
	watcher.subscribe(2, r.topic("will/+"))
	for qos := range byte(3) {
		topic := r.topic(fmt.Sprintf("will/%d", qos))
		connect(r, options{clientID: r.clientID(fmt.Sprintf("dying%d", qos)), will: &will{topic: topic, qos: qos}}).cut()
		published := watcher.receive()
		r.expect(published.topic == topic && published.payload == willPayload && published.qos == qos && !published.retain,
			"will: %q at QoS %d, RETAIN %v", published.payload, published.qos, published.retain)
	}
}

func willRetained(r *run, connect connect) {
	topic := r.topic("will")
	watcher := connect(r, options{})
	watcher.subscribe(1, topic)
	connect(r, options{clientID: r.clientID("dying"), will: &will{topic: topic, qos: 1, retain: true}}).cut()
	r.expect(!watcher.receive().retain, "RETAIN is set to a live subscription")
	late := connect(r, options{})
	late.subscribe(1, topic)
	stored := late.receive()
	r.expect(stored.payload == willPayload && stored.retain, "to a new subscription: %q, RETAIN %v", stored.payload, stored.retain)
}

func noWillOnDisconnect(r *run, connect connect) {
	topic, name := r.topic("will"), r.clientID("leaving")
	watcher := connect(r, options{})
	watcher.subscribe(1, topic)
	connect(r, options{clientID: name, will: &will{topic: topic, qos: 1}}).disconnect()
	// The same client id again: its CONNACK proves that the broker has closed the first connection.
	connect(r, options{clientID: name}).publish(topic, "fence", 1)
	r.expectEqual(payloads(watcher.receiveUntil("fence")), []string{}, "wills after DISCONNECT")
}

func sharedSubscription(r *run, connect connect) {
	share := "$share/group-" + r.tag + "/" + r.topic("work/+")
	members := []*peer{connect(r, options{}), connect(r, options{}), connect(r, options{})}
	for _, member := range members {
		member.subscribe(1, share, r.topic("fence"))
	}
	publisher := connect(r, options{})
	sent := numbered(sharedMessages, "job")
	for number, payload := range sent {
		publisher.publish(r.topic(fmt.Sprintf("work/%d", number%7)), payload, 1)
	}
	// Members unsubscribe first: their messages have been sent by then, and the fence follows.
	for _, member := range members {
		member.unsubscribe(share)
	}
	publisher.publish(r.topic("fence"), "fence", 1)
	var shares [][]string
	var all []string
	for _, member := range members {
		jobs := payloads(member.receiveUntil("fence"))
		shares, all = append(shares, jobs), append(all, jobs...)
	}
	r.expectBalanced(shares, sharedMessages)
	slices.Sort(all)
	slices.Sort(sent)
	r.expectEqual(all, sent, "jobs")
}

func sharedSubscriptionMemberLeaves(r *run, connect connect) {
	topic := r.topic("work")
	share := "$share/group-" + r.tag + "/" + topic
	// The leaving member acknowledges nothing, so all its messages are still in flight.
	leaving := connect(r, options{clientID: r.clientID("leaving"), manualAck: true})
	staying, publisher := connect(r, options{}), connect(r, options{})
	leaving.subscribe(1, share)
	sent := numbered(10, "job")
	publisher.publishAll(1, false, topic, sent...)
	leaving.receiveMany(len(sent))
	staying.subscribe(1, share)
	leaving.cut()
	received := payloads(staying.receiveMany(len(sent)))
	slices.Sort(received)
	r.expectEqual(received, sent, "redelivered jobs")
}

func largePayload(r *run, connect connect) {
	topic := r.topic("large")
	payload := make([]byte, largePayloadBytes)
	_, _ = rand.Read(payload)
	subscriber, publisher := connect(r, options{}), connect(r, options{})
	subscriber.subscribe(2, topic)
	for qos := range byte(3) {
		publisher.publish(topic, string(payload), qos)
		received := subscriber.receive().payload
		r.expectEqual(len(received), len(payload), "length in bytes")
		r.expectEqual(sha256.Sum256([]byte(received)), sha256.Sum256(payload), "SHA-256")
	}
}

func persistentSession(r *run, connect connect) {
	returnAfter(r, connect, func(p *peer) { p.disconnect() })
}

func persistentSessionAfterCut(r *run, connect connect) {
	returnAfter(r, connect, func(p *peer) { p.cut() })
}

func returnAfter(r *run, connect connect, leave func(*peer)) {
	name := r.clientID("away")
	topics := map[byte]string{1: r.topic("queued/1"), 2: r.topic("queued/2")}
	publisher, first := connect(r, options{}), connect(r, options{clientID: name, persistent: true})
	r.expect(!first.sessionPresent(), "session present on the first connection")
	for qos, topic := range topics {
		first.subscribe(qos, topic)
	}
	leave(first)
	sent := numbered(messageCount, "message")
	for qos, topic := range topics {
		publisher.publishAll(qos, false, topic, sent...)
	}
	back := connect(r, options{clientID: name, persistent: true})
	r.expect(back.sessionPresent(), "no session present after reconnection")
	for qos, topic := range topics {
		publisher.publish(topic, "live", qos)
	}
	received := back.receiveMany(2*messageCount + 2)
	for qos, topic := range topics {
		var here []message
		for _, each := range received {
			if each.topic == topic {
				r.expectEqual(each.qos, qos, "QoS")
				here = append(here, each)
			}
		}
		r.expectEqual(payloads(here), append(slices.Clone(sent), "live"), fmt.Sprintf("QoS %d payloads", qos))
	}
}

func cleanSessionDiscards(r *run, connect connect) {
	topic, name := r.topic("queued"), r.clientID("away")
	publisher, first := connect(r, options{}), connect(r, options{clientID: name, persistent: true})
	first.subscribe(1, topic)
	first.disconnect()
	publisher.publish(topic, "lost on purpose", 1)
	fresh := connect(r, options{clientID: name})
	r.expect(!fresh.sessionPresent(), "session present after a clean start")
	fresh.subscribe(1, r.topic("fence"))
	publisher.publish(topic, "not subscribed any more", 1)
	publisher.publish(r.topic("fence"), "fence", 1)
	r.expectEqual(payloads(fresh.receiveUntil("fence")), []string{}, "messages of the discarded session")
}

func redeliveryAfterCut(r *run, connect connect) {
	topic, name := r.topic("redelivered"), r.clientID("careless")
	publisher := connect(r, options{})
	careless := connect(r, options{clientID: name, persistent: true, manualAck: true})
	careless.subscribe(1, topic)
	sent := numbered(10, "message")
	publisher.publishAll(1, false, topic, sent...)
	first := careless.receiveMany(len(sent))
	careless.cut()
	back := connect(r, options{clientID: name, persistent: true})
	r.expect(back.sessionPresent(), "no session present after reconnection")
	for number, again := range back.receiveMany(len(sent)) {
		r.expect(again.payload == sent[number] && again.dup && again.packetID == first[number].packetID,
			"second delivery of %q: %q, DUP %v, packet id %d instead of %d",
			sent[number], again.payload, again.dup, again.packetID, first[number].packetID)
	}
}

func takeover(r *run, connect connect) {
	first := connect(r, options{clientID: r.clientID("twice")})
	connect(r, options{clientID: r.clientID("twice")})
	reason := first.closed()
	if _, isV5 := first.library.(*v5); isV5 {
		r.expectEqual(reason, byte(0x8E), "DISCONNECT reason code (session taken over)")
	}
}
