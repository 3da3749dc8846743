"""Output that has been generated for clients but not written yet."""

from __future__ import annotations

import signal

import messages
import peer
import wire
from arena import MIB, Arena, case
from peer import drive, send_all

RECEIVERS = 2_000
PUBLISHERS = 100
# The broker copies payloads up to this size into each output.
COPIED_BYTES = 4_000
ROUNDS = 3


def explode(arena: Arena, reading: bool) -> None:
    """All publishers are read in one turn: the broker is stopped for the milliseconds in which they send."""
    receivers = [peer.connected(arena.port, f"receiver-{number}") for number in range(RECEIVERS)]
    for receiver in receivers:
        receiver.send(wire.subscribe(["burst"], qos=0))
    for receiver in receivers:
        receiver.expect(wire.SUBACK)
        receiver.discarding, receiver.reading = True, reading
    publishers = [peer.connected(arena.port, f"publisher-{number}") for number in range(PUBLISHERS)]
    packet = wire.publish("burst", bytes(COPIED_BYTES))
    for _ in range(ROUNDS):
        for publisher in publishers:
            publisher.send(packet)
        arena.broker.signal(signal.SIGSTOP)
        try:
            for publisher in publishers:
                publisher.write()
        finally:
            arena.broker.signal(signal.SIGCONT)
        send_all(publishers)
        for publisher in publishers:
            publisher.send(wire.PING)
        drive([*publishers, *receivers], lambda: all(publisher.packets or publisher.closed for publisher in publishers),
              peer.ANSWER_TIMEOUT_S)
        for publisher in publishers:
            publisher.packets.clear()
    arena.note(f"{sum(receiver.received_bytes for receiver in receivers) // MIB} MiB have arrived at {RECEIVERS} receivers")
    messages.stranger_is_served(arena, "beside a fan-out")


@case("100 publishers at once, 2,000 receivers who read: output before its first write", limit_mib=8, short=True)
def fan_out_burst(arena: Arena) -> None:
    explode(arena, reading=True)


@case("100 publishers at once, 2,000 receivers who do not read", limit_mib=8)
def fan_out_burst_unread(arena: Arena) -> None:
    explode(arena, reading=False)


@case("clients that send requests and never read the answers", limit_mib=8)
def answers_unread(arena: Arena) -> None:
    askers = [peer.connected(arena.port, f"asker-{number}") for number in range(20)]
    questions = memoryview(wire.PING * (4 * MIB))
    for asker in askers:
        asker.reading = False
        asker.send(questions)
    send_all(askers, peer.ANSWER_TIMEOUT_S, 1.0)
    messages.stranger_is_served(arena, "beside clients who read no answers")


@case("20 MiB of retained messages, requested by 500 clients who do not read", limit_mib=8, settings={"limits.retained_bytes": 32 * MIB})
def retained_unread(arena: Arena) -> None:
    publisher = peer.connected(arena.port, "publisher")
    for number in range(20):
        publisher.send(wire.publish(f"kept/{number}", bytes(MIB), retain=True))
    publisher.settle()
    askers = [peer.connected(arena.port, f"asker-{number}") for number in range(500)]
    for asker in askers:
        asker.reading = False
        asker.send(wire.subscribe(["kept/#"], qos=1))
    send_all(askers, peer.ANSWER_TIMEOUT_S, 1.0)
    messages.stranger_is_served(arena, "beside unread retained messages")
