"""Wills: the memory that a CONNECT occupies until the connection ends."""

from __future__ import annotations

from collections.abc import Callable

import messages
import peer
import wire
from arena import MIB, Arena, case
from peer import Peer, drive

PROPERTY_TEXT = b"p" * 65_000


def connect_all(arena: Arena, count: int, packet: Callable[[int], bytes], version: int = 5) -> tuple[list[Peer], list[int | None]]:
    """Connects one after the other; the clients stay connected. Returns them with the answers: `None` if there was none."""
    clients, answers = [], []
    for number in range(count):
        client = Peer(arena.port, version)
        client.send(packet(number))
        drive([client], lambda: bool(client.packets) or client.closed, peer.ANSWER_TIMEOUT_S)
        answers.append(client.packets.popleft().body[1] if client.packets else None)
        clients.append(client)
    return clients, answers


def will_of(number: int, pairs: int) -> bytes:
    properties = wire.user_property(PROPERTY_TEXT, PROPERTY_TEXT) * pairs
    return wire.connect(f"will-{number}", will=wire.Will(f"wills/{number}", b"gone", properties))


@case("40 clients with wills of 7.8 MB of user properties", limit_mib=8, short=True)
def large_wills(arena: Arena) -> None:
    _, answers = connect_all(arena, 40, lambda number: will_of(number, 60))
    # A packet as large as the memory limit may be cut off before it is complete.
    arena.expect(set(answers) <= {wire.SUCCESS, wire.QUOTA_EXCEEDED, None}, f"CONNACK with {set(answers)}")
    arena.expect(answers.count(wire.SUCCESS) * 60 * 130_000 <= 8 * MIB, f"{answers.count(wire.SUCCESS)} wills were accepted")
    messages.stranger_is_served(arena, "beside large wills")


@case("200 clients with wills of 260 KB: those beyond the limit get CONNACK 0x97", limit_mib=8, short=True)
def many_wills(arena: Arena) -> None:
    clients, answers = connect_all(arena, 200, lambda number: will_of(number, 2))
    arena.expect(set(answers) == {wire.SUCCESS, wire.QUOTA_EXCEEDED}, f"CONNACK with {set(answers)}, expected 0 and 0x97")
    arena.expect(answers.count(wire.SUCCESS) * 260_000 <= 8 * MIB, f"{answers.count(wire.SUCCESS)} wills were accepted")
    wills_are_kept(arena, [client for client, answer in zip(clients, answers) if answer == wire.SUCCESS])


@case("400 clients of 3.1.1 with wills of 64 KB: those beyond the limit get CONNACK 3", limit_mib=8)
def many_wills_v3(arena: Arena) -> None:
    def packet(number: int) -> bytes:
        return wire.connect(f"will-{number}", version=4, will=wire.Will(f"wills/{number}", bytes(65_000)))

    clients, answers = connect_all(arena, 400, packet, version=4)
    arena.expect(set(answers) == {0, wire.SERVER_UNAVAILABLE_V3}, f"CONNACK with {set(answers)}, expected 0 and 3")
    wills_are_kept(arena, [client for client, answer in zip(clients, answers) if answer == 0])


def wills_are_kept(arena: Arena, clients: list[Peer]) -> None:
    """The accepted wills are published when their clients are cut off."""
    heir = peer.subscribed(peer.connected(arena.port, "heir"), ["wills/#"], qos=0)
    came: list[wire.Packet] = []
    heir.handler = came.append
    for number, client in enumerate(clients, 1):
        # One at a time: QoS 0 may be dropped under load.
        client.close()
        if not drive([heir], lambda: len(came) >= number, messages.SILENCE_S):
            break
    arena.expect(len(came) == len(clients), f"{len(clients)} wills were accepted, {len(came)} have arrived")
