"""As much of an MQTT 5.0 client as these tests need."""

from __future__ import annotations

import socket
from dataclasses import dataclass

TIMEOUT_S = 30


@dataclass
class Message:
    topic: str
    qos: int
    user_properties: list[tuple[str, str]]


class Client:
    """Connected until it is closed. Messages that come meanwhile wait."""

    def __init__(
        self,
        port: int,
        client_id: str,
        version: int = 5,
        expiry_s: int = 0,
        receive_maximum: int = 65_535,
        will: tuple[str, list[tuple[str, str]]] | None = None,
        acknowledges: bool = True,
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._version, self._acknowledges = version, acknowledges
        self._messages: list[Message] = []
        self._packet_id = 0
        properties = [b"\x11" + expiry_s.to_bytes(4, "big"), b"\x21" + receive_maximum.to_bytes(2, "big")]
        flags, payload = (0 if expiry_s else 2), text(client_id)
        if will:
            # QoS 1.
            flags |= 0x0C
            payload += self._user_properties(will[1]) + text(will[0]) + text("gone")
        self._send(0x10, text("MQTT") + bytes([version, flags, 0, 60]) + self._block(properties) + payload)
        assert self._await(0x20)[1] == 0

    def close(self) -> None:
        self._socket.close()

    def subscribe(self, topic_filter: str, qos: int) -> None:
        self._send(0x82, self._next_id() + self._block([]) + text(topic_filter) + bytes([qos]))
        assert self._await(0x90)[-1] == qos

    def publish(
        self, topic: str, qos: int, payload: bytes = b"", properties: list[tuple[str, str]] | None = None,
        retain: bool = False,
    ) -> int:
        """Gives the reason code of the answer."""
        block = self._user_properties(properties or [])
        packet_id = self._next_id() if qos else b""
        self._send(0x30 | qos << 1 | retain, text(topic) + packet_id + block + payload)
        if not qos:
            return 0
        answer = self._await(0x40 if qos == 1 else 0x50)
        reason = answer[2] if len(answer) > 2 else 0
        if qos == 2 and reason < 0x80:
            self._send(0x62, packet_id)
            self._await(0x70)
        return reason

    def send_only(self, topic: str, properties: list[tuple[str, str]]) -> None:
        """With QoS 1, and without waiting for the answer."""
        block = self._user_properties(properties)
        self._send(0x32, text(topic) + self._next_id() + block)

    def receive(self) -> Message:
        while not self._messages:
            self._keep(*self._read())
        return self._messages.pop(0)

    def _user_properties(self, properties: list[tuple[str, str]]) -> bytes:
        return self._block([b"\x26" + text(name) + text(value) for name, value in properties])

    def _block(self, properties: list[bytes]) -> bytes:
        if self._version < 5:
            return b""
        block = b"".join(properties)
        return length(len(block)) + block

    def _next_id(self) -> bytes:
        self._packet_id += 1
        return self._packet_id.to_bytes(2, "big")

    def _send(self, first: int, body: bytes) -> None:
        self._socket.sendall(bytes([first]) + length(len(body)) + body)

    def _await(self, kind: int) -> bytes:
        while True:
            first, body = self._read()
            if first & 0xF0 == kind:
                return body
            self._keep(first, body)

    def _read(self) -> tuple[int, bytes]:
        first = self._exactly(1)[0]
        size, shift = 0, 0
        while True:
            byte = self._exactly(1)[0]
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return first, self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the broker has closed the connection"
            data += more
        return data

    def _keep(self, first: int, body: bytes) -> None:
        assert first & 0xF0 == 0x30, hex(first)
        topic, body = split_text(body)
        qos = first >> 1 & 3
        if qos:
            packet_id, body = body[:2], body[2:]
            if self._acknowledges:
                assert qos == 1
                self._send(0x40, packet_id)
        found = []
        assert body[0] < 0x80, "no message of these tests has so many properties"
        block = body[1 : 1 + body[0]]
        while block:
            assert block[0] == 0x26
            name, block = split_text(block[1:])
            value, block = split_text(block)
            found.append((name, value))
        self._messages.append(Message(topic, qos, found))


def text(content: str) -> bytes:
    data = content.encode()
    return len(data).to_bytes(2, "big") + data


def split_text(data: bytes) -> tuple[str, bytes]:
    end = 2 + int.from_bytes(data[:2], "big")
    return data[2:end].decode(), data[end:]


def length(value: int) -> bytes:
    data = b""
    while True:
        value, byte = value >> 7, value & 0x7F
        data += bytes([byte | (0x80 if value else 0)])
        if not value:
            return data
