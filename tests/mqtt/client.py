"""A synchronous client: the test controls each step, including acknowledgements."""

from __future__ import annotations

import itertools
import socket
from collections import deque
from typing import Self

import wire
from wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL

TIMEOUT_S = 90


class Client:
    """One connection. With `acknowledges=False`, received messages are never acknowledged.

    The broker must accept it, unless it `may_be_refused`: then `reason` is that of CONNACK, or None without one.
    """

    def __init__(
        self, port: int, client_id: str, *, version: int = 5, clean: bool = True, expiry_s: int = 0,
        receive_maximum: int | None = None, will: wire.Will | None = None, login: tuple[str, str] | None = None,
        acknowledges: bool = True, may_be_refused: bool = False,
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._version, self._acknowledges = version, acknowledges
        self._buffer = bytearray()
        self._aside: deque[wire.Packet] = deque()
        self._packet_ids = itertools.count(1)
        self._send(wire.connect(
            client_id, version=version, clean=clean, expiry_s=expiry_s, receive_maximum=receive_maximum, will=will, login=login
        ))
        connack = self._next_or_end()
        self.reason = connack.body[1] if connack else None
        assert self.reason == wire.SUCCESS or may_be_refused, connack
        self.session_present = self.reason == wire.SUCCESS and connack.body[0] == 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def subscribe(self, topic_filter: str, options: int, identifier: int | None = None) -> None:
        """`options` are subscription options [MQTT 5.0 section 3.8.3.1], by default only the QoS, which must be granted."""
        packet_id = next(self._packet_ids)
        self._send(wire.subscribe(
            [topic_filter], version=self._version, qos=options, packet_id=packet_id, identifier=identifier
        ))
        codes = wire.suback_codes(self._wait_for(wire.SUBACK, packet_id), self._version)
        assert codes == bytes([options & 3]), codes

    def publish(
        self, topic: str, payload: bytes = b"", *, qos: int = 0, packet_id: int | None = None, retain: bool = False,
        duplicate: bool = False, properties: bytes = b"",
    ) -> int:
        """Sends PUBLISH without waiting. Returns its identifier."""
        packet_id = packet_id or next(self._packet_ids)
        self._send(wire.publish(
            topic, payload, version=self._version, qos=qos, packet_id=packet_id, retain=retain, duplicate=duplicate,
            properties=properties,
        ))
        return packet_id

    def deliver(self, topic: str, payload: bytes = b"", *, qos: int, **more: object) -> int:
        """Publishes a message, and completes its exchange. Returns the first reason code."""
        packet_id = self.publish(topic, payload, qos=qos, **more)
        if qos == 0:
            return wire.SUCCESS
        reason = self._wait_for(PUBACK if qos == 1 else PUBREC, packet_id).reason
        if qos == 2 and reason < wire.FIRST_ERROR:
            self.acknowledge(PUBREL, packet_id)
            self._wait_for(PUBCOMP, packet_id)
        return reason

    def acknowledge(self, packet_type: int, packet_id: int) -> None:
        self._send(wire.acknowledge(packet_type, packet_id))

    def receive(self) -> wire.Publish:
        """Returns the next message after its exchange is complete. Pending exchanges of earlier messages are completed, too."""
        while True:
            packet = self.read()
            if packet.type == PUBREL:
                self.acknowledge(PUBCOMP, packet.packet_id)
                continue
            assert packet.type == PUBLISH, packet
            message = self.parsed(packet)
            if message.qos and self._acknowledges:
                self.acknowledge(PUBACK if message.qos == 1 else PUBREC, message.packet_id)
                if message.qos == 2:
                    self._wait_for(PUBREL, message.packet_id)
                    self.acknowledge(PUBCOMP, message.packet_id)
            return message

    def read(self) -> wire.Packet:
        """Returns the next packet of any type."""
        return self._aside.popleft() if self._aside else self._next()

    def parsed(self, packet: wire.Packet) -> wire.Publish:
        return wire.parse_publish(packet, self._version)

    def ping(self) -> None:
        """Waits until the broker has handled all earlier packets."""
        self._send(wire.PING)
        self._wait_for(wire.PINGRESP)

    def await_end(self) -> int | None:
        """Waits until the broker closes the connection. Returns the reason code of its DISCONNECT."""
        reason = None
        while packet := self._next_or_end():
            reason = packet.reason if packet.type == wire.DISCONNECT else reason
        return reason

    def close(self) -> None:
        """Closes the connection with DISCONNECT."""
        self._send(wire.BYE)
        self.cut()

    def cut(self) -> None:
        """Closes the connection without DISCONNECT."""
        self._socket.close()

    def _wait_for(self, packet_type: int, packet_id: int | None = None) -> wire.Packet:
        """Waits for an answer. Packets that arrive before it are read later."""
        while True:
            packet = self._next()
            if packet.type == packet_type and packet_id in (None, packet.packet_id):
                return packet
            self._aside.append(packet)

    def _next(self) -> wire.Packet:
        packet = self._next_or_end()
        assert packet, "the broker has ended the connection"
        return packet

    def _next_or_end(self) -> wire.Packet | None:
        """Returns None once the broker has closed the connection."""
        while (packet := wire.take(self._buffer)) is None:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._buffer += data
        return packet

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)
