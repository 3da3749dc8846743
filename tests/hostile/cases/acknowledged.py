"""An acknowledged QoS 1 or 2 message is not dropped because memory is short, in any protocol version."""

from __future__ import annotations

import messages
import peer
from arena import Arena, case
from cases.queues import DEEP_QUEUES
from messages import Message, Publisher

SESSIONS = 8


def flood_absent(arena: Arena, versions: list[int], count: int, size: int) -> None:
    """One publisher for each QoS and version; all of them publish to every session."""
    for number in range(SESSIONS):
        peer.absent_session(arena.port, f"absent-{number}", [f"flood/{number}"], qos=2, version=versions[number % len(versions)])
    publishers, of_topic = [], {}
    for place, (version, qos) in enumerate((version, qos) for version in versions for qos in (1, 2)):
        first = place * count
        for key in range(first, first + count):
            of_topic[key] = key % SESSIONS
        publishers.append(Publisher(
            peer.connected(arena.port, f"publisher-{place}", version=version), qos,
            (Message(key, f"flood/{of_topic[key]}", size) for key in range(first, first + count)),
        ))
    messages.flood(publishers)
    messages.is_honest(arena, publishers)
    acknowledged = messages.acknowledged_by(publishers)
    arena.expect(bool(acknowledged), "no message was accepted")
    arena.note(f"{len(acknowledged)} of {len(of_topic)} messages were acknowledged with success")
    for publisher in publishers:
        publisher.peer.close()
    for number in range(SESSIONS):
        own = {key for key in acknowledged if of_topic[key] == number}
        version = versions[number % len(versions)]
        messages.come_back_for_all(arena, f"absent-{number}", f"flood/{number}", own, version)


@case("publishers of 5.0 at QoS 1 and 2 flood offline sessions", limit_mib=8, short=True, settings=DEEP_QUEUES)
def acknowledged_v5(arena: Arena) -> None:
    flood_absent(arena, [5], 1_000, 32_000)


@case("publishers of 3.1.1 at QoS 1 and 2 flood offline sessions", limit_mib=8, short=True, settings=DEEP_QUEUES)
def acknowledged_v3(arena: Arena) -> None:
    flood_absent(arena, [4], 1_000, 32_000)


@case("publishers of 3.1.1 and 5.0 on two threads flood offline sessions", limit_mib=8, threads=2, settings=DEEP_QUEUES)
def acknowledged_across_threads(arena: Arena) -> None:
    flood_absent(arena, [4, 5], 1_000, 32_000)


@case("small messages flood offline sessions: the overhead of each besides its payload", limit_mib=8, settings=DEEP_QUEUES)
def acknowledged_small(arena: Arena) -> None:
    flood_absent(arena, [5], 60_000, 16)


@case("the same at the smallest limit, 1 MiB", limit_mib=1, settings=DEEP_QUEUES)
def acknowledged_1_mib(arena: Arena) -> None:
    flood_absent(arena, [4, 5], 1_000, 8_000)
