package main

import (
	"fmt"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// v5Only are cases that need MQTT 5.0.
var v5Only = []testCase{
	{"user_properties", userProperties},
	{"request_response", requestResponse},
	{"message_expiry", messageExpiry},
	{"topic_alias", topicAlias},
	{"subscription_identifiers", subscriptionIdentifiers},
	{"reason_codes", reasonCodes},
	{"assigned_client_id", assignedClientID},
	{"session_expiry", sessionExpiry},
	{"will_delay", willDelay},
	{"will_properties", willProperties},
	{"disconnect_with_will", disconnectWithWill},
	{"no_local", noLocal},
	{"retain_as_published", retainAsPublished},
	{"retain_handling", retainHandling},
	{"receive_maximum", receiveMaximum},
}

func userProperties(r *run) {
	topic := r.topic("properties")
	pairs := paho.UserProperties{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}, {Key: "b", Value: "2"}, {Key: "ключ", Value: "значение"}}
	subscriber, publisher := connectV5(r, options{}), connectV5(r, options{})
	subscriber.subscribe(2, topic)
	for qos := range byte(3) {
		publisher.asV5().publishWith(&paho.Publish{Topic: topic, QoS: qos, Payload: []byte("text"), Properties: &paho.PublishProperties{
			User: pairs, ContentType: "text/plain", PayloadFormat: paho.Byte(1),
		}})
		got := subscriber.receive().properties
		r.expectEqual(got.User, pairs, "user properties, in order")
		r.expectEqual(got.ContentType, "text/plain", "content type")
		r.expect(got.PayloadFormat != nil && *got.PayloadFormat == 1, "the payload format indicator is missing")
	}
}

func requestResponse(r *run) {
	requests, responses := r.topic("requests"), r.topic("responses")
	asker, answerer := connectV5(r, options{}), connectV5(r, options{})
	answerer.subscribe(1, requests)
	asker.subscribe(1, responses)
	correlation := []byte{0, 1, 254, 255}
	asker.asV5().publishWith(&paho.Publish{Topic: requests, QoS: 1, Payload: []byte("6 * 7"), Properties: &paho.PublishProperties{
		ResponseTopic: responses, CorrelationData: correlation,
	}})
	request := answerer.receive().properties
	r.expectEqual(request.ResponseTopic, responses, "response topic")
	answerer.asV5().publishWith(&paho.Publish{Topic: request.ResponseTopic, QoS: 1, Payload: []byte("42"), Properties: &paho.PublishProperties{
		CorrelationData: request.CorrelationData,
	}})
	response := asker.receive()
	r.expectEqual(response.payload, "42", "response")
	r.expectEqual(response.properties.CorrelationData, correlation, "correlation data")
}

func messageExpiry(r *run) {
	topic, gone, name := r.topic("expiring"), r.topic("gone"), r.clientID("away")
	publisher, watcher := connectV5(r, options{}), connectV5(r, options{})
	watcher.subscribe(1, gone)
	away := connectV5(r, options{clientID: name, persistent: true, will: &will{topic: gone, qos: 1}})
	away.subscribe(1, topic)
	away.cut()
	// The will shows that the client is offline: from here on messages are queued, not sent.
	watcher.receive()
	for payload, expiryS := range map[string]uint32{"short-lived": 1, "long-lived": 60} {
		publisher.asV5().publishWith(&paho.Publish{Topic: topic, QoS: 1, Payload: []byte(payload), Properties: &paho.PublishProperties{
			MessageExpiry: &expiryS,
		}})
	}
	publisher.publish(topic, "fence", 1)
	r.letPass(2200 * time.Millisecond)
	received := connectV5(r, options{clientID: name, persistent: true}).receiveUntil("fence")
	r.expectEqual(payloads(received), []string{"long-lived"}, "messages left")
	left := received[0].properties.MessageExpiry
	r.expect(left != nil && *left >= 50 && *left <= 58, "the expiry interval of 60 s was not counted down")
}

func topicAlias(r *run) {
	topics := []string{r.topic("alias/one"), r.topic("alias/two")}
	subscriber, publisher := connectV5(r, options{}), connectV5(r, options{})
	maximum := publisher.asV5().connack.Properties.TopicAliasMaximum
	r.expect(maximum != nil && *maximum >= 2, "the broker accepts fewer than two topic aliases")
	subscriber.subscribe(1, r.topic("alias/+"))
	var sent, received []string
	for index, topic := range topics {
		for _, name := range []string{topic, ""} {
			publisher.asV5().publishWith(&paho.Publish{Topic: name, QoS: 1, Payload: []byte("x"), Properties: &paho.PublishProperties{
				TopicAlias: paho.Uint16(uint16(index + 1)),
			}})
			sent = append(sent, topic)
		}
	}
	for _, each := range subscriber.receiveMany(len(sent)) {
		received = append(received, each.topic)
	}
	r.expectEqual(received, sent, "topics")
}

func subscriptionIdentifiers(r *run) {
	subscriber, publisher := connectV5(r, options{}), connectV5(r, options{})
	// paho.golang returns only one identifier of a message, so each topic here matches one subscription.
	for name, identifier := range map[string]int{"a": 7, "b": 268_435_455} {
		subscriber.asV5().subscribeWith(&paho.SubscribeProperties{SubscriptionIdentifier: &identifier},
			paho.SubscribeOptions{Topic: r.topic(name), QoS: 1})
		publisher.publish(r.topic(name), "x", 1)
		got := subscriber.receive().properties.SubscriptionIdentifier
		r.expect(got != nil && *got == identifier, "subscription identifier %d is missing", identifier)
	}
}

func reasonCodes(r *run) {
	peer := connectV5(r, options{})
	granted := peer.asV5().subscribeWith(nil,
		paho.SubscribeOptions{Topic: r.topic("2"), QoS: 2},
		paho.SubscribeOptions{Topic: r.topic("0"), QoS: 0},
		paho.SubscribeOptions{Topic: r.topic("1"), QoS: 1})
	r.expectEqual(granted, []byte{2, 0, 1}, "SUBACK reason codes")
	r.expectEqual(peer.unsubscribe(r.topic("1"), r.topic("never")), []byte{0x00, 0x11}, "UNSUBACK reason codes")
	for _, qos := range []byte{1, 2} {
		reason := peer.asV5().publishWith(&paho.Publish{Topic: r.topic("nobody"), QoS: qos})
		r.expect(reason == 0x00 || reason == 0x10, "reason code of a QoS %d publish to nobody: %#x", qos, reason)
	}
}

func assignedClientID(r *run) {
	first := connectV5(r, options{}).asV5().connack.Properties.AssignedClientID
	second := connectV5(r, options{}).asV5().connack.Properties.AssignedClientID
	r.expect(first != "" && second != "", "an assigned client identifier is empty")
	r.expect(first != second, "two clients were assigned the same identifier")
}

func sessionExpiry(r *run) {
	kept := options{clientID: r.clientID("expiring"), persistent: true}
	connectV5(r, kept).disconnect()
	second := connectV5(r, kept)
	r.expect(second.sessionPresent(), "no session present within its expiry interval")
	second.asV5().disconnectWith(&paho.Disconnect{Properties: &paho.DisconnectProperties{SessionExpiryInterval: paho.Uint32(0)}})
	brief := kept
	brief.v5.connect.SessionExpiryInterval = paho.Uint32(1)
	third := connectV5(r, brief)
	r.expect(!third.sessionPresent(), "session present after DISCONNECT ended it")
	third.cut()
	r.letPass(2500 * time.Millisecond)
	r.expect(!connectV5(r, kept).sessionPresent(), "session present after its expiry interval")
}

func willDelay(r *run) {
	topic := r.topic("will")
	watcher := connectV5(r, options{})
	watcher.subscribe(1, topic)
	dying := connectV5(r, options{
		clientID: r.clientID("dying"), persistent: true, will: &will{topic: topic, qos: 1},
		v5: v5Options{will: &paho.WillProperties{WillDelayInterval: paho.Uint32(1)}},
	})
	started := time.Now()
	dying.cut()
	r.expectEqual(watcher.receive().payload, willPayload, "will")
	r.expect(time.Since(started) >= 900*time.Millisecond, "the will came before its delay of 1 s was over")
}

func willProperties(r *run) {
	topic := r.topic("will")
	watcher := connectV5(r, options{})
	watcher.subscribe(1, topic)
	// Of a will's properties paho.golang sends only the user properties and the delay.
	pairs := paho.UserProperties{{Key: "cause", Value: "test"}, {Key: "cause", Value: "again"}}
	connectV5(r, options{will: &will{topic: topic, qos: 1}, v5: v5Options{will: &paho.WillProperties{User: pairs}}}).cut()
	r.expectEqual(watcher.receive().properties.User, pairs, "user properties of the will")
}

func disconnectWithWill(r *run) {
	topic := r.topic("will")
	watcher := connectV5(r, options{})
	watcher.subscribe(1, topic)
	leaving := connectV5(r, options{will: &will{topic: topic, qos: 1}})
	leaving.asV5().disconnectWith(&paho.Disconnect{ReasonCode: 0x04})
	r.expectEqual(watcher.receive().payload, willPayload, "will")
}

func noLocal(r *run) {
	topic := r.topic("local")
	peer, other := connectV5(r, options{}), connectV5(r, options{})
	peer.asV5().subscribeWith(nil, paho.SubscribeOptions{Topic: topic, QoS: 1, NoLocal: true})
	peer.publish(topic, "own", 1)
	other.publish(topic, "fence", 1)
	r.expectEqual(payloads(peer.receiveUntil("fence")), []string{}, "own messages")
}

func retainAsPublished(r *run) {
	topic := r.topic("retained")
	kept, cleared, publisher := connectV5(r, options{}), connectV5(r, options{}), connectV5(r, options{})
	kept.asV5().subscribeWith(nil, paho.SubscribeOptions{Topic: topic, QoS: 1, RetainAsPublished: true})
	cleared.asV5().subscribeWith(nil, paho.SubscribeOptions{Topic: topic, QoS: 1})
	for _, retain := range []bool{true, false} {
		publisher.publishAll(1, retain, topic, "value")
		r.expectEqual([]bool{kept.receive().retain, cleared.receive().retain}, []bool{retain, false}, "RETAIN flags")
	}
}

func retainHandling(r *run) {
	topic := r.topic("retained")
	publisher := connectV5(r, options{})
	publisher.retain(topic, "value", 1)
	// The retained messages after a first and a second SUBSCRIBE with each Retain Handling.
	want := [][][]string{{{"value"}, {"value"}}, {{"value"}, {}}, {{}, {}}}
	for handling := range byte(3) {
		subscriber := connectV5(r, options{})
		var brought [][]string
		for range 2 {
			subscriber.asV5().subscribeWith(nil, paho.SubscribeOptions{Topic: topic, QoS: 1, RetainHandling: handling})
			publisher.publish(topic, "fence", 1)
			brought = append(brought, payloads(subscriber.receiveUntil("fence")))
		}
		r.expectEqual(brought, want[handling], fmt.Sprintf("retained messages with Retain Handling %d", handling))
	}
}

func receiveMaximum(r *run) {
	topic, fence := r.topic("flow"), r.topic("fence")
	publisher := connectV5(r, options{})
	subscriber := connectV5(r, options{manualAck: true, v5: v5Options{connect: paho.ConnectProperties{ReceiveMaximum: paho.Uint16(3)}}})
	subscriber.subscribe(1, topic)
	subscriber.subscribe(0, fence)
	sent := numbered(10, "message")
	publisher.publishAll(1, false, topic, sent...)
	// QoS 0 is not subject to the receive maximum, so the fence overtakes messages that wait.
	publisher.publish(fence, "fence", 0)
	unacknowledged := subscriber.receiveUntil("fence")
	r.expectEqual(payloads(unacknowledged), sent[:3], "messages sent without an acknowledgement")
	for _, each := range unacknowledged {
		each.acknowledge()
	}
	for _, want := range sent[3:] {
		next := subscriber.receive()
		r.expectEqual(next.payload, want, "message after the acknowledgements")
		next.acknowledge()
	}
}
