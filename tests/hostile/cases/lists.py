"""State that clients make the broker keep: subscriptions and topic aliases."""

from __future__ import annotations

import messages
import peer
import wire
from arena import MIB, Arena, case
from peer import Peer, drive, send_all

FILTER_BYTES = 60_000
FILTERS = 4_000


def long_filter(number: int) -> str:
    # Filters differ at the start and the end, so that they share no part.
    return f"{number:05}" + "f" * (FILTER_BYTES - 10) + f"{number:05}"


def subscribe_long(client: Peer, numbers: range) -> list[int]:
    """Sends a SUBSCRIBE for each, one after the other; returns the answers so far."""
    codes: list[int] = []

    def handle(taken: wire.Packet) -> None:
        if taken.type == wire.SUBACK:
            codes.append(taken.body[-1])

    client.handler = handle
    for place, number in enumerate(numbers, 1):
        client.send(wire.subscribe([long_filter(number)], version=client.version, packet_id=place))
        drive([client], lambda: len(codes) >= place or client.closed, peer.ANSWER_TIMEOUT_S)
        if client.closed:
            break
    client.handler = None
    return codes


def judge_codes(arena: Arena, codes: list[int], refusal: int) -> None:
    granted = sum(1 for code in codes if code <= 2)
    arena.expect(len(codes) == FILTERS, f"{FILTERS - len(codes)} SUBSCRIBE were not answered")
    arena.expect(set(codes) <= {0, 1, 2, refusal}, f"SUBACK with {sorted(set(codes))}, expected {refusal}")
    arena.expect(refusal in codes, f"none of {len(codes)} filters of 60 KB was refused")
    arena.expect(granted * FILTER_BYTES <= 8 * MIB, f"{granted} filters of 60 KB were granted at a limit of 8 MiB")


def first_is_served(arena: Arena, client: Peer, codes: list[int]) -> None:
    """A granted filter gets its messages."""
    if not codes or codes[0] >= wire.FIRST_ERROR:
        return
    publisher = peer.connected(arena.port, "publisher")
    publisher.send(wire.publish(long_filter(0), b"one"))
    publisher.settle()
    client.expect(wire.PUBLISH, messages.SILENCE_S)


@case("4,000 filters of 60 KB of one client: SUBACK 0x97 beyond the limit", limit_mib=8, short=True)
def long_filters(arena: Arena) -> None:
    client = peer.connected(arena.port, "subscriber")
    codes = subscribe_long(client, range(FILTERS))
    judge_codes(arena, codes, wire.QUOTA_EXCEEDED)
    first_is_served(arena, client, codes)
    messages.stranger_is_served(arena, "beside long filters")


@case("4,000 filters of 60 KB of ten clients", limit_mib=8)
def long_filters_of_several(arena: Arena) -> None:
    codes: list[int] = []
    clients = [peer.connected(arena.port, f"subscriber-{number}") for number in range(10)]
    for number, client in enumerate(clients):
        codes += subscribe_long(client, range(number * 400, number * 400 + 400))
    judge_codes(arena, codes, wire.QUOTA_EXCEEDED)
    first_is_served(arena, clients[0], codes)


@case("4,000 filters of 60 KB of a client of 3.1.1: SUBACK 0x80 beyond the limit", limit_mib=8)
def long_filters_v3(arena: Arena) -> None:
    client = peer.connected(arena.port, "subscriber", version=4)
    judge_codes(arena, subscribe_long(client, range(FILTERS)), wire.SUBACK_FAILURE_V3)


@case("4,000 topic aliases of 60 KB of one client", limit_mib=8, short=True, settings={"mqtt.topic_alias_maximum": 65_535})
def topic_aliases(arena: Arena) -> None:
    set_aliases(arena, clients=1, each=4_000)


@case("64 topic aliases, the default, of 60 KB of a hundred clients", limit_mib=8)
def topic_aliases_of_many(arena: Arena) -> None:
    set_aliases(arena, clients=100, each=64)


def set_aliases(arena: Arena, clients: int, each: int) -> None:
    """A client that is disconnected for it must get the reason."""
    attackers = [peer.connected(arena.port, f"alias-{number}") for number in range(clients)]
    endings: list[int] = []

    def handle(taken: wire.Packet) -> None:
        if taken.type == wire.DISCONNECT:
            endings.append(taken.reason)

    for number, client in enumerate(attackers):
        client.handler = handle
        for alias in range(1, each + 1):
            properties = b"\x23" + alias.to_bytes(2)
            client.send(wire.publish(long_filter(number * each + alias), b"", properties=properties))
        send_all([client])
        client.handler = None
        if not client.closed:
            client.send(wire.PING)
            drive([client], lambda: bool(client.packets) or client.closed, peer.ANSWER_TIMEOUT_S)
    arena.expect(set(endings) <= {wire.QUOTA_EXCEEDED}, f"disconnected with {set(endings)}")
    messages.stranger_is_served(arena, "beside long topic aliases")
