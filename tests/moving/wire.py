"""A client of MQTT 3.1.1 and 5.0 that answers nothing by itself: a test decides what is acknowledged."""

from __future__ import annotations

import socket
import struct
from collections import deque
from dataclasses import dataclass

TIMEOUT_S = 20
CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, PINGRESP = 2, 3, 4, 5, 6, 7, 9, 13


@dataclass(frozen=True)
class Packet:
    """A packet as it came. Those without a topic, payload or identifier have empty ones."""

    kind: int
    identifier: int = 0
    topic: str = ""
    payload: bytes = b""
    properties: bytes = b""
    qos: int = 0
    duplicate: bool = False
    retain: bool = False
    session_present: bool = False


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def variable(value: int) -> bytes:
    out = bytearray()
    while True:
        value, byte = value >> 7, value & 0x7F
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


class Client:
    """One connection. `version`: 4 for MQTT 3.1.1, 5 for 5.0. The session is kept."""

    def __init__(self, port: int, client_id: str, version: int = 5, expiry_s: int = 3600, start: bool = False) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._version = version
        self._aside: deque[Packet] = deque()
        properties = b"\x11" + struct.pack(">I", expiry_s)
        body = text("MQTT") + bytes([version, 2 if start else 0]) + struct.pack(">H", 600)
        self._send(0x10, body + self._block(properties) + text(client_id))
        connack = self.read()
        assert connack.kind == CONNACK, connack
        self.session_present = connack.session_present

    def subscribe(self, topic_filter: str, options: int, properties: bytes = b"") -> None:
        self._send(0x82, b"\x00\x01" + self._block(properties) + text(topic_filter) + bytes([options]))
        self._wait_for(SUBACK, 1)

    def publish(self, topic: str, payload: bytes, qos: int, identifier: int = 1, **how: object) -> None:
        """Sends PUBLISH, and waits for nothing."""
        flags = qos << 1 | bool(how.get("retain")) | (8 if how.get("duplicate") else 0)
        number = struct.pack(">H", identifier) if qos else b""
        properties = how.get("properties", b"")
        assert isinstance(properties, bytes)
        self._send(0x30 | flags, text(topic) + number + self._block(properties) + payload)

    def acknowledge(self, kind: int, identifier: int) -> None:
        self._send(kind << 4 | (2 if kind == PUBREL else 0), struct.pack(">H", identifier))

    def deliver(self, topic: str, payload: bytes, qos: int, identifier: int = 1, **how: object) -> None:
        """Publishes a message, and goes through all of its acknowledgements."""
        self.publish(topic, payload, qos, identifier, **how)
        if qos == 1:
            self._wait_for(PUBACK, identifier)
        if qos == 2:
            self._wait_for(PUBREC, identifier)
            self.acknowledge(PUBREL, identifier)
            self._wait_for(PUBCOMP, identifier)

    def receive(self) -> Packet:
        """The next message, acknowledged to its end. What is left of earlier ones is brought to its end, too."""
        while True:
            packet = self.read()
            if packet.kind == PUBREL:
                self.acknowledge(PUBCOMP, packet.identifier)
                continue
            assert packet.kind == PUBLISH, packet
            if packet.qos:
                self.acknowledge(PUBACK if packet.qos == 1 else PUBREC, packet.identifier)
            if packet.qos == 2:
                self._wait_for(PUBREL, packet.identifier)
                self.acknowledge(PUBCOMP, packet.identifier)
            return packet

    def read(self) -> Packet:
        """The next packet, whatever it is."""
        return self._aside.popleft() if self._aside else self._next()

    def _wait_for(self, kind: int, identifier: int) -> None:
        """Waits for an answer. Whatever comes before it is read later."""
        while (packet := self._next()) != Packet(kind, identifier):
            self._aside.append(packet)

    def _next(self) -> Packet:
        first, length, shift = self._take(1)[0], 0, 0
        while True:
            byte = self._take(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        body = self._take(length)
        kind = first >> 4
        if kind == CONNACK:
            assert body[1] == 0, f"refused: {body.hex()}"
            return Packet(kind, session_present=body[0] == 1)
        if kind == PUBLISH:
            return self._publish(first, body)
        return Packet(kind, struct.unpack(">H", body[:2])[0] if len(body) >= 2 else 0)

    def ping(self) -> None:
        """Has the broker work off all that was sent before."""
        self._send(0xC0, b"")
        self._wait_for(PINGRESP, 0)

    def close(self) -> None:
        """Ends the connection in order."""
        self._send(0xE0, b"")
        self.drop()

    def drop(self) -> None:
        """Ends the connection without a word."""
        self._socket.close()

    def _publish(self, first: int, body: bytes) -> Packet:
        qos, length = first >> 1 & 3, struct.unpack(">H", body[:2])[0]
        topic, rest = body[2 : 2 + length].decode(), body[2 + length :]
        identifier = 0
        if qos:
            identifier, rest = struct.unpack(">H", rest[:2])[0], rest[2:]
        properties = b""
        if self._version == 5:
            assert rest[0] < 0x80
            properties, rest = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
        duplicate, retain = bool(first & 8), bool(first & 1)
        return Packet(PUBLISH, identifier, topic, rest, properties, qos, duplicate, retain)

    def _block(self, properties: bytes) -> bytes:
        return variable(len(properties)) + properties if self._version == 5 else b""

    def _send(self, first: int, body: bytes) -> None:
        self._socket.sendall(bytes([first]) + variable(len(body)) + body)

    def _take(self, length: int) -> bytes:
        taken = b""
        while len(taken) < length:
            part = self._socket.recv(length - len(taken))
            assert part, "the broker has ended the connection"
            taken += part
        return taken
