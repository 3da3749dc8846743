"""Queued messages: of offline sessions, and of clients that never acknowledge."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import messages
import peer
import wire
from arena import MIB, Arena, Failed, case
from messages import Message, Publisher, Subscriber
from peer import drive

MANY = 1 << 30
# Only memory is the limit.
DEEP_QUEUES: dict[str, object] = {"limits.session_queue_messages": 10**9, "limits.session_queue_bytes": 1 << 40}
ABSENT_SESSIONS = 10
PLACES = 40


def drop_old(arena: Arena) -> None:
    topics = [f"old/{number}" for number in range(ABSENT_SESSIONS)]
    for topic in topics:
        peer.absent_session(arena.port, topic, [topic])
    keys = itertools.count(1)
    small = (Message(next(keys), topic) for topic in topics for _ in range(PLACES))
    # Each replaces a small one.
    large = (Message(next(keys), topic, MIB) for _ in range(PLACES) for topic in topics)
    last = (Message(MANY + number, topic) for number, topic in enumerate(topics))
    publisher = Publisher(peer.connected(arena.port, "publisher"), 1, itertools.chain(small, large, last))
    messages.flood([publisher])
    messages.is_honest(arena, [publisher])
    for number, topic in enumerate(topics):
        # The operator has chosen to drop older messages for newer ones; the newest must not be dropped.
        messages.come_back_for_all(arena, topic, topic, publisher.acknowledged & {MANY + number})


OLD: dict[str, object] = {**DEEP_QUEUES, "limits.slow_consumer": "drop_old"}
WHAT = "drop_old: messages of 1 MiB replace small ones in ten queues"
case(WHAT, name="drop_old_1_mib", limit_mib=1, short=True, settings=OLD)(drop_old)
case(WHAT, name="drop_old_8_mib", limit_mib=8, settings=OLD)(drop_old)


@case("a subscriber at QoS 1 reads 60 messages of 8 MiB and acknowledges none", limit_mib=1, short=True, settings=DEEP_QUEUES)
def window_never_acknowledged(arena: Arena) -> None:
    silent = _silent_with_window(arena, 65_535)
    client = peer.connected(arena.port, "publisher")
    acknowledged: set[int] = set()
    for key in range(60):
        publisher = Publisher(client, 1, [Message(key, "window", 8 * MIB)])
        messages.flood([publisher], [silent.peer])
        messages.is_honest(arena, [publisher])
        if client.closed:
            break
        if publisher.acknowledged:
            acknowledged.add(key)
            # Its output is empty again: the messages are held by the window.
            drive([silent.peer], lambda: key in silent.received, peer.ANSWER_TIMEOUT_S, messages.SILENCE_S)
    client.close()
    silent.peer.close()
    back = messages.returned(arena.port, "silent")
    messages.drain(arena, back, "window")
    messages.check_delivered(arena, acknowledged, silent.received | back.received, "who came back")


def _silent_with_window(arena: Arena, receive_maximum: int) -> Subscriber:
    client = peer.connected(
        arena.port, "silent", clean=False, expiry_s=wire.FOR_EVER_S, receive_maximum=receive_maximum
    )
    return Subscriber(peer.subscribed(client, ["window"]), silent=True)


@case("a window of many small messages, none of them acknowledged", limit_mib=8, settings={
    **DEEP_QUEUES, "limits.in_flight_per_client": 65_535,
})
def small_windows_never_acknowledged(arena: Arena) -> None:
    silent = _silent_with_window(arena, 65_535)
    publisher = Publisher(
        peer.connected(arena.port, "publisher"), 1, (Message(key, "window", 2_000) for key in range(60_000)), window=500
    )
    messages.flood([publisher], [silent.peer])
    messages.is_honest(arena, [publisher])
    publisher.peer.close()
    silent.peer.close()
    back = messages.returned(arena.port, "silent")
    messages.drain(arena, back, "window")
    messages.check_delivered(arena, publisher.acknowledged, silent.received | back.received, "who came back")


def payloads_in_many_queues(arena: Arena, size: int, others: bool) -> None:
    """Four messages, each in the queues of 17 offline sessions: a payload counts once."""
    clients = [f"shared/{number}" for number in range(17)]
    for client in clients:
        peer.absent_session(arena.port, client, ["shared"])
    publisher = Publisher(
        peer.connected(arena.port, "publisher"), 1, (Message(key, "shared", size) for key in range(1, 5)), window=1
    )
    messages.flood([publisher])
    arena.expect(
        publisher.acknowledged == {1, 2, 3, 4},
        f"four payloads of {size} bytes fit, but {len(publisher.acknowledged)} were accepted: {publisher.refused}",
    )
    messages.stranger_is_served(arena, "after that")
    for number, client in enumerate(clients):
        if others or not number:
            back = messages.returned(arena.port, client)
            drive([back.peer], lambda: publisher.acknowledged <= back.received, peer.ANSWER_TIMEOUT_S, messages.SILENCE_S)
            back.peer.close()
            if not messages.check_delivered(arena, publisher.acknowledged, back.received, client):
                return


@case("four messages of 16.7 MB, each in 17 queues, at the default limit", limit_mib=1024)
def shared_payloads_at_1_gib(arena: Arena) -> None:
    payloads_in_many_queues(arena, 16_700_000, others=False)


@case("four messages of 6 MB, each in 17 queues: they fit when each is counted once", limit_mib=64, short=True)
def shared_payloads_at_64_mib(arena: Arena) -> None:
    payloads_in_many_queues(arena, 6_000_000, others=True)


LEVELS = 14


@case("16,384 overlapping filters with identifiers: 64 KB of them for each message of a few bytes", limit_mib=64, settings={
    **DEEP_QUEUES,
})
def subscription_identifiers(arena: Arena) -> None:
    overlapping_filters(arena, LEVELS, 3_000)


@case("1,024 overlapping filters with identifiers, and messages of a few bytes", limit_mib=16, short=True, settings={
    **DEEP_QUEUES,
})
def subscription_identifiers_short(arena: Arena) -> None:
    overlapping_filters(arena, 10, 30_000)


def overlapping_filters(arena: Arena, levels: int, count: int) -> None:
    topic = "/".join(["a"] * levels)
    client = peer.connected(arena.port, "overlapping", clean=False, expiry_s=wire.FOR_EVER_S)
    refused = 0
    for identifier, each in enumerate(overlapping(levels), 1):
        client.send(wire.subscribe([each], packet_id=identifier & 0x7FFF or 1, identifier=identifier))
    for _ in range(1 << levels):
        refused += client.expect(wire.SUBACK).body[-1] >= wire.FIRST_ERROR
    peer.goodbye(client)
    if refused:
        arena.note(f"{refused} filters were refused")
    if refused == 1 << levels:
        raise Failed("no filter was granted")
    publisher = Publisher(
        peer.connected(arena.port, "publisher"), 1, (Message(key, topic) for key in range(count)), window=500
    )
    messages.flood([publisher])
    messages.is_honest(arena, [publisher])
    publisher.peer.close()
    messages.come_back_for_all(arena, "overlapping", topic, publisher.acknowledged)


def overlapping(levels: int) -> Iterator[str]:
    """Yields all filters without `#` that match the topic."""
    return ("/".join(each) for each in itertools.product("a+", repeat=levels))


@case("queued messages of a few bytes with 60 KB of Response Topic and 60 KB of Correlation Data", limit_mib=8, settings=DEEP_QUEUES)
def large_properties_in_queues(arena: Arena) -> None:
    peer.absent_session(arena.port, "absent", ["requests"])
    properties = b"\x08" + wire.text(b"r" * 60_000) + b"\x09" + wire.text(b"c" * 60_000)
    publisher = Publisher(
        peer.connected(arena.port, "publisher"), 1,
        (Message(key, "requests", properties=properties) for key in range(2_000)),
    )
    messages.flood([publisher])
    messages.is_honest(arena, [publisher])
    publisher.peer.close()
    messages.come_back_for_all(arena, "absent", "requests", publisher.acknowledged)


@case("QoS 2 messages that are never released, from a hundred sessions", limit_mib=8, settings={"mqtt.receive_maximum": 65_535})
def unreleased_identifiers(arena: Arena) -> None:
    for number in range(100):
        client = peer.connected(arena.port, f"unreleased-{number}", clean=False, expiry_s=wire.FOR_EVER_S)
        client.send(b"".join(wire.publish("t", b"", qos=2, packet_id=packet_id) for packet_id in range(1, 20_001)))
        client.send(wire.PING)
        drive([client], lambda: client.closed or bool(client.packets and client.packets[-1].type == wire.PINGRESP),
              peer.ANSWER_TIMEOUT_S)
        client.close()
    messages.stranger_is_served(arena, "beside a hundred sessions with unreleased identifiers")


OVER_BYTES = 40_000
REFUSED_CPU_MAX_MS = 20.0
PUBLISHES = 10
# `limits.memory_bytes_per_client` is at its minimum, so that two messages exceed the share of a session.
SHARE: dict[str, object] = {**DEEP_QUEUES, "limits.memory_bytes_per_client": 65_536, "limits.sessions": 100_000}


def over_their_share(arena: Arena, sessions: int) -> None:
    """Offline sessions that hold more than their share of memory: the cost of a publish to them, and the effect on others."""
    for number in range(sessions):
        peer.absent_session(arena.port, f"over/{number}", ["over"])
    client = peer.connected(arena.port, "publisher")
    keys = itertools.count(1)
    crossing = [Message(next(keys), "over", OVER_BYTES) for _ in range(2)]
    publisher = Publisher(client, 1, crossing, window=1)
    messages.flood([publisher])
    arena.expect(len(publisher.acknowledged) == 2, f"the first two were not accepted: {publisher.refused}")
    arena.begin()
    before_ns = arena.broker.cpu_ns()
    further = Publisher(client, 1, [Message(next(keys), "over") for _ in range(PUBLISHES)], window=1)
    messages.flood([further])
    used_ms = (arena.broker.cpu_ns() - before_ns) / PUBLISHES / 1e6
    arena.note(f"{used_ms:.2f} ms of CPU for each publish to {sessions} sessions over their share")
    arena.expect(not further.acknowledged, "a message was accepted for sessions over their share")
    arena.expect(used_ms <= REFUSED_CPU_MAX_MS, f"a publish took {used_ms:.1f} ms of CPU, at most {REFUSED_CPU_MAX_MS}")


@case("60,000 offline sessions over their share of memory", limit_mib=1024, timed=True, settings=SHARE)
def sessions_over_their_share(arena: Arena) -> None:
    over_their_share(arena, 60_000)


@case("1,000 offline sessions over their share of memory", limit_mib=1024, timed=True, short=True, settings=SHARE)
def some_sessions_over_their_share(arena: Arena) -> None:
    over_their_share(arena, 1_000)
