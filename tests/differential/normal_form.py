"""A packet with its properties sorted by identifier; those of one kind keep their order.

It is only for packets that a codec has encoded, so nothing is validated.
"""

from __future__ import annotations

CONNECT, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, AUTH = 1, 3, 8, 10, 15
WITHOUT_PROPERTIES = (12, 13)
# The position of the property length, if it does not depend on the packet.
PROPERTIES_AT = {2: 2, 4: 3, 5: 3, 6: 3, 7: 3, 8: 2, 9: 2, 10: 2, 11: 2, 14: 1, 15: 1}

ONE_BYTE = {0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A}
TWO_BYTES = {0x13, 0x21, 0x22, 0x23}
FOUR_BYTES = {0x02, 0x11, 0x18, 0x27}
VARIABLE = 0x0B
PAIR = 0x26


def of(packet: bytes, version: int) -> bytes:
    packet_type = packet[0] >> 4
    if packet_type == CONNECT:
        # The packet contains its version.
        version = packet[_after_number(packet, 1) + 2 + _length(packet, _after_number(packet, 1))]
    if version != 5 or packet_type in WITHOUT_PROPERTIES:
        return packet
    body_at = _after_number(packet, 1)
    body = packet[body_at:]
    if packet_type == CONNECT:
        return packet[:body_at] + _connect(body)
    at = _publish_properties_at(packet[0], body) if packet_type == PUBLISH else PROPERTIES_AT[packet_type]
    return packet[:body_at] + (_sorted_block(body, at) if at < len(body) else body)


def _connect(body: bytes) -> bytes:
    flags_at = 2 + _length(body, 0) + 1
    body = _sorted_block(body, flags_at + 3)
    client_id_at = _end_of_block(body, flags_at + 3)
    will_at = client_id_at + 2 + _length(body, client_id_at)
    return _sorted_block(body, will_at) if body[flags_at] & 0x04 else body


def _publish_properties_at(first: int, body: bytes) -> int:
    return 2 + _length(body, 0) + (2 if first & 0x06 else 0)


def _sorted_block(body: bytes, at: int) -> bytes:
    start, end = _after_number(body, at), _end_of_block(body, at)
    properties = []
    while start < end:
        after = _end_of_property(body, start)
        properties.append(body[start:after])
        start = after
    properties.sort(key=lambda data: data[0])
    return body[: _after_number(body, at)] + b"".join(properties) + body[end:]


def _end_of_block(body: bytes, at: int) -> int:
    return _after_number(body, at) + _number(body, at)


def _end_of_property(body: bytes, at: int) -> int:
    identifier, at = body[at], at + 1
    if identifier in ONE_BYTE:
        return at + 1
    if identifier in TWO_BYTES:
        return at + 2
    if identifier in FOUR_BYTES:
        return at + 4
    if identifier == VARIABLE:
        return _after_number(body, at)
    at += 2 + _length(body, at)
    return at + 2 + _length(body, at) if identifier == PAIR else at


def _length(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


def _number(data: bytes, at: int) -> int:
    value = 0
    for place in range(4):
        value |= (data[at + place] & 0x7F) << 7 * place
        if data[at + place] < 0x80:
            break
    return value


def _after_number(data: bytes, at: int) -> int:
    while data[at] >= 0x80:
        at += 1
    return at + 1
