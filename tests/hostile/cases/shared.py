"""Members of shared subscriptions that are stuck, slow or gone: acknowledged messages go to another member, or publishers are
slowed down."""

from __future__ import annotations

from collections.abc import Iterator

import messages
import peer
import wire
from arena import MIB, Arena, case
from messages import Message, Publisher, Subscriber
from peer import drive

SHARE = "$share/crew/work"
MANY = 1_000
# Messages must not be held in the members' own queues.
SMALL_QUEUES: dict[str, object] = {"limits.session_queue_messages": 100}


def member(arena: Arena, name: str, receive_maximum: int | None = None, silent: bool = False, lasts: bool = False) -> Subscriber:
    client = peer.connected(
        arena.port, name, clean=not lasts, expiry_s=wire.FOR_EVER_S if lasts else 0, receive_maximum=receive_maximum
    )
    subscriber = Subscriber(peer.subscribed(client, [SHARE]), silent)
    # Messages may have arrived together with SUBACK.
    for taken in client.packets:
        subscriber.take(taken)
    return subscriber


def work(count: int = MANY, size: int = 100) -> Iterator[Message]:
    return (Message(key, "work", size) for key in range(count))


def publish(arena: Arena, messages_of: Iterator[Message], others: list[Subscriber], version: int = 5) -> Publisher:
    publisher = Publisher(peer.connected(arena.port, f"publisher-{version}", version=version), 1, messages_of)
    messages.flood([publisher], [each.peer for each in others])
    messages.is_honest(arena, [publisher])
    return publisher


def heard(members: list[Subscriber]) -> set[int]:
    return set().union(*(each.received for each in members))


def await_all(arena: Arena, publisher: Publisher, members: list[Subscriber], within_s: float = peer.ANSWER_TIMEOUT_S) -> None:
    alive = [each.peer for each in members]
    drive(alive, lambda: publisher.acknowledged <= heard(members), within_s)
    messages.check_delivered(arena, publisher.acknowledged, heard(members), "the group")


@case("1,000 messages for two members, one of which reads one and acknowledges nothing", limit_mib=8, short=True, settings=SMALL_QUEUES)
def shared_stuck_member(arena: Arena) -> None:
    stuck = member(arena, "stuck", receive_maximum=1, silent=True)
    idle = member(arena, "idle")
    publisher = publish(arena, work(), [stuck, idle])
    arena.expect(len(publisher.acknowledged) == MANY, f"{len(publisher.acknowledged)} of {MANY} messages were accepted")
    await_all(arena, publisher, [stuck, idle])
    arena.expect(len(stuck.received) <= 1, f"the stuck member got {len(stuck.received)} messages")


@case("messages of a stuck member go to another one after mqtt.shared_ack_timeout_s", limit_mib=8, short=True, threads=3, settings={
    **SMALL_QUEUES, "mqtt.shared_ack_timeout_s": 1,
})
def shared_redispatch(arena: Arena) -> None:
    stuck = member(arena, "stuck", receive_maximum=50, silent=True)
    publisher = publish(arena, work(200), [stuck])
    drive([stuck.peer], lambda: len(stuck.received) == 50, peer.ANSWER_TIMEOUT_S)
    idle = member(arena, "idle")
    await_all(arena, publisher, [idle])


@case("slow members with Receive Maximum 1 share the load of a fast publisher", limit_mib=8, short=True, threads=3, settings=SMALL_QUEUES)
def shared_slow_members(arena: Arena) -> None:
    members = [member(arena, f"slow-{number}", receive_maximum=1) for number in range(5)]
    publisher = publish(arena, work(), members)
    arena.expect(len(publisher.acknowledged) == MANY, f"{len(publisher.acknowledged)} of {MANY} messages were accepted")
    await_all(arena, publisher, members)
    fewest = min(len(each.received) for each in members)
    arena.expect(fewest > 0, "a member got nothing")


@case("members leave with unacknowledged messages: by DISCONNECT, by UNSUBSCRIBE and by closing the connection", limit_mib=8, short=True,
      threads=3, settings=SMALL_QUEUES)
def shared_leaving_members(arena: Arena) -> None:
    leaving = [member(arena, f"leaving-{number}", receive_maximum=20, silent=True) for number in range(3)]
    stays = member(arena, "stays", receive_maximum=1, lasts=True)
    publisher = publish(arena, work(), [*leaving, stays])
    disconnects, unsubscribes, is_cut = leaving
    peer.goodbye(disconnects.peer)
    unsubscribes.peer.send(wire.unsubscribe([SHARE], version=5))
    drive([unsubscribes.peer, stays.peer], lambda: False, 0.5)
    unsubscribes.peer.close()
    is_cut.peer.close()
    await_all(arena, publisher, [stays])


def full(arena: Arena, version: int) -> None:
    name = f"absent-{version}"
    client = peer.connected(arena.port, name, clean=False, expiry_s=wire.FOR_EVER_S)
    peer.goodbye(peer.subscribed(client, [SHARE]))
    publisher = publish(arena, work(size=4_000), [], version)
    taken = len(publisher.acknowledged)
    arena.expect(100 < taken < MANY, f"{taken} of {MANY} messages of 4,000 bytes were accepted into a queue of 1 MiB")
    arena.expect(version != 5 or taken + len(publisher.refused) == MANY, "some messages have no answer")
    publisher.peer.close()
    back = messages.returned(arena.port, name)
    await_all(arena, publisher, [back])


FULL: dict[str, object] = {**SMALL_QUEUES, "limits.shared_queue_bytes": MIB}


@case("no member reads: a publisher of 5.0 is refused when the group's queue is full", limit_mib=16, short=True, settings=FULL)
def shared_full_queue(arena: Arena) -> None:
    full(arena, 5)


@case("the same with a publisher of 3.1.1, which is not read from", limit_mib=16, short=True, settings=FULL)
def shared_full_queue_3_1_1(arena: Arena) -> None:
    full(arena, 4)
