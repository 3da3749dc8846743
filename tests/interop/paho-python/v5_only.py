"""Cases that need MQTT 5.0."""

from __future__ import annotations

import time
from collections.abc import Callable

from both_versions import KEEP_SESSION, persistent
from kit.driver import Context, expect, expect_equal, let_pass
from paho.mqtt.subscribeoptions import SubscribeOptions
from peer import V5, Peer, Will, payloads

DISCONNECT_WITH_WILL_MESSAGE = 0x04
NO_SUBSCRIPTION_EXISTED = 0x11
SUCCESS_OR_NO_MATCHING_SUBSCRIBERS = (0x00, 0x10)


def user_properties(context: Context) -> None:
    topic = context.topic("properties")
    pairs = [("b", "2"), ("a", "1"), ("b", "2"), ("ключ", "значение")]
    subscriber, publisher = Peer(context, V5), Peer(context, V5)
    subscriber.subscribe(topic, 2)
    for qos in (0, 1, 2):
        publisher.publish(topic, "text", qos, properties={
            "UserProperty": pairs, "ContentType": "text/plain", "PayloadFormatIndicator": 1,
        })
        properties = subscriber.receive().properties
        expect_equal(properties.UserProperty, pairs, "user properties, in order")
        expect_equal((properties.ContentType, properties.PayloadFormatIndicator), ("text/plain", 1),
                     "(content type, payload format)")


def request_response(context: Context) -> None:
    requests, responses = context.topic("requests"), context.topic("responses")
    asker, answerer = Peer(context, V5), Peer(context, V5)
    answerer.subscribe(requests, 1)
    asker.subscribe(responses, 1)
    correlation = bytes(range(256))
    asker.publish(requests, b"6 * 7", 1, properties={"ResponseTopic": responses, "CorrelationData": correlation})
    request = answerer.receive().properties
    expect_equal(request.ResponseTopic, responses, "response topic")
    answerer.publish(request.ResponseTopic, b"42", 1, properties={"CorrelationData": request.CorrelationData})
    response = asker.receive()
    expect_equal((response.payload, response.properties.CorrelationData), (b"42", correlation), "response")


def message_expiry(context: Context) -> None:
    topic, gone = context.topic("expiring"), context.topic("gone")
    publisher, watcher = Peer(context, V5), Peer(context, V5)
    watcher.subscribe(gone, 1)
    subscriber = persistent(context, V5, "away", will=Will(gone, b"gone"))
    subscriber.subscribe(topic, 1)
    subscriber.cut()
    # The will shows that the client is offline: from here on messages are queued, not sent.
    watcher.receive()
    publisher.publish(topic, b"short-lived", 1, properties={"MessageExpiryInterval": 1})
    publisher.publish(topic, b"long-lived", 1, properties={"MessageExpiryInterval": 60})
    publisher.publish(topic, b"fence", 1)
    let_pass(2.2)
    received = persistent(context, V5, "away").receive_until(b"fence")
    expect_equal(payloads(received), ["long-lived"], "messages left")
    left_s = received[0].properties.MessageExpiryInterval
    expect(50 <= left_s <= 58, f"the expiry interval was not counted down: {left_s} of 60 s after 2.2 s")


def retained_expiry(context: Context) -> None:
    topic = context.topic("expiring")
    publisher, subscriber = Peer(context, V5), Peer(context, V5)
    publisher.publish(topic, b"short-lived", 1, retain=True, properties={"MessageExpiryInterval": 1})
    let_pass(2.2)
    subscriber.subscribe(topic, 1)
    publisher.publish(topic, b"fence", 1)
    expect_equal(payloads(subscriber.receive_until(b"fence")), [], "expired retained messages")


def topic_alias(context: Context) -> None:
    topics = [context.topic("alias/one"), context.topic("alias/two")]
    subscriber, publisher = Peer(context, V5), Peer(context, V5)
    maximum = getattr(publisher.connack.properties, "TopicAliasMaximum", 0)
    expect(maximum >= 2, f"topic alias maximum of the broker is {maximum}")
    subscriber.subscribe(context.topic("alias/+"), 1)
    for alias, topic in enumerate(topics, start=1):
        publisher.publish(topic, b"named", 1, properties={"TopicAlias": alias})
        publisher.publish("", b"alias only", 1, properties={"TopicAlias": alias})
    # An alias may be reassigned to another topic at any time.
    publisher.publish(topics[1], b"named", 1, properties={"TopicAlias": 1})
    publisher.publish("", b"alias only", 1, properties={"TopicAlias": 1})
    want = [(topic, payload) for topic in (*topics, topics[1]) for payload in (b"named", b"alias only")]
    expect_equal([(message.topic, message.payload) for message in subscriber.receive_many(6)], want, "messages")


def subscription_identifiers(context: Context) -> None:
    topic = context.topic("a/b")
    subscriber, publisher = Peer(context, V5), Peer(context, V5)
    subscriber.subscribe(context.topic("a/+"), 1, identifier=7)
    subscriber.subscribe(context.topic("a/#"), 1, identifier=268_435_455)
    subscriber.subscribe(context.topic("+/b"), 1)
    publisher.publish(topic, b"both", 1)
    publisher.publish(topic, b"fence", 1)
    copies = subscriber.receive_until(b"fence")
    identifiers = [sorted(getattr(message.properties, "SubscriptionIdentifier", [])) for message in copies]
    expect_equal(identifiers, [[7, 268_435_455]], "identifiers of each copy")


def reason_codes(context: Context) -> None:
    topic = context.topic("reasons")
    peer = Peer(context, V5)
    expect_equal(peer.subscribe_many([(context.topic(str(qos)), qos) for qos in (2, 0, 1)]), [2, 0, 1],
                 "SUBACK reason codes")
    expect_equal(peer.unsubscribe(context.topic("1"), context.topic("never")), [0, NO_SUBSCRIPTION_EXISTED],
                 "UNSUBACK reason codes")
    for qos in (1, 2):
        reason = peer.publish(topic, b"to nobody", qos)
        expect(reason in SUCCESS_OR_NO_MATCHING_SUBSCRIBERS, f"reason code of a QoS {qos} publish: {reason:#x}")
        expect_equal(peer.publish(context.topic("0"), b"to one", qos), 0, f"reason code of a QoS {qos} publish")


def assigned_client_id(context: Context) -> None:
    first, second = (Peer(context, V5, "").connack.properties.AssignedClientIdentifier for _ in range(2))
    expect(first and second, "an assigned client identifier is empty")
    expect(first != second, "two clients were assigned the same identifier")


def session_expiry(context: Context) -> None:
    first = persistent(context, V5, "expiring")
    first.disconnect()
    second = persistent(context, V5, "expiring")
    expect(second.connack.session_present, "no session present within its expiry interval")
    second.disconnect({"SessionExpiryInterval": 0})
    third = Peer(context, V5, context.client_id("expiring"), clean=False, properties={"SessionExpiryInterval": 1})
    expect(not third.connack.session_present, "session present after DISCONNECT ended it")
    third.cut()
    let_pass(2.5)
    fourth = persistent(context, V5, "expiring")
    expect(not fourth.connack.session_present, "session present after its expiry interval")


def will_delay(context: Context) -> None:
    topic = context.topic("will")
    watcher = Peer(context, V5)
    watcher.subscribe(topic, 1)
    dying = persistent(context, V5, "dying", will=Will(topic, b"gone", properties={"WillDelayInterval": 1}))
    started = time.monotonic()
    dying.cut()
    expect_equal(watcher.receive().payload, b"gone", "will")
    expect(time.monotonic() - started >= 0.9, "the will came before its delay of 1 s was over")


def will_delay_cancelled(context: Context) -> None:
    topic = context.topic("will")
    watcher = Peer(context, V5)
    watcher.subscribe(topic, 1)
    persistent(context, V5, "back", will=Will(topic, b"gone", properties={"WillDelayInterval": 1})).cut()
    back = persistent(context, V5, "back")
    let_pass(2.2)
    back.publish(topic, b"fence", 1)
    expect_equal(payloads(watcher.receive_until(b"fence")), [], "wills though the client came back in time")


def will_delay_ends_with_session(context: Context) -> None:
    topic = context.topic("will")
    watcher = Peer(context, V5)
    watcher.subscribe(topic, 1)
    # No session expiry interval: the session ends with the connection, and the will is due then.
    Peer(context, V5, will=Will(topic, b"gone", properties={"WillDelayInterval": 3600})).cut()
    expect_equal(watcher.receive().payload, b"gone", "will")


def will_properties(context: Context) -> None:
    topic = context.topic("will")
    watcher = Peer(context, V5)
    watcher.subscribe(topic, 1)
    Peer(context, V5, will=Will(topic, b"gone", properties={
        "UserProperty": [("cause", "test")], "ContentType": "text/plain", "MessageExpiryInterval": 60,
        "ResponseTopic": "answer/here", "CorrelationData": b"\x00\xff",
    })).cut()
    properties = watcher.receive().properties
    expect_equal(
        (properties.UserProperty, properties.ContentType, properties.ResponseTopic, properties.CorrelationData),
        ([("cause", "test")], "text/plain", "answer/here", b"\x00\xff"),
        "will properties",
    )
    expect(50 <= properties.MessageExpiryInterval <= 60, "message expiry interval of the will")


def disconnect_with_will(context: Context) -> None:
    topic = context.topic("will")
    watcher = Peer(context, V5)
    watcher.subscribe(topic, 1)
    leaving = Peer(context, V5, will=Will(topic, b"gone"))
    leaving.disconnect(reason=DISCONNECT_WITH_WILL_MESSAGE)
    expect_equal(watcher.receive().payload, b"gone", "will")


def no_local(context: Context) -> None:
    topic = context.topic("local")
    peer, other = Peer(context, V5), Peer(context, V5)
    peer.subscribe(topic, options=SubscribeOptions(qos=1, noLocal=True))
    peer.publish(topic, b"own", 1)
    other.publish(topic, b"fence", 1)
    expect_equal(payloads(peer.receive_until(b"fence")), [], "own messages")


def retain_as_published(context: Context) -> None:
    topic = context.topic("retained")
    kept, cleared, publisher = (Peer(context, V5) for _ in range(3))
    kept.subscribe(topic, options=SubscribeOptions(qos=1, retainAsPublished=True))
    cleared.subscribe(topic, options=SubscribeOptions(qos=1, retainAsPublished=False))
    for retain in (True, False):
        publisher.publish(topic, b"value", 1, retain=retain)
        expect_equal((kept.receive().retain, cleared.receive().retain), (retain, False), "RETAIN flags")


def retain_handling(context: Context) -> None:
    topic = context.topic("retained")
    publisher = Peer(context, V5)
    publisher.publish(topic, b"value", 1, retain=True)
    # The retained messages after a first and a second SUBSCRIBE with each Retain Handling.
    for handling, want in ((0, [["value"], ["value"]]), (1, [["value"], []]), (2, [[], []])):
        subscriber = Peer(context, V5)
        brought = []
        for _ in range(2):
            subscriber.subscribe(topic, options=SubscribeOptions(qos=1, retainHandling=handling))
            publisher.publish(topic, b"fence", 1)
            brought.append(payloads(subscriber.receive_until(b"fence")))
        expect_equal(brought, want, f"retained messages with Retain Handling {handling}")


def receive_maximum(context: Context) -> None:
    topic, fence = context.topic("flow"), context.topic("fence")
    publisher = Peer(context, V5)
    subscriber = Peer(context, V5, manual_ack=True, properties={"ReceiveMaximum": 3})
    subscriber.subscribe_many([(topic, 1), (fence, 0)])
    sent = [str(number) for number in range(10)]
    publisher.publish_all([(topic, payload) for payload in sent], 1)
    # QoS 0 is not subject to the receive maximum, so the fence overtakes messages that wait.
    publisher.publish(fence, b"fence", 0)
    unacknowledged = subscriber.receive_until(b"fence")
    expect_equal(payloads(unacknowledged), sent[:3], "messages sent without an acknowledgement")
    for message in unacknowledged:
        subscriber.acknowledge(message)
    rest = []
    while len(rest) < 7:
        rest.append(subscriber.receive())
        subscriber.acknowledge(rest[-1])
    expect_equal(payloads(rest), sent[3:], "messages after the acknowledgements")


def session_without_expiry_ends(context: Context) -> None:
    name = context.client_id("short")
    Peer(context, V5, name, clean=False).disconnect()
    again = Peer(context, V5, name, clean=False, properties=KEEP_SESSION)
    expect(not again.connack.session_present, "session present though its expiry interval was 0")


CASES: dict[str, Callable[[Context], None]] = {
    "user_properties": user_properties,
    "request_response": request_response,
    "message_expiry": message_expiry,
    "retained_expiry": retained_expiry,
    "topic_alias": topic_alias,
    "subscription_identifiers": subscription_identifiers,
    "reason_codes": reason_codes,
    "assigned_client_id": assigned_client_id,
    "session_expiry": session_expiry,
    "session_without_expiry_ends": session_without_expiry_ends,
    "will_delay": will_delay,
    "will_delay_cancelled": will_delay_cancelled,
    "will_delay_ends_with_session": will_delay_ends_with_session,
    "will_properties": will_properties,
    "disconnect_with_will": disconnect_with_will,
    "no_local": no_local,
    "retain_as_published": retain_as_published,
    "retain_handling": retain_handling,
    "receive_maximum": receive_maximum,
}
