"""Time: work for one client that would make all others wait."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import peer
import wire
from arena import Arena, case
from cases.queues import LEVELS, overlapping
from peer import Peer, drive

RETAINED = 200_000
# The number of packets per batch: preparation must not be an attack itself.
POLITE = 500
FILTERS_PER_PACKET = 10_000


def politely(client: Peer, packets: Iterable[bytes]) -> None:
    rest = iter(packets)
    while some := b"".join(itertools.islice(rest, POLITE)):
        client.send(some)
        client.settle()


def retain_many(arena: Arena) -> None:
    publisher = peer.connected(arena.port, "publisher")
    politely(publisher, (wire.publish(f"d{number}/n{number}", b"1", retain=True) for number in range(RETAINED)))


def settled(client: Peer, within_s: float = 60) -> None:
    """Returns when the client's earlier packets have been handled: a later one is answered."""
    client.settle(within_s)
    client.packets.clear()


@case("200,000 retained messages and a SUBSCRIBE with 2,000 filters `+/n…`", limit_mib=1024, timed=True, short=True)
def retained_scan(arena: Arena) -> None:
    retain_many(arena)
    arena.begin()
    client = peer.connected(arena.port, "subscriber")
    client.send(wire.subscribe([f"+/n{number}" for number in range(2_000)], qos=0))
    came = [0]

    def count(taken: wire.Packet) -> None:
        came[0] += taken.type == wire.PUBLISH

    client.handler = count
    drive([client], lambda: came[0] >= 2_000 or client.closed, 60)
    arena.expect(came[0] == 2_000, f"{came[0]} of 2,000 retained messages have arrived")


@case("200,000 retained messages, requested with `#` by ten clients", limit_mib=1024, timed=True)
def retained_for_all(arena: Arena) -> None:
    retain_many(arena)
    arena.begin()
    clients = [peer.connected(arena.port, f"subscriber-{number}") for number in range(10)]
    counts = [0] * len(clients)

    def counting(place: int) -> Callable[[wire.Packet], None]:
        def count(taken: wire.Packet) -> None:
            counts[place] += taken.type == wire.PUBLISH

        return count

    for place, client in enumerate(clients):
        client.send(wire.subscribe(["#"], qos=0))
        client.handler = counting(place)
    drive(clients, lambda: min(counts) >= RETAINED, 90)
    arena.expect(min(counts) >= RETAINED, f"{min(counts)} of {RETAINED} retained messages have arrived")


def filters_come_and_go(arena: Arena, filters: list[str], goes: bool) -> None:
    client = peer.connected(arena.port, "subscriber")
    arena.begin()
    packets = [filters[at : at + FILTERS_PER_PACKET] for at in range(0, len(filters), FILTERS_PER_PACKET)]
    for some in packets:
        codes = wire.suback_codes(client.ask(wire.subscribe(some, qos=0), wire.SUBACK, 60), 5)
        arena.expect(set(codes) == {0}, f"SUBACK with {set(codes)}")
    for some in packets if goes else []:
        codes = wire.suback_codes(client.ask(wire.unsubscribe(some), wire.UNSUBACK, 60), 5)
        arena.expect(set(codes) == {0}, f"UNSUBACK with {set(codes)}")
    client.close()
    # The session has ended when its identifier can be used again.
    settled(peer.connected(arena.port, "subscriber"))


@case("10,000 groups `$share/g…/t` joined in one SUBSCRIBE", limit_mib=1024, timed=True, short=True)
def share_groups(arena: Arena) -> None:
    filters_come_and_go(arena, [f"$share/g{number}/t" for number in range(10_000)], goes=False)


@case("50,000 groups `$share/g…/t` joined in five SUBSCRIBE, and left again", limit_mib=1024, timed=True)
def many_share_groups(arena: Arena) -> None:
    filters_come_and_go(arena, [f"$share/g{number}/t" for number in range(50_000)], goes=True)


@case("50,000 filters in SUBSCRIBE of 10,000, and UNSUBSCRIBE of them", limit_mib=1024, timed=True, short=True)
def filters_at_once(arena: Arena) -> None:
    filters_come_and_go(arena, [f"plain/{number}" for number in range(50_000)], goes=True)


@case("40,000 groups `$share/g…/t` joined in SUBSCRIBE of 50, sent at once", limit_mib=1024, timed=True)
def share_groups_in_small_packets(arena: Arena) -> None:
    client = peer.connected(arena.port, "subscriber")
    arena.begin()
    filters = [f"$share/g{number}/t" for number in range(40_000)]
    client.send(b"".join(wire.subscribe(filters[at : at + 50], qos=0) for at in range(0, len(filters), 50)))
    settled(client)
    client.close()
    settled(peer.connected(arena.port, "subscriber"))


@case("500 messages at once to 16,384 overlapping filters of one client", limit_mib=1024, timed=True)
def overlapping_matches(arena: Arena) -> None:
    client = peer.connected(arena.port, "overlapping")
    politely(client, (wire.subscribe([each], qos=0) for each in overlapping(LEVELS)))
    client.packets.clear()
    publisher = peer.connected(arena.port, "publisher")
    arena.begin()
    publisher.send(wire.publish("/".join(["a"] * LEVELS), b"1") * 500)
    settled(publisher)


@case("the end of a session with 100,000 subscriptions and 900,000 queued messages", limit_mib=1024, timed=True, settings={
    "limits.session_queue_messages": 10**6, "limits.subscriptions_per_session": 200_000,
})
def large_session_ends(arena: Arena) -> None:
    owner = peer.connected(arena.port, "owner", clean=False, expiry_s=wire.FOR_EVER_S)
    for first in range(0, 100_000, POLITE):
        owner.ask(wire.subscribe([f"owned/{number}" for number in range(first, first + POLITE)]), wire.SUBACK)
    peer.subscribed(owner, ["queue"])
    peer.goodbye(owner)
    publisher = peer.connected(arena.port, "publisher", version=4)
    publisher.discarding = True
    thousand = b"".join(wire.publish("queue", b"1", version=4, qos=1, packet_id=packet_id) for packet_id in range(1, 1_001))
    for sent in range(900):
        publisher.send(thousand)
        # A PUBACK of 3.1.1 has four bytes; CONNACK arrived before.
        drive([publisher], lambda: publisher.received_bytes >= 4 + (sent + 1) * 4_000 or publisher.closed, peer.ANSWER_TIMEOUT_S)
    arena.begin()
    # A clean start ends the session [MQTT-3.1.2-4].
    settled(peer.connected(arena.port, "owner"))


@case("standard error is not read, the log level is the highest, and clients connect and disconnect", limit_mib=1024, timed=True, short=True, stalled_log=True,
      settings={"log.level": "debug"})
def stalled_log(arena: Arena) -> None:
    for number in range(3_000):
        client = peer.connected(arena.port, f"client-{number}-{'x' * 200}")
        client.close()
    settled(peer.connected(arena.port, "last"))
