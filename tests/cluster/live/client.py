"""A client that does one thing after the other, for tests that look at one thing."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
sys.path += [str(_TESTS / "mqtt"), str(_TESTS.parent / "tools" / "cluster")]

import wire  # noqa: E402
from processes import PATIENCE_S, Broker  # noqa: E402


class Client:
    """One connection. Whatever does not come in time is an error of the socket."""

    def __init__(self, broker: Broker, client_id: str, **connect) -> None:
        self._socket = socket.create_connection((broker.place.host, broker.port), PATIENCE_S)
        self._incoming = bytearray()
        self._packet_id = 0
        self.received: list[wire.Publish] = []
        self._socket.sendall(wire.connect(client_id, **connect))
        self.connack = self._await(wire.CONNACK).body

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self._socket.close()

    def subscribe(self, topic_filter: str, qos: int = 1) -> int:
        """The reason code."""
        self._socket.sendall(wire.subscribe([topic_filter], qos=qos, packet_id=self._next_id()))
        return wire.suback_codes(self._await(wire.SUBACK), 5)[0]

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> int:
        """At QoS 1; gives the reason code."""
        packet_id = self._next_id()
        self._socket.sendall(wire.publish(topic, payload, qos=1, packet_id=packet_id, retain=retain))
        return self._await(wire.PUBACK).reason

    def await_message(self) -> wire.Publish:
        while not self.received:
            self._take()
        return self.received.pop(0)

    def await_end(self) -> int | None:
        """Why the broker has disconnected it; None where it did not say."""
        try:
            return self._await(wire.DISCONNECT).reason
        except EOFError:
            return None

    def _next_id(self) -> int:
        self._packet_id += 1
        return self._packet_id

    def _await(self, packet_type: int) -> wire.Packet:
        while (packet := self._take()).type != packet_type:
            pass
        return packet

    def _take(self) -> wire.Packet:
        while (packet := wire.take(self._incoming)) is None:
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError("the broker has closed the connection")
            self._incoming += data
        if packet.type == wire.PUBLISH:
            message = wire.parse_publish(packet, 5)
            self.received.append(message)
            if message.qos:
                self._socket.sendall(wire.acknowledge(wire.PUBACK, message.packet_id))
        return packet
