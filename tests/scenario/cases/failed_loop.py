"""A loop that fails leaves its message unacknowledged: the server sends it again to the next client of the session."""

import socket

from scripted_server import TIMEOUT_S
from stage import Broken, Stage

import wire

# The application handles messages in a function, which has no way to fail but tw_client_reject().
WITHOUT = {"c"}


def play(stage: Stage) -> None:
    port = stage.broker()
    stage.relay.forward(port)
    player = stage.player()
    player.does("connect client=one expiry=600", "connected 0")
    writer = stage.player(f"mqtt://127.0.0.1:{port}")
    writer.does("connect client=writer", "connected 0")
    for qos in (1, 2):
        topic = f"jobs/{qos}"
        player.does(f"stumble {qos} {topic}", f"subscribed {topic} {qos}")
        writer.does(f"publish {qos} {topic} job", "published job 0x00")
        player.sees(f"message {topic} {qos} 0 job", "stumbled job")
    player.does("close", "closed")
    writer.does("close", "closed")
    sent = [f"{message.topic} {message.payload.decode()} {message.duplicate}" for message in _resume(port, "one", count=2)]
    if sent != ["jobs/1 job True", "jobs/2 job True"]:
        raise Broken(f"the server sends again: {sent}")


def _resume(port: int, client_id: str, count: int) -> list[wire.Publish]:
    """Returns the first messages that the server sends to the next client of a session."""
    found: list[wire.Publish] = []
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as client:
        client.sendall(wire.connect(client_id, clean=False))
        rest = bytearray()
        while len(found) < count:
            if (packet := wire.take(rest)) is None:
                if not (chunk := client.recv(65536)):
                    raise Broken("the server sends nothing again, and has closed the connection")
                rest += chunk
            elif packet.type == wire.PUBLISH:
                found.append(wire.parse_publish(packet, version=5))
    return found
