"""Cases that mean the same in MQTT 3.1.1 and 5.0; each takes the version to speak."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable

from kit.driver import Context, expect, expect_balanced, expect_equal
from peer import V5, Peer, Will, payloads

LARGE_PAYLOAD_BYTES = 1024 * 1024
MESSAGES = 100
SHARED_MESSAGES = 300

# Requests a persistent session: in 5.0 it needs an expiry interval.
KEEP_SESSION = {"SessionExpiryInterval": 300}


def persistent(context: Context, version: int, name: str, **options: object) -> Peer:
    return Peer(context, version, context.client_id(name), clean=False, properties=KEEP_SESSION, **options)


def roundtrip(qos: int) -> Callable[[Context, int], None]:
    def case(context: Context, version: int) -> None:
        topic = context.topic("roundtrip")
        subscriber, publisher = Peer(context, version), Peer(context, version)
        expect_equal(subscriber.subscribe(topic, qos), qos, "granted QoS")
        sent = [f"message {number}" for number in range(MESSAGES)]
        publisher.publish_all([(topic, payload) for payload in sent], qos)
        publisher.publish(topic, b"fence", qos)
        received = subscriber.receive_until(b"fence")
        expect_equal(payloads(received), sent, "payloads")
        expect_equal({(message.qos, message.retain, message.dup) for message in received}, {(qos, False, False)},
                     "(QoS, RETAIN, DUP)")

    return case


def qos_is_the_lower_of_both(context: Context, version: int) -> None:
    publisher = Peer(context, version)
    for granted in (0, 1, 2):
        topic = context.topic(f"granted/{granted}")
        subscriber = Peer(context, version)
        subscriber.subscribe(topic, granted)
        for sent in (0, 1, 2):
            publisher.publish(topic, b"x", sent)
            expect_equal(subscriber.receive().qos, min(sent, granted), f"sent at QoS {sent}, granted {granted}")


def wildcards(context: Context, version: int) -> None:
    subscriber, publisher = Peer(context, version), Peer(context, version)
    subscriber.subscribe_many([(context.topic("a/+/c"), 1), (context.topic("b/#"), 1)])
    matching = ["a/x/c", "a//c", "b", "b/x", "b/x/y"]
    for suffix in [*matching, "a/c", "a/x/y/c", "bb", "fence", "b/fence"]:
        publisher.publish(context.topic(suffix), suffix.encode(), 1)
    expect_equal(payloads(subscriber.receive_until(b"b/fence")), matching, "topics")


def overlapping_subscriptions(context: Context, version: int) -> None:
    subscriber, publisher = Peer(context, version), Peer(context, version)
    subscriber.subscribe(context.topic("a/#"), 0)
    subscriber.subscribe(context.topic("a/+"), 2)
    subscriber.subscribe(context.topic("a/b"), 1)
    publisher.publish(context.topic("a/b"), b"once", 2)
    publisher.publish(context.topic("a/b"), b"fence", 2)
    received = subscriber.receive_until(b"fence")
    expect_equal([(message.payload, message.qos) for message in received], [(b"once", 2)], "copies")


def unsubscribe(context: Context, version: int) -> None:
    left, kept = context.topic("left"), context.topic("kept")
    subscriber, publisher = Peer(context, version), Peer(context, version)
    subscriber.subscribe_many([(left, 1), (kept, 1)])
    subscriber.unsubscribe(left)
    publisher.publish(left, b"unwanted", 1)
    publisher.publish(kept, b"fence", 1)
    expect_equal(payloads(subscriber.receive_until(b"fence")), [], "messages after UNSUBACK")


def retained_on_subscribe(context: Context, version: int) -> None:
    topic = context.topic("retained")
    live, publisher = Peer(context, version), Peer(context, version)
    live.subscribe(topic, 2)
    for qos in (0, 1, 2):
        publisher.publish(topic, f"value {qos}", qos, retain=True)
        message = live.receive()
        expect_equal((message.payload.decode(), message.retain), (f"value {qos}", False), "to a live subscription")
        late = Peer(context, version)
        late.subscribe(context.topic("+"), 2)
        message = late.receive()
        expect_equal(
            (message.topic, message.payload.decode(), message.qos, message.retain),
            (topic, f"value {qos}", qos, True),
            "to a new subscription",
        )


def retained_replace(context: Context, version: int) -> None:
    topic = context.topic("retained")
    publisher, subscriber = Peer(context, version), Peer(context, version)
    for value in (b"first", b"second", b"third"):
        publisher.publish(topic, value, 1, retain=True)
    publisher.publish(topic, b"not retained", 1)
    subscriber.subscribe(topic, 1)
    publisher.publish(topic, b"fence", 1)
    expect_equal(payloads(subscriber.receive_until(b"fence")), ["third"], "retained messages")


def retained_delete(context: Context, version: int) -> None:
    topic = context.topic("retained")
    publisher, live, late = (Peer(context, version) for _ in range(3))
    publisher.publish(topic, b"value", 1, retain=True)
    live.subscribe(topic, 1)
    expect_equal(live.receive().payload, b"value", "retained message before it is deleted")
    publisher.publish(topic, b"", 1, retain=True)
    message = live.receive()
    expect_equal((message.payload, message.retain), (b"", False), "the deletion, to a live subscription")
    late.subscribe(topic, 1)
    publisher.publish(topic, b"fence", 1)
    expect_equal(payloads(late.receive_until(b"fence")), [], "retained messages after deletion")


def will_on_cut(context: Context, version: int) -> None:
    watcher = Peer(context, version)
    watcher.subscribe(context.topic("will/+"), 2)
    for qos in (0, 1, 2):
        topic = context.topic(f"will/{qos}")
        dying = Peer(context, version, context.client_id(f"dying{qos}"), will=Will(topic, b"gone", qos))
        dying.cut()
        message = watcher.receive()
        expect_equal((message.topic, message.payload, message.qos, message.retain), (topic, b"gone", qos, False),
                     "will")


def will_retained(context: Context, version: int) -> None:
    topic = context.topic("will")
    watcher = Peer(context, version)
    watcher.subscribe(topic, 1)
    Peer(context, version, context.client_id("dying"), will=Will(topic, b"gone", retain=True)).cut()
    message = watcher.receive()
    expect_equal((message.payload, message.retain), (b"gone", False), "will to a live subscription")
    late = Peer(context, version)
    late.subscribe(topic, 1)
    message = late.receive()
    expect_equal((message.payload, message.retain), (b"gone", True), "will to a new subscription")


def no_will_on_disconnect(context: Context, version: int) -> None:
    topic, name = context.topic("will"), context.client_id("leaving")
    watcher = Peer(context, version)
    watcher.subscribe(topic, 1)
    Peer(context, version, name, will=Will(topic, b"gone")).disconnect()
    # The same client id again: its CONNACK proves that the broker has closed the first connection.
    Peer(context, version, name).publish(topic, b"fence", 1)
    expect_equal(payloads(watcher.receive_until(b"fence")), [], "wills after DISCONNECT")


def will_on_keep_alive_timeout(context: Context, version: int) -> None:
    topic = context.topic("will")
    watcher = Peer(context, version)
    watcher.subscribe(topic, 1)
    started = time.monotonic()
    # Without its network loop the client never sends a PINGREQ, yet its socket stays open.
    Peer(context, version, context.client_id("silent"), keep_alive_s=1, will=Will(topic, b"gone"), network_loop=False)
    expect_equal(watcher.receive().payload, b"gone", "will")
    expect(time.monotonic() - started >= 1.0, "closed before the keep alive interval was over")


def shared_subscription(context: Context, version: int) -> None:
    topic = context.topic("work/+")
    members = [Peer(context, version) for _ in range(3)]
    outsider, publisher = Peer(context, version), Peer(context, version)
    for member in members:
        member.subscribe(f"$share/group-{context.tag}/{topic}", 1)
    outsider.subscribe(topic, 1)
    sent = [(context.topic(f"work/{number % 7}"), f"job {number}") for number in range(SHARED_MESSAGES)]
    publisher.publish_all(sent, 1)
    # Each member gets the fence by a subscription of its own, after all earlier messages.
    for member in members:
        member.subscribe(context.topic("work/fence"), 1)
    for member in members:
        member.unsubscribe(f"$share/group-{context.tag}/{topic}")
    publisher.publish(context.topic("work/fence"), b"fence", 1)
    shares = [payloads(member.receive_until(b"fence")) for member in members]
    expect_balanced([len(share) for share in shares], SHARED_MESSAGES)
    expect_equal(Counter(job for share in shares for job in share), Counter(payload for _, payload in sent), "jobs")
    expect_equal(payloads(outsider.receive_until(b"fence")), [payload for _, payload in sent],
                 "an ordinary subscription beside the group")


def shared_subscription_member_leaves(context: Context, version: int) -> None:
    topic = context.topic("work")
    share = f"$share/group-{context.tag}/{topic}"
    # The leaving member acknowledges nothing, so all its messages are still in flight.
    leaving = Peer(context, version, context.client_id("leaving"), manual_ack=True)
    staying, publisher = Peer(context, version), Peer(context, version)
    leaving.subscribe(share, 1)
    publisher.publish_all([(topic, f"job {number}") for number in range(10)], 1)
    expect_equal(len(leaving.receive_many(10)), 10, "messages in flight")
    staying.subscribe(share, 1)
    leaving.cut()
    received = Counter(payloads(staying.receive_many(10)))
    expect_equal(received, Counter(f"job {number}" for number in range(10)), "jobs handed on")


def large_payload(context: Context, version: int) -> None:
    topic = context.topic("large")
    payload = random.Random(context.tag).randbytes(LARGE_PAYLOAD_BYTES)
    subscriber, publisher = Peer(context, version), Peer(context, version)
    subscriber.subscribe(topic, 2)
    for qos in (0, 1, 2):
        publisher.publish(topic, payload, qos)
        received = subscriber.receive().payload
        expect_equal(len(received), len(payload), "length in bytes")
        expect_equal(hashlib.sha256(received).hexdigest(), hashlib.sha256(payload).hexdigest(), "SHA-256")


def persistent_session(context: Context, version: int) -> None:
    topics = {qos: context.topic(f"queued/{qos}") for qos in (1, 2)}
    publisher, subscriber = Peer(context, version), persistent(context, version, "away")
    expect(not subscriber.connack.session_present, "session present on the first connection")
    subscriber.subscribe_many([(topic, qos) for qos, topic in topics.items()])
    subscriber.disconnect()
    sent = {qos: [f"{qos}/{number}" for number in range(MESSAGES)] for qos in topics}
    for qos, topic in topics.items():
        publisher.publish_all([(topic, payload) for payload in sent[qos]], qos)
    subscriber = persistent(context, version, "away")
    expect(subscriber.connack.session_present, "no session present after reconnection")
    publisher.publish(topics[1], b"live", 1)
    publisher.publish(topics[2], b"live", 2)
    received = subscriber.receive_many(2 * MESSAGES + 2)
    for qos, topic in topics.items():
        here = [message for message in received if message.topic == topic]
        expect_equal(payloads(here), [*sent[qos], "live"], f"QoS {qos} payloads, queued then live")
        expect_equal({message.qos for message in here}, {qos}, "QoS")


def clean_session_discards(context: Context, version: int) -> None:
    topic = context.topic("queued")
    publisher, subscriber = Peer(context, version), persistent(context, version, "away")
    subscriber.subscribe(topic, 1)
    subscriber.disconnect()
    publisher.publish(topic, b"lost on purpose", 1)
    fresh = Peer(context, version, context.client_id("away"), clean=True)
    expect(not fresh.connack.session_present, "session present after a clean start")
    fresh.subscribe(context.topic("fence"), 1)
    publisher.publish(topic, b"not subscribed any more", 1)
    publisher.publish(context.topic("fence"), b"fence", 1)
    expect_equal(payloads(fresh.receive_until(b"fence")), [], "messages of the discarded session")


def redelivery_after_cut(context: Context, version: int) -> None:
    topic = context.topic("redelivered")
    publisher = Peer(context, version)
    subscriber = persistent(context, version, "careless", manual_ack=True)
    subscriber.subscribe(topic, 1)
    sent = [str(number) for number in range(10)]
    publisher.publish_all([(topic, payload) for payload in sent], 1)
    first = subscriber.receive_many(10)
    expect_equal(payloads(first), sent, "first delivery")
    subscriber.cut()
    subscriber = persistent(context, version, "careless")
    expect(subscriber.connack.session_present, "no session present after reconnection")
    again = subscriber.receive_many(10)
    expect_equal([(message.payload.decode(), message.dup, message.mid) for message in again],
                 [(message.payload.decode(), True, message.mid) for message in first],
                 "(payload, DUP, packet id) of the second delivery")


def takeover(context: Context, version: int) -> None:
    first = Peer(context, version, context.client_id("twice"))
    Peer(context, version, context.client_id("twice"))
    reason = first.wait_closed()
    if version == V5:
        expect_equal(reason, 0x8E, "DISCONNECT reason code (session taken over)")


def empty_client_id(context: Context, version: int) -> None:
    first, second = Peer(context, version, ""), Peer(context, version, "")
    topic = context.topic("anonymous")
    first.subscribe(topic, 1)
    second.publish(topic, b"hello", 1)
    expect_equal(first.receive().payload, b"hello", "payload")


CASES: dict[str, Callable[[Context, int], None]] = {
    "qos0_roundtrip": roundtrip(0),
    "qos1_roundtrip": roundtrip(1),
    "qos2_roundtrip": roundtrip(2),
    "qos_is_the_lower_of_both": qos_is_the_lower_of_both,
    "wildcards": wildcards,
    "overlapping_subscriptions": overlapping_subscriptions,
    "unsubscribe": unsubscribe,
    "retained_on_subscribe": retained_on_subscribe,
    "retained_replace": retained_replace,
    "retained_delete": retained_delete,
    "will_on_cut": will_on_cut,
    "will_retained": will_retained,
    "no_will_on_disconnect": no_will_on_disconnect,
    "will_on_keep_alive_timeout": will_on_keep_alive_timeout,
    "shared_subscription": shared_subscription,
    "shared_subscription_member_leaves": shared_subscription_member_leaves,
    "large_payload": large_payload,
    "persistent_session": persistent_session,
    "clean_session_discards": clean_session_discards,
    "redelivery_after_cut": redelivery_after_cut,
    "takeover": takeover,
    "empty_client_id": empty_client_id,
}
