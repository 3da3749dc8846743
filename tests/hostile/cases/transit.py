"""Messages in transit to a slow thread."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import messages
import peer
import wire
from arena import MIB, Arena, Failed, case
from cases.queues import DEEP_QUEUES
from messages import Message, Publisher
from peer import Peer, send_all

SLOW_THREAD = "shard-1"
PINGS = 200
CANDIDATES = 40
# With so many busy processes on its CPU, the slow thread gets about a hundredth of it.
SPINNERS = 4


@contextmanager
def slowed(arena: Arena) -> Iterator[None]:
    """Runs one thread of the broker at the lowest priority, on a busy CPU."""
    thread = arena.broker.thread(SLOW_THREAD)
    processors = os.sched_getaffinity(0)
    if len(processors) < 2:
        arena.skip("slowing down one thread requires two CPUs")
        raise Failed("slowing down one thread requires two CPUs")
    crowded = {max(processors)}
    spinners = []
    try:
        for _ in range(SPINNERS):
            spinners.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            os.sched_setaffinity(spinners[-1].pid, crowded)
        os.sched_setaffinity(thread, crowded)
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
        if arena.broker.is_running():
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(thread, processors)


def is_on_slow_thread(arena: Arena, client: Peer) -> bool:
    """Whether that thread wakes up for each of the client's packets."""
    thread = arena.broker.thread(SLOW_THREAD)
    before = arena.broker.switches(thread)
    for _ in range(PINGS):
        client.settle()
    return arena.broker.switches(thread) - before > PINGS * 3 // 4


def placed(arena: Arena, name: str, slow: bool) -> str:
    """Returns an identifier whose client is on the slow thread, or on the other one."""
    for number in range(CANDIDATES):
        client = peer.connected(arena.port, f"{name}-{number}")
        found = is_on_slow_thread(arena, client) == slow
        peer.goodbye(client)
        if found:
            return f"{name}-{number}"
    raise Failed("all clients are on one thread")


@case("QoS 0 messages of 4 MiB for a slow thread", limit_mib=16, threads=2, short=True)
def transit_qos_0(arena: Arena) -> None:
    subscriber = peer.connected(arena.port, placed(arena, "subscriber", slow=True))
    peer.subscribed(subscriber, ["transit"], qos=0).discarding = True
    publisher = peer.connected(arena.port, placed(arena, "publisher", slow=False))
    # More at a time than one client can have queued.
    payload = memoryview(bytes(4 * MIB))
    with slowed(arena):
        for _ in range(150):
            publisher.send(wire.publish_head("transit", len(payload)), payload)
        send_all([publisher, subscriber], idle_s=messages.HELD_BACK_S)
    publisher.close()
    subscriber.close()
    messages.stranger_is_served(arena, "after messages between threads")


@case("QoS 1 messages of 4 MiB for a session on a slow thread", limit_mib=16, threads=2, settings=DEEP_QUEUES)
def transit_qos_1(arena: Arena) -> None:
    name = placed(arena, "subscriber", slow=True)
    peer.absent_session(arena.port, name, ["transit"])
    publishers = []
    for number in range(4):
        client = peer.connected(arena.port, placed(arena, f"publisher-{number}", slow=False))
        publishers.append(Publisher(
            client, 1, (Message(key, "transit", 4 * MIB) for key in range(number * 40, number * 40 + 40)), window=16
        ))
    with slowed(arena):
        messages.flood(publishers)
    messages.is_honest(arena, publishers)
    acknowledged = messages.acknowledged_by(publishers)
    arena.note(f"{len(acknowledged)} of 160 messages were acknowledged with success")
    for publisher in publishers:
        publisher.peer.close()
    messages.come_back_for_all(arena, name, "transit", acknowledged)


@case("100,000 small messages for a slow thread", limit_mib=16, threads=2, settings=DEEP_QUEUES)
def transit_small(arena: Arena) -> None:
    name = placed(arena, "subscriber", slow=True)
    peer.absent_session(arena.port, name, ["transit"])
    client = peer.connected(arena.port, placed(arena, "publisher", slow=False))
    publisher = Publisher(client, 1, (Message(key, "transit", 300) for key in range(100_000)), window=1_000)
    with slowed(arena):
        messages.flood([publisher])
    messages.is_honest(arena, [publisher])
    publisher.peer.close()
    messages.come_back_for_all(arena, name, "transit", publisher.acknowledged)
