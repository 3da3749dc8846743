"""Encodes and decodes MQTT packets, as far as the tests need it, for 3.1.1 and 5.0."""

from __future__ import annotations

import struct
from dataclasses import dataclass

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = 8, 9, 10, 11, 12, 13, 14

SUCCESS, NO_MATCHING_SUBSCRIBERS, QUOTA_EXCEEDED = 0x00, 0x10, 0x97
# A reason code from here on is an error [MQTT 5.0 section 2.4].
FIRST_ERROR = 0x80
SUBACK_FAILURE_V3 = 0x80
SERVER_UNAVAILABLE_V3 = 0x03
FOR_EVER_S = 0xFFFF_FFFF
TEXT_MAX_BYTES = 65_535


@dataclass(frozen=True, slots=True)
class Packet:
    """A received packet: its type, its flags, and its content after the fixed header."""

    type: int
    flags: int
    body: bytes

    @property
    def packet_id(self) -> int:
        """The packet identifier of an acknowledgement."""
        return int.from_bytes(self.body[:2])

    @property
    def reason(self) -> int:
        """The reason code of PUBACK to PUBCOMP and DISCONNECT; a packet without one means success [MQTT-3.4.2-1]."""
        at = 0 if self.type == DISCONNECT else 2
        return self.body[at] if len(self.body) > at else SUCCESS


@dataclass(frozen=True, slots=True)
class Publish:
    """A message as a subscriber receives it."""

    qos: int
    packet_id: int
    topic: str
    payload: bytes
    retain: bool
    duplicate: bool
    properties: bytes

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        """The user properties of a message without other properties."""
        found, rest = [], self.properties
        while rest:
            assert rest[0] == 0x26, rest
            name, rest = split_text(rest[1:])
            value, rest = split_text(rest)
            found.append((name, value))
        return found


@dataclass(frozen=True)
class Will:
    topic: str
    payload: bytes = b""
    properties: bytes = b""
    qos: int = 0


def variable(number: int) -> bytes:
    """A variable byte integer [MQTT 5.0 section 1.5.5]."""
    encoded = bytearray()
    while True:
        number, low = divmod(number, 128)
        encoded.append(low | (128 if number else 0))
        if not number:
            return bytes(encoded)


def text(value: str | bytes) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(encoded)) + encoded


def split_text(data: bytes) -> tuple[str, bytes]:
    """Returns the string at the start, and the rest."""
    end = 2 + int.from_bytes(data[:2])
    return data[2:end].decode(), data[end:]


def header(packet_type: int, flags: int, length: int) -> bytes:
    return bytes([packet_type << 4 | flags]) + variable(length)


def packet(packet_type: int, flags: int, body: bytes) -> bytes:
    return header(packet_type, flags, len(body)) + body


def user_property(name: str | bytes, value: str | bytes) -> bytes:
    return b"\x26" + text(name) + text(value)


def will_delay(delay_s: int) -> bytes:
    return b"\x18" + struct.pack(">I", delay_s)


def connect(
    client_id: str, *, version: int = 5, clean: bool = True, expiry_s: int = 0, receive_maximum: int | None = None,
    will: Will | None = None, login: tuple[str, str] | None = None,
) -> bytes:
    flags = (2 if clean else 0) | (4 | will.qos << 3 if will else 0) | (0xC0 if login else 0)
    body = text("MQTT") + bytes([version, flags]) + struct.pack(">H", 0)
    if version == 5:
        properties = b"\x11" + struct.pack(">I", expiry_s) if expiry_s else b""
        if receive_maximum is not None:
            properties += b"\x21" + struct.pack(">H", receive_maximum)
        body += variable(len(properties)) + properties
    body += text(client_id)
    if will:
        if version == 5:
            body += variable(len(will.properties)) + will.properties
        body += text(will.topic) + text(will.payload)
    if login:
        user_name, password = login
        body += text(user_name) + text(password)
    return packet(CONNECT, 0, body)


def publish(
    topic: str, payload: bytes, *, version: int = 5, qos: int = 0, packet_id: int = 0, retain: bool = False,
    duplicate: bool = False, properties: bytes = b"",
) -> bytes:
    return publish_head(
        topic, len(payload), version=version, qos=qos, packet_id=packet_id, retain=retain, duplicate=duplicate,
        properties=properties,
    ) + payload


def publish_head(
    topic: str, payload_bytes: int, *, version: int = 5, qos: int = 0, packet_id: int = 0, retain: bool = False,
    duplicate: bool = False, properties: bytes = b"",
) -> bytes:
    """Encodes a PUBLISH without its payload, so that large payloads need not be copied."""
    variable_header = text(topic) + (struct.pack(">H", packet_id) if qos else b"")
    if version == 5:
        variable_header += variable(len(properties)) + properties
    return header(PUBLISH, duplicate << 3 | qos << 1 | retain, len(variable_header) + payload_bytes) + variable_header


def subscribe(
    filters: list[str], *, version: int = 5, qos: int = 1, packet_id: int = 1, identifier: int | None = None
) -> bytes:
    body = bytearray(struct.pack(">H", packet_id))
    if version == 5:
        properties = b"" if identifier is None else b"\x0b" + variable(identifier)
        body += variable(len(properties)) + properties
    for each in filters:
        body += text(each) + bytes([qos])
    return packet(SUBSCRIBE, 2, bytes(body))


def unsubscribe(filters: list[str], *, version: int = 5, packet_id: int = 1) -> bytes:
    properties = b"\x00" if version == 5 else b""
    return packet(UNSUBSCRIBE, 2, struct.pack(">H", packet_id) + properties + b"".join(map(text, filters)))


def acknowledge(packet_type: int, packet_id: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP with success."""
    return packet(packet_type, 2 if packet_type == PUBREL else 0, struct.pack(">H", packet_id))


PING = packet(PINGREQ, 0, b"")
BYE = packet(DISCONNECT, 0, b"")


def take(buffer: bytearray) -> Packet | None:
    """Removes the first packet from `buffer`, if it is complete."""
    length, shift, at = 0, 0, 1
    while True:
        if at >= len(buffer):
            return None
        byte = buffer[at]
        length |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    if len(buffer) < at + length:
        return None
    taken = Packet(buffer[0] >> 4, buffer[0] & 15, bytes(memoryview(buffer)[at : at + length]))
    del buffer[: at + length]
    return taken


def parse_publish(taken: Packet, version: int) -> Publish:
    body, qos = taken.body, taken.flags >> 1 & 3
    at = 2 + int.from_bytes(body[:2])
    topic = body[2:at].decode()
    packet_id, properties = 0, b""
    if qos:
        packet_id, at = int.from_bytes(body[at : at + 2]), at + 2
    if version == 5:
        length, at = parse_variable(body, at)
        properties, at = body[at : at + length], at + length
    return Publish(qos, packet_id, topic, body[at:], bool(taken.flags & 1), bool(taken.flags & 8), properties)


def suback_codes(taken: Packet, version: int) -> bytes:
    """The reason codes of SUBACK or UNSUBACK."""
    at = 2
    if version == 5:
        length, at = parse_variable(taken.body, at)
        at += length
    return taken.body[at:]


def parse_variable(body: bytes, at: int) -> tuple[int, int]:
    """Returns the variable byte integer at `at`, and its end."""
    number, shift = 0, 0
    while True:
        byte = body[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
