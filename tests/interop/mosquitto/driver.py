"""Tests a broker with mosquitto_pub, mosquitto_sub and mosquitto_rr, MQTT 3.1.1 and 5.0. See `--list`."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from commands import (  # noqa: E402
    TLS_FLAGS,
    VERSION_FLAGS,
    Subscriber,
    delete_retained,
    properties,
    publish,
    publish_lines,
)
from kit.driver import Context, expect, expect_balanced, expect_equal, let_pass, main  # noqa: E402

LARGE_PAYLOAD_BYTES = 1024 * 1024
MESSAGES = 100
SHARED_MESSAGES = 300


def keep_session(version: int) -> list[str]:
    return ["-c", "-x", "300"] if version == 5 else ["-c"]


def texts(messages: list) -> list[str]:
    return [message.payload.decode() for message in messages]


def roundtrip(qos: int) -> Callable[[Context, int], None]:
    def case(context: Context, version: int) -> None:
        topic = context.topic("roundtrip")
        subscriber = Subscriber(context, version, topic, qos=qos)
        expect_equal(subscriber.granted, [qos], "granted QoS")
        sent = [f"message {number}" for number in range(MESSAGES)]
        publish_lines(context, version, topic, [*sent, "fence"], qos)
        received = subscriber.receive_until(b"fence")
        expect_equal(texts(received), sent, "payloads")
        expect_equal({(message.qos, message.retain) for message in received}, {(qos, False)}, "(QoS, RETAIN)")

    return case


def qos_is_the_lower_of_both(context: Context, version: int) -> None:
    for granted in (0, 1, 2):
        topic = context.topic(f"granted/{granted}")
        subscriber = Subscriber(context, version, topic, qos=granted)
        for sent in (0, 1, 2):
            publish(context, version, topic, b"x", sent)
            expect_equal(subscriber.receive().qos, min(sent, granted), f"sent at QoS {sent}, granted {granted}")


def wildcards(context: Context, version: int) -> None:
    subscriber = Subscriber(context, version, context.topic("a/+/c"), context.topic("b/#"), qos=1)
    matching = ["a/x/c", "a//c", "b", "b/x", "b/x/y"]
    for suffix in [*matching, "a/c", "a/x/y/c", "bb", "fence", "b/fence"]:
        publish(context, version, context.topic(suffix), suffix)
    expect_equal(texts(subscriber.receive_until(b"b/fence")), matching, "topics")


def unsubscribe(context: Context, version: int) -> None:
    left, kept = context.topic("left"), context.topic("kept")
    subscriber = Subscriber(context, version, left, kept, qos=1, options=["-U", left])
    subscriber.await_line("received UNSUBACK")
    publish(context, version, left, b"unwanted")
    publish(context, version, kept, b"fence")
    expect_equal(texts(subscriber.receive_until(b"fence")), [], "messages after UNSUBACK")


def retained_on_subscribe(context: Context, version: int) -> None:
    topic = context.topic("retained")
    live = Subscriber(context, version, topic, qos=2)
    for qos in (0, 1, 2):
        publish(context, version, topic, f"value {qos}", qos, options=["-r"])
        message = live.receive()
        expect_equal((message.payload.decode(), message.retain), (f"value {qos}", False), "to a live subscription")
        message = Subscriber(context, version, context.topic("+"), qos=2).receive()
        expect_equal((message.topic, message.payload.decode(), message.qos, message.retain),
                     (topic, f"value {qos}", qos, True), "to a new subscription")


def retained_replace(context: Context, version: int) -> None:
    topic = context.topic("retained")
    publish_lines(context, version, topic, ["first", "second", "third"], options=["-r"])
    publish(context, version, topic, b"not retained")
    subscriber = Subscriber(context, version, topic, qos=1)
    publish(context, version, topic, b"fence")
    expect_equal(texts(subscriber.receive_until(b"fence")), ["third"], "retained messages")


def retained_delete(context: Context, version: int) -> None:
    topic = context.topic("retained")
    publish(context, version, topic, b"value", options=["-r"])
    live = Subscriber(context, version, topic, qos=1)
    expect_equal(live.receive().payload, b"value", "retained message before it is deleted")
    delete_retained(context, version, topic)
    message = live.receive()
    expect_equal((message.payload, message.retain), (b"", False), "the deletion, to a live subscription")
    late = Subscriber(context, version, topic, qos=1)
    publish(context, version, topic, b"fence")
    expect_equal(texts(late.receive_until(b"fence")), [], "retained messages after deletion")


def will_options(topic: str, qos: int = 1) -> list[str]:
    return ["--will-topic", topic, "--will-payload", "gone", "--will-qos", str(qos)]


def dying(context: Context, version: int, options: list[str], name: str = "dying") -> Subscriber:
    """A client with a will; mosquitto_sub must subscribe to something, so it has a topic of its own."""
    return Subscriber(context, version, context.topic(f"own/{name}"), client_id=context.client_id(name),
                      options=options)


def will_on_cut(context: Context, version: int) -> None:
    watcher = Subscriber(context, version, context.topic("will/+"), qos=2)
    for qos in (0, 1, 2):
        topic = context.topic(f"will/{qos}")
        dying(context, version, will_options(topic, qos), f"dying{qos}").kill()
        message = watcher.receive()
        expect_equal((message.topic, message.payload, message.qos, message.retain), (topic, b"gone", qos, False),
                     "will")


def will_retained(context: Context, version: int) -> None:
    topic = context.topic("will")
    watcher = Subscriber(context, version, topic, qos=1)
    dying(context, version, [*will_options(topic), "--will-retain"]).kill()
    message = watcher.receive()
    expect_equal((message.payload, message.retain), (b"gone", False), "will to a live subscription")
    message = Subscriber(context, version, topic, qos=1).receive()
    expect_equal((message.payload, message.retain), (b"gone", True), "will to a new subscription")


def no_will_on_disconnect(context: Context) -> None:
    topic = context.topic("will")
    watcher = Subscriber(context, 3, topic, qos=1)
    dying(context, 3, will_options(topic), "leaving").leave()
    # The same client id again: its CONNACK proves that the broker has closed the first connection.
    publish(context, 3, topic, b"fence", options=["-i", context.client_id("leaving")])
    expect_equal(texts(watcher.receive_until(b"fence")), [], "wills after DISCONNECT")


def shared_subscription(context: Context, version: int) -> None:
    topic = context.topic("work")
    share = f"$share/group-{context.tag}/{topic}"
    fences = [context.topic(f"fence/{number}") for number in range(3)]
    members = [Subscriber(context, version, share, fence, qos=1) for fence in fences]
    sent = [f"job {number}" for number in range(SHARED_MESSAGES)]
    publish_lines(context, version, topic, sent)
    received: list[list[str]] = []
    for member, fence in zip(members, fences, strict=True):
        publish(context, version, fence, b"fence")
        received.append(texts(member.receive_until(b"fence")))
    expect_balanced([len(share) for share in received], SHARED_MESSAGES)
    expect_equal(Counter(job for share in received for job in share), Counter(sent), "jobs")


def large_payload(context: Context, version: int) -> None:
    topic = context.topic("large")
    payload = random.Random(context.tag).randbytes(LARGE_PAYLOAD_BYTES)
    subscriber = Subscriber(context, version, topic, qos=2)
    for qos in (0, 1, 2):
        publish(context, version, topic, payload, qos)
        received = subscriber.receive().payload
        expect_equal(len(received), len(payload), "length in bytes")
        expect_equal(hashlib.sha256(received).hexdigest(), hashlib.sha256(payload).hexdigest(), "SHA-256")


def persistent_session(context: Context, version: int) -> None:
    return_after(context, version, Subscriber.leave)


def persistent_session_after_cut(context: Context, version: int) -> None:
    return_after(context, version, Subscriber.kill)


def return_after(context: Context, version: int, end: Callable[[Subscriber], None]) -> None:
    for qos in (1, 2):
        topic, name = context.topic(f"queued/{qos}"), context.client_id(f"away{qos}")
        end(Subscriber(context, version, topic, qos=qos, client_id=name, options=keep_session(version)))
        sent = [f"{qos}/{number}" for number in range(MESSAGES)]
        publish_lines(context, version, topic, sent, qos)
        # Another topic this time: messages on the first one can only come from the resumed session.
        back = Subscriber(context, version, context.topic("other"), qos=qos, client_id=name,
                          options=keep_session(version))
        publish(context, version, topic, b"fence", qos)
        received = back.receive_until(b"fence")
        expect_equal(texts(received), sent, f"QoS {qos} payloads")
        expect_equal({message.qos for message in received}, {qos}, "QoS")


def clean_session_discards(context: Context, version: int) -> None:
    topic, name = context.topic("queued"), context.client_id("away")
    Subscriber(context, version, topic, qos=1, client_id=name, options=keep_session(version)).leave()
    publish(context, version, topic, b"lost on purpose")
    fresh = Subscriber(context, version, context.topic("fence"), qos=1, client_id=name)
    publish(context, version, topic, b"not subscribed any more")
    publish(context, version, context.topic("fence"), b"fence")
    expect_equal(texts(fresh.receive_until(b"fence")), [], "messages of the discarded session")


def user_properties(context: Context) -> None:
    topic = context.topic("properties")
    subscriber = Subscriber(context, 5, topic, qos=2)
    publish(context, 5, topic, "text", 2, options=properties(
        "publish", user_property=[("b", "2"), ("a", "1"), ("b", "2")], content_type="text/plain"))
    message = subscriber.receive()
    expect_equal((message.user_properties, message.content_type), ("b:2 a:1 b:2", "text/plain"), "properties")


def request_response(context: Context) -> None:
    requests, responses = context.topic("requests"), context.topic("responses")
    answerer = Subscriber(context, 5, requests, qos=1)
    # mosquitto_rr subscribes to its response topic, sends the request, prints the first answer and exits.
    asker = subprocess.Popen(
        ["mosquitto_rr", "-h", context.host, "-p", str(context.port), *TLS_FLAGS, *VERSION_FLAGS[5], "-q", "1",
         "-t", requests, "-e", responses, "-m", "6 * 7", *properties("publish", correlation_data="corr-1")],
        stdout=subprocess.PIPE, text=True)
    context.cleanup.callback(asker.kill)
    request = answerer.receive()
    expect_equal((request.payload, request.response_topic, request.correlation_data),
                 (b"6 * 7", responses, "corr-1"), "request")
    publish(context, 5, request.response_topic, "42",
            options=properties("publish", correlation_data=request.correlation_data))
    output, _ = asker.communicate(timeout=context.remaining_s())
    expect_equal((output.strip(), asker.returncode), ("42", 0), "mosquitto_rr's (output, status)")


def message_expiry(context: Context) -> None:
    topic, gone, name = context.topic("expiring"), context.topic("gone"), context.client_id("away")
    watcher = Subscriber(context, 5, gone, qos=1)
    Subscriber(context, 5, topic, qos=1, client_id=name, options=[*keep_session(5), *will_options(gone)]).kill()
    # The will shows that the client is offline: from here on messages are queued, not sent.
    watcher.receive()
    publish(context, 5, topic, b"short-lived", options=properties("publish", message_expiry_interval="1"))
    publish(context, 5, topic, b"long-lived", options=properties("publish", message_expiry_interval="60"))
    publish(context, 5, topic, b"fence")
    let_pass(2.2)
    back = Subscriber(context, 5, context.topic("other"), qos=1, client_id=name, options=keep_session(5))
    received = back.receive_until(b"fence")
    expect_equal(texts(received), ["long-lived"], "messages left")
    expect(50 <= int(received[0].expiry_s) <= 58, f"not counted down: {received[0].expiry_s} of 60 s after 2.2 s")


def topic_alias(context: Context) -> None:
    topic = context.topic("alias")
    subscriber = Subscriber(context, 5, topic, qos=1)
    publish_lines(context, 5, topic, [str(number) for number in range(5)],
                  options=properties("publish", topic_alias="1"))
    expect_equal([(message.topic, message.payload.decode()) for message in subscriber.receive_many(5)],
                 [(topic, str(number)) for number in range(5)], "messages")


def subscription_identifiers(context: Context) -> None:
    topic = context.topic("a")
    subscriber = Subscriber(context, 5, topic, qos=1, options=properties("subscribe", subscription_identifier="77"))
    publish(context, 5, topic, b"x")
    expect_equal(subscriber.receive().subscription_identifiers, "77", "subscription identifiers")


def session_expiry(context: Context) -> None:
    topic, name = context.topic("queued"), context.client_id("expiring")
    Subscriber(context, 5, topic, qos=1, client_id=name, options=["-c", "-x", "1"]).kill()
    publish(context, 5, topic, b"queued, then dropped with the session")
    let_pass(2.5)
    late = Subscriber(context, 5, context.topic("fence"), qos=1, client_id=name, options=keep_session(5))
    publish(context, 5, topic, b"not subscribed any more")
    publish(context, 5, context.topic("fence"), b"fence")
    expect_equal(texts(late.receive_until(b"fence")), [], "messages of an expired session")


def disconnect_with_will(context: Context) -> None:
    topic = context.topic("will")
    watcher = Subscriber(context, 5, topic, qos=1)
    # In 5.0 mosquitto_sub disconnects with reason code 0x04, "disconnect with will message", if it has a will.
    leaving = dying(context, 5, [*will_options(topic), *keep_session(5)], "leaving")
    leaving.leave()
    expect_equal(watcher.receive().payload, b"gone", "will")


def will_delay(context: Context) -> None:
    topic = context.topic("will")
    watcher = Subscriber(context, 5, topic, qos=1)
    client = dying(context, 5, [*keep_session(5), *will_options(topic), *properties("will", will_delay_interval="1")])
    started = time.monotonic()
    client.kill()
    expect_equal(watcher.receive().payload, b"gone", "will")
    expect(time.monotonic() - started >= 0.9, "the will came before its delay of 1 s was over")


def will_properties(context: Context) -> None:
    topic = context.topic("will")
    watcher = Subscriber(context, 5, topic, qos=1)
    dying(context, 5, [*will_options(topic), *properties(
        "will", user_property=[("cause", "test")], content_type="text/plain", response_topic="answer/here",
        correlation_data="corr-1")]).kill()
    message = watcher.receive()
    expect_equal((message.user_properties, message.content_type, message.response_topic, message.correlation_data),
                 ("cause:test", "text/plain", "answer/here", "corr-1"), "will properties")


BOTH_VERSIONS: dict[str, Callable[[Context, int], None]] = {
    "qos0_roundtrip": roundtrip(0),
    "qos1_roundtrip": roundtrip(1),
    "qos2_roundtrip": roundtrip(2),
    "qos_is_the_lower_of_both": qos_is_the_lower_of_both,
    "wildcards": wildcards,
    "unsubscribe": unsubscribe,
    "retained_on_subscribe": retained_on_subscribe,
    "retained_replace": retained_replace,
    "retained_delete": retained_delete,
    "will_on_cut": will_on_cut,
    "will_retained": will_retained,
    "shared_subscription": shared_subscription,
    "large_payload": large_payload,
    "persistent_session": persistent_session,
    "persistent_session_after_cut": persistent_session_after_cut,
    "clean_session_discards": clean_session_discards,
}

V5_ONLY: dict[str, Callable[[Context], None]] = {
    "user_properties": user_properties,
    "request_response": request_response,
    "message_expiry": message_expiry,
    "topic_alias": topic_alias,
    "subscription_identifiers": subscription_identifiers,
    "session_expiry": session_expiry,
    "will_delay": will_delay,
    "will_properties": will_properties,
    "disconnect_with_will": disconnect_with_will,
}

CASES = {
    **{f"v3_{name}": partial(case, version=3) for name, case in BOTH_VERSIONS.items()},
    "v3_no_will_on_disconnect": no_will_on_disconnect,
    **{f"v5_{name}": partial(case, version=5) for name, case in BOTH_VERSIONS.items()},
    **{f"v5_{name}": case for name, case in V5_ONLY.items()},
}

if __name__ == "__main__":
    sys.exit(main(CASES))
