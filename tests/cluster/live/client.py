"""An MQTT 5.0 client that does one thing after the other, for tests that look at one thing."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
sys.path += [str(_TESTS / "mqtt"), str(_TESTS.parent / "tools" / "cluster")]

import wire  # noqa: E402

PATIENCE_S = 30
# Streams reserve what they may grow to, wherever that is to come from.
JETSTREAM_MAX = "max_file: 100GB"


class Client:
    """One connection. `connected` is the reason code of CONNACK; None where the broker has said nothing."""

    def __init__(self, address: str, name: str, login: tuple[str, str] | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._incoming = bytearray()
        self._packet_id = 0
        self.received: list[wire.Publish] = []
        self._socket.sendall(wire.connect(name, login=login))
        answer = self._take()
        self.connected = answer.body[1] if answer else None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def subscribe(self, topic_filter: str, qos: int = 1) -> int:
        """The reason code of SUBACK."""
        self._socket.sendall(wire.subscribe([topic_filter], qos=qos, packet_id=self._next_id()))
        return wire.suback_codes(self._await(wire.SUBACK), 5)[0]

    def publish(self, topic: str, payload: bytes = b"x") -> int:
        """At QoS 1; the reason code of PUBACK."""
        self._socket.sendall(wire.publish(topic, payload, qos=1, packet_id=self._next_id()))
        return self._await(wire.PUBACK).reason

    def await_message(self) -> wire.Publish:
        while not self.received:
            self._await(wire.PUBLISH)
        return self.received.pop(0)

    def is_there(self) -> bool:
        self._socket.sendall(wire.PING)
        while (answer := self._take()) and answer.type != wire.PINGRESP:
            pass
        return answer is not None

    def end(self) -> int | None:
        """Waits until the broker ends the connection; gives the reason that it says."""
        reason = None
        while answer := self._take():
            reason = answer.reason if answer.type == wire.DISCONNECT else reason
        return reason

    def close(self) -> None:
        self._socket.close()

    def _next_id(self) -> int:
        self._packet_id += 1
        return self._packet_id

    def _await(self, packet_type: int) -> wire.Packet:
        while (packet := self._take()) and packet.type != packet_type:
            pass
        if packet is None:
            raise AssertionError(f"the broker has closed the connection instead of sending a packet of type {packet_type}")
        return packet

    def _take(self) -> wire.Packet | None:
        """The next packet; None once the broker has closed the connection."""
        while not (packet := wire.take(self._incoming)):
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._incoming += data
        if packet.type == wire.PUBLISH:
            message = wire.parse_publish(packet, 5)
            self.received.append(message)
            if message.qos:
                self._socket.sendall(wire.acknowledge(wire.PUBACK, message.packet_id))
        return packet
