"""A failure is a response without a payload, with the user property `error`. A response with a payload is an answer, whatever user
properties it has."""

from scripted_server import ServerConnection
from stage import Stage

import wire

RESPONSE_TOPIC, CORRELATION_DATA = 0x08, 0x09
ERROR = wire.user_property("error", "0 of 3 checks failed")


def play(stage: Stage) -> None:
    server = stage.scripted_server()
    player = stage.player(f"mqtt://127.0.0.1:{server.port}")
    player.send("start client=one")
    link = server.accept(session_present=False, receive_maximum=10)
    player.sees("connected 0")
    for payload, expected in ((b"well", "response well"), (b"", "failed request request_failed 0 of 3 checks failed")):
        player.send("request 1 checks x")
        _respond(link, payload)
        player.sees(expected)
    player.send("close")
    while link.next().type != wire.DISCONNECT:
        pass
    link.close()
    player.sees("closed")


def _respond(link: ServerConnection, payload: bytes) -> None:
    packet = link.next()
    while packet.type != wire.PUBLISH:
        if packet.type == wire.SUBSCRIBE:
            link.send(wire.packet(wire.SUBACK, 0, packet.body[:2] + b"\x00\x00"))
        packet = link.next()
    request = wire.parse_publish(packet, version=5)
    link.send(wire.acknowledge(wire.PUBACK, request.packet_id))
    # Both have a length of two bytes.
    found, rest = {}, request.properties
    while rest:
        end = 3 + int.from_bytes(rest[1:3])
        found[rest[0]], rest = rest[3:end], rest[end:]
    correlation = bytes([CORRELATION_DATA]) + wire.text(found[CORRELATION_DATA])
    link.send(wire.publish(found[RESPONSE_TOPIC].decode(), payload, properties=correlation + ERROR))
