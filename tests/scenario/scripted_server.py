"""A server whose packets the scenario itself sends, one connection at a time."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "mqtt"))

import wire  # noqa: E402

TIMEOUT_S = 90


class ScriptedServer:
    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(TIMEOUT_S)
        self.port = int(self._socket.getsockname()[1])
        self._connections: list[ServerConnection] = []

    def accept(self, *, session_present: bool, receive_maximum: int) -> ServerConnection:
        """Accepts the next connection, and answers its CONNECT."""
        client, _ = self._socket.accept()
        client.settimeout(TIMEOUT_S)
        connection = ServerConnection(client)
        self._connections.append(connection)
        connection.take(wire.CONNECT)
        limit = b"\x21" + receive_maximum.to_bytes(2)
        connection.send(wire.packet(wire.CONNACK, 0, bytes([session_present, 0, len(limit)]) + limit))
        return connection

    def close(self) -> None:
        self._socket.close()
        for connection in self._connections:
            connection.close()


class ServerConnection:
    """The server's side of a connection. Pings are answered, and otherwise ignored."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._rest = bytearray()

    def send(self, data: bytes) -> None:
        self._client.sendall(data)

    def next(self) -> wire.Packet:
        """Returns the next packet of the client."""
        while True:
            while (packet := wire.take(self._rest)) is None:
                chunk = self._client.recv(65536)
                if not chunk:
                    raise TimeoutError("the client has closed the connection")
                self._rest += chunk
            if packet.type != wire.PINGREQ:
                return packet
            self.send(wire.packet(wire.PINGRESP, 0, b""))

    def take(self, kind: int) -> wire.Packet:
        packet = self.next()
        if packet.type != kind:
            raise TimeoutError(f"expected packet type {kind}, but the client sent {packet.type}")
        return packet

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)
        self._client.close()
