"""One client takes all the memory that it can get; others must still be served."""

from __future__ import annotations

import messages
import peer
import wire
from arena import MIB, Arena, case
from cases.lists import long_filter
from cases.queues import DEEP_QUEUES
from cases.wills import will_of
from messages import Message, Publisher, Subscriber
from peer import Peer, drive, send_all

LIMIT_MIB = 8
STALL_S = 1.0
TAKEN = 400


def flood_from_one(arena: Arena, topic: str, others: list[Peer]) -> None:
    publisher = Publisher(peer.connected(arena.port, "hog"), 1, (Message(key, topic, 60_000) for key in range(TAKEN)))
    messages.flood([publisher], others)


@case("the queue of one session is filled up", limit_mib=LIMIT_MIB, short=True, settings=DEEP_QUEUES)
def hog_of_queue(arena: Arena) -> None:
    peer.absent_session(arena.port, "hog-absent", ["hog"])
    flood_from_one(arena, "hog", [])
    messages.stranger_is_served(arena, "beside a full queue")


@case("the window of one client is filled up", limit_mib=LIMIT_MIB, settings=DEEP_QUEUES)
def hog_of_receive_maximum(arena: Arena) -> None:
    client = peer.connected(arena.port, "hog-silent", receive_maximum=65_535)
    silent = Subscriber(peer.subscribed(client, ["hog"]), silent=True)
    flood_from_one(arena, "hog", [silent.peer])
    messages.stranger_is_served(arena, "beside a full window")


@case("one client does not read its messages at QoS 0 and 1", limit_mib=LIMIT_MIB, short=True, settings={
    **DEEP_QUEUES, "limits.connection_output_bytes": 64 * MIB,
})
def hog_of_output(arena: Arena) -> None:
    client = peer.subscribed(peer.connected(arena.port, "hog-deaf", receive_maximum=65_535), ["hog"], qos=1)
    client.reading = False
    flood_from_one(arena, "hog", [])
    publisher = peer.connected(arena.port, "hog-at-most-once")
    for key in range(TAKEN):
        messages.put(publisher, Message(key, "hog", 60_000), 0, 0)
    send_all([publisher], idle_s=STALL_S)
    messages.stranger_is_served(arena, "beside a full output")


@case("one client sends a packet as large as the memory limit", limit_mib=LIMIT_MIB)
def hog_of_input(arena: Arena) -> None:
    client = peer.connected(arena.port, "hog")
    client.send(wire.publish_head("t", 15 * MIB), bytes(15 * MIB - 1))
    send_all([client], idle_s=STALL_S)
    messages.stranger_is_served(arena, "beside a large incomplete packet")


@case("one client sets a will as large as the memory limit", limit_mib=LIMIT_MIB)
def hog_of_will(arena: Arena) -> None:
    client = Peer(arena.port)
    client.send(will_of(0, 62))
    drive([client], lambda: bool(client.packets) or client.closed, peer.ANSWER_TIMEOUT_S)
    messages.stranger_is_served(arena, "beside a large will")


@case("one client subscribes until it is refused", limit_mib=LIMIT_MIB, short=True)
def hog_of_subscriptions(arena: Arena) -> None:
    client = peer.connected(arena.port, "hog")
    for number in range(TAKEN):
        client.send(wire.subscribe([long_filter(number)], packet_id=number + 1))
    client.send(wire.PING)
    drive([client], lambda: client.closed or bool(client.packets and client.packets[-1].type == wire.PINGRESP),
          peer.ANSWER_TIMEOUT_S)
    # And with small filters until they are refused.
    if not client.closed:
        for number in range(10):
            client.send(wire.subscribe([f"small/{number}/{each}" for each in range(9_000)], packet_id=number + 1_000))
        client.send(wire.PING)
        client.packets.clear()
        drive([client], lambda: client.closed or bool(client.packets and client.packets[-1].type == wire.PINGRESP),
              peer.ANSWER_TIMEOUT_S)
    messages.stranger_is_served(arena, "beside many subscriptions")


@case("one client sets as many long topic aliases as it can", limit_mib=LIMIT_MIB, settings={
    "mqtt.topic_alias_maximum": 65_535,
})
def hog_of_aliases(arena: Arena) -> None:
    client = peer.connected(arena.port, "hog")
    for alias in range(1, TAKEN + 1):
        client.send(wire.publish(long_filter(alias), b"", properties=b"\x23" + alias.to_bytes(2)))
    send_all([client], idle_s=STALL_S)
    messages.stranger_is_served(arena, "beside many topic aliases")


@case("one client leaves 5,000 QoS 2 messages unreleased, and its queue full", limit_mib=LIMIT_MIB, settings={
    **DEEP_QUEUES, "mqtt.receive_maximum": 65_535,
})
def hog_of_everything(arena: Arena) -> None:
    """Memory left by one limit must not be usable for another."""
    client = peer.connected(arena.port, "hog-all", clean=False, expiry_s=wire.FOR_EVER_S)
    peer.subscribed(client, ["hog"], qos=2)
    client.send(b"".join(
        wire.publish("hog", bytes(1_000), qos=2, packet_id=packet_id) for packet_id in range(1, 5_001)
    ))
    send_all([client], idle_s=STALL_S)
    for number in range(20):
        client.send(wire.subscribe([long_filter(number)], packet_id=number + 6_000))
    client.send(wire.publish_head("t", 15 * MIB), bytes(15 * MIB - 1))
    send_all([client], idle_s=STALL_S)
    messages.stranger_is_served(arena, "beside a client that holds memory of every kind")
