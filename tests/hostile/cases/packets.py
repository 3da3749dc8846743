"""Packets that are never completed."""

from __future__ import annotations

import messages
import peer
import wire
from arena import MIB, Arena, case
from peer import Peer, Unanswered, send_all

ATTACKERS = 60
PART_BYTES = 15 * MIB
# After this time without a byte the broker accepts no more.
STALL_S = 1.0
_PART = memoryview(bytes(PART_BYTES))


def incomplete(arena: Arena, attackers: list[Peer], head: bytes) -> None:
    """All attackers send the start of a packet whose last byte is never sent."""
    for attacker in attackers:
        attacker.send(head, _PART)
    send_all(attackers, peer.ANSWER_TIMEOUT_S, STALL_S)
    arena.note(f"{sum(attacker.has_sent() and not attacker.closed for attacker in attackers)} of {len(attackers)} could send "
               f"{PART_BYTES // MIB} MiB, {sum(attacker.closed for attacker in attackers)} were cut off")
    messages.stranger_is_served(arena, "beside incomplete packets")


@case("60 clients send 15 MiB of a PUBLISH each, and stop", limit_mib=8, short=True)
def incomplete_publishes(arena: Arena) -> None:
    attackers = [peer.connected(arena.port, f"incomplete-{number}") for number in range(ATTACKERS)]
    incomplete(arena, attackers, wire.publish_head("t", PART_BYTES + 1))


@case("60 clients send 15 MiB of a SUBSCRIBE each, and stop", limit_mib=8)
def incomplete_subscribes(arena: Arena) -> None:
    attackers = [peer.connected(arena.port, f"incomplete-{number}") for number in range(ATTACKERS)]
    incomplete(arena, attackers, wire.header(wire.SUBSCRIBE, 2, PART_BYTES + 1))


@case("60 connections send 15 MiB of a CONNECT each, and stop: they are not authenticated yet", limit_mib=8)
def incomplete_connects(arena: Arena) -> None:
    start = wire.text("MQTT") + b"\x05\x06\x00\x00\x00" + wire.text("never") + wire.variable(PART_BYTES)
    incomplete(arena, [Peer(arena.port) for _ in range(ATTACKERS)], wire.header(wire.CONNECT, 0, PART_BYTES + 100) + start)


@case("5,000 clients send half a packet of 2,000 bytes each, and stop", limit_mib=8)
def small_incomplete_publishes(arena: Arena) -> None:
    attackers: list[Peer] = []
    for number in range(5_000):
        try:
            attackers.append(peer.connected(arena.port, f"incomplete-{number}"))
        except Unanswered:
            # The number of connections is limited, too.
            arena.note(f"{number} clients were accepted")
            break
    for attacker in attackers:
        attacker.send(wire.publish_head("t", 4_000), _PART[:2_000])
    send_all(attackers)
    messages.stranger_is_served(arena, "beside incomplete packets")
