"""QoS 2 exchanges that wait for PUBCOMP count against the server's Receive Maximum after a resumption, too [MQTT-3.3.4-7], also when
the server has lowered it. Their PUBREL packets do not wait [MQTT-4.4.0-1]."""

from scripted_server import ServerConnection
from stage import Broken, Player, Stage

import wire

MESSAGES = 10
FIRST_MAXIMUM, NEXT_MAXIMUM, LAST_MAXIMUM = 4, 4, 2


def play(stage: Stage) -> None:
    server = stage.scripted_server()
    player = stage.player(f"mqtt://127.0.0.1:{server.port}")
    player.send("start client=one expiry=300 attempts_ms=300")
    link = server.accept(session_present=False, receive_maximum=FIRST_MAXIMUM)
    player.sees("connected 0")
    player.send(*(f"publish 2 q {number}" for number in range(MESSAGES)))
    sent = [_published(link) for _ in range(FIRST_MAXIMUM)]
    # The server has all but the first, and its PUBCOMP packets are lost.
    released = sent[1:]
    _receive(link, released)
    link.close()
    player.sees("disconnected connection_lost")

    link = server.accept(session_present=True, receive_maximum=NEXT_MAXIMUM)
    player.sees("connected 1")
    _expect(link, released, [sent[0]])
    _expect_nothing_more(link, player)
    _complete(link, released.pop(0))
    player.sees("published 1 0x00")
    sent.append(_published(link))
    _expect_nothing_more(link, player)
    link.close()
    player.sees("disconnected connection_lost")

    link = server.accept(session_present=True, receive_maximum=LAST_MAXIMUM)
    player.sees("connected 1")
    _expect(link, released, [])
    _expect_nothing_more(link, player)
    for number, packet_id, resent in zip((2, 3), released, (sent[0], sent[-1]), strict=True):
        _complete(link, packet_id)
        player.sees(f"published {number} 0x00")
        _expect(link, [], [resent])
    _finish(link, [sent[0], sent[-1]])
    player.sees_in_any_order(*(f"published {number} 0x00" for number in range(MESSAGES) if number not in (1, 2, 3)))
    player.send("close")
    link.take(wire.DISCONNECT)
    link.close()
    player.sees("closed")


def _published(link: ServerConnection) -> int:
    """Takes a PUBLISH, and returns its packet identifier."""
    return wire.parse_publish(link.take(wire.PUBLISH), version=5).packet_id


def _receive(link: ServerConnection, packet_ids: list[int]) -> None:
    for packet_id in packet_ids:
        link.send(wire.acknowledge(wire.PUBREC, packet_id))
    for packet_id in packet_ids:
        if link.take(wire.PUBREL).packet_id != packet_id:
            raise Broken("PUBREL does not follow the order of PUBREC [MQTT-4.6.0-4]")


def _complete(link: ServerConnection, packet_id: int) -> None:
    link.send(wire.acknowledge(wire.PUBCOMP, packet_id))


def _expect(link: ServerConnection, releases: list[int], messages: list[int]) -> None:
    """Takes these PUBREL and resent PUBLISH packets; each kind in its order."""
    found: dict[int, list[int]] = {wire.PUBREL: [], wire.PUBLISH: []}
    for _ in range(len(releases) + len(messages)):
        packet = link.next()
        is_publish = packet.type == wire.PUBLISH
        found.setdefault(packet.type, []).append(wire.parse_publish(packet, version=5).packet_id if is_publish else packet.packet_id)
    if found != {wire.PUBREL: releases, wire.PUBLISH: messages}:
        raise Broken(f"expected PUBREL {releases} and PUBLISH {messages}, but the client sent {found} (packet types: identifiers)")


def _expect_nothing_more(link: ServerConnection, player: Player) -> None:
    """No PUBLISH of QoS 2 precedes a packet that the window does not hold back."""
    if player.language == "c":
        # SUBSCRIBE follows the messages in the outbox.
        player.does("publish 0 q probe", "published probe 0x00")
        packet = link.take(wire.PUBLISH)
        if packet.flags >> 1 & 3 != 0:
            raise Broken("the client exceeds Receive Maximum [MQTT-3.3.4-7]")
        return
    player.send("subscribe 0 probe")
    packet = link.next()
    if packet.type != wire.SUBSCRIBE:
        raise Broken(f"the client exceeds Receive Maximum [MQTT-3.3.4-7], or repeats a packet: type {packet.type}")
    link.send(wire.packet(wire.SUBACK, 0, packet.body[:2] + b"\x00\x00"))
    player.sees("subscribed probe 0")
    player.send("unsubscribe probe")
    packet = link.take(wire.UNSUBSCRIBE)
    link.send(wire.packet(wire.UNSUBACK, 0, packet.body[:2] + b"\x00\x00"))
    player.sees("unsubscribed probe")


def _finish(link: ServerConnection, packet_ids: list[int]) -> None:
    """Completes these exchanges, and those of all messages that follow."""
    left = MESSAGES - 3
    for packet_id in packet_ids:
        link.send(wire.acknowledge(wire.PUBREC, packet_id))
    while left > 0:
        packet = link.next()
        if packet.type == wire.PUBREL:
            _complete(link, packet.packet_id)
            left -= 1
        else:
            link.send(wire.acknowledge(wire.PUBREC, wire.parse_publish(packet, version=5).packet_id))
