"""A small MQTT encoder for the vectors, written only from the standard.

It writes what it is told, right or wrong: the cases decide which bytes are legal. `encode` alone writes the one
canonical form, the shortest that the standard allows.
"""

from dataclasses import dataclass

# Control packet types, section 2.1.2, with the fixed header flags the standard lists for them.
PACKET_TYPES = {
    "connect": (1, 0),
    "connack": (2, 0),
    "publish": (3, 0),
    "puback": (4, 0),
    "pubrec": (5, 0),
    "pubrel": (6, 2),
    "pubcomp": (7, 0),
    "subscribe": (8, 2),
    "suback": (9, 0),
    "unsubscribe": (10, 2),
    "unsuback": (11, 0),
    "pingreq": (12, 0),
    "pingresp": (13, 0),
    "disconnect": (14, 0),
    "auth": (15, 0),
}
ACKS = ("puback", "pubrec", "pubrel", "pubcomp")


@dataclass(frozen=True)
class Property:
    """One row of table 2-4. `kind` is the data type; `packets` are those in which it is allowed, including `will`."""

    identifier: int
    kind: str
    packets: tuple
    repeatable: tuple = ()


EVERY_PACKET_WITH_PROPERTIES = (
    "connect",
    "connack",
    "publish",
    "will",
    *ACKS,
    "subscribe",
    "suback",
    "unsubscribe",
    "unsuback",
    "disconnect",
    "auth",
)
PROPERTIES = {
    "payload_format_indicator": Property(0x01, "bool", ("publish", "will")),
    "message_expiry_interval": Property(0x02, "u32", ("publish", "will")),
    "content_type": Property(0x03, "text", ("publish", "will")),
    "response_topic": Property(0x08, "text", ("publish", "will")),
    "correlation_data": Property(0x09, "binary", ("publish", "will")),
    "subscription_identifier": Property(0x0B, "varint", ("publish", "subscribe"), ("publish",)),
    "session_expiry_interval": Property(0x11, "u32", ("connect", "connack", "disconnect")),
    "assigned_client_identifier": Property(0x12, "text", ("connack",)),
    "server_keep_alive": Property(0x13, "u16", ("connack",)),
    "authentication_method": Property(0x15, "text", ("connect", "connack", "auth")),
    "authentication_data": Property(0x16, "binary", ("connect", "connack", "auth")),
    "request_problem_information": Property(0x17, "bool", ("connect",)),
    "will_delay_interval": Property(0x18, "u32", ("will",)),
    "request_response_information": Property(0x19, "bool", ("connect",)),
    "response_information": Property(0x1A, "text", ("connack",)),
    "server_reference": Property(0x1C, "text", ("connack", "disconnect")),
    "reason_string": Property(0x1F, "text", ("connack", *ACKS, "suback", "unsuback", "disconnect", "auth")),
    "receive_maximum": Property(0x21, "u16", ("connect", "connack")),
    "topic_alias_maximum": Property(0x22, "u16", ("connect", "connack")),
    "topic_alias": Property(0x23, "u16", ("publish",)),
    "maximum_qos": Property(0x24, "bool", ("connack",)),
    "retain_available": Property(0x25, "bool", ("connack",)),
    "user_property": Property(0x26, "pair", EVERY_PACKET_WITH_PROPERTIES, EVERY_PACKET_WITH_PROPERTIES),
    "maximum_packet_size": Property(0x27, "u32", ("connect", "connack")),
    "wildcard_subscription_available": Property(0x28, "bool", ("connack",)),
    "subscription_identifier_available": Property(0x29, "bool", ("connack",)),
    "shared_subscription_available": Property(0x2A, "bool", ("connack",)),
}

# Reason codes allowed in each packet: sections 3.2.2.2, 3.4.2.1, 3.5.2.1, 3.6.2.1, 3.7.2.1, 3.9.3, 3.11.3, 3.14.2.1 and
# 3.15.2.1.
REASONS = {
    "connack": (0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F),
    "puback": (0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    "pubrec": (0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    "pubrel": (0x00, 0x92),
    "pubcomp": (0x00, 0x92),
    "suback": (0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2),
    "unsuback": (0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91),
    "disconnect": (
        0x00,
        0x04,
        0x80,
        0x81,
        0x82,
        0x83,
        0x87,
        0x89,
        0x8B,
        0x8D,
        0x8E,
        0x8F,
        0x90,
        *range(0x93, 0xA3),
    ),
    "auth": (0x00, 0x18, 0x19),
}
# 3.1.1 CONNACK return codes, by the reason code that represents them in the vectors.
RETURN_CODES = {0x00: 0, 0x84: 1, 0x85: 2, 0x88: 3, 0x86: 4, 0x87: 5}
LEVELS = {"3.1": 3, "3.1.1": 4, "5.0": 5}


def encode(packet, version):
    """Encodes a decoded packet in canonical form. The packet is given as in the vectors, but with bytes for binary values."""
    kind = packet["type"]
    number, flags = PACKET_TYPES[kind]
    if kind == "publish":
        flags = packet["dup"] << 3 | packet["qos"] << 1 | packet["retain"]
    return frame(number << 4 | flags, BODIES[kind](packet, version == "5.0", version))


def frame(first_byte, body, remaining_length=None):
    """Encodes a complete packet; `remaining_length` can be wrong or raw bytes."""
    if remaining_length is None:
        remaining_length = len(body)
    length = remaining_length if isinstance(remaining_length, bytes) else varint(remaining_length)
    return bytes([first_byte]) + length + body


def varint(value):
    """Encodes a variable byte integer in minimal form (section 1.5.5)."""
    assert 0 <= value <= 268_435_455, value
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def u8(value):
    return value.to_bytes(1, "big")


def u16(value):
    return value.to_bytes(2, "big")


def u32(value):
    return value.to_bytes(4, "big")


def binary(value):
    return u16(len(value)) + value


def text(value):
    """Encodes a UTF-8 string; bytes are written unchanged, well-formed or not."""
    return binary(value if isinstance(value, bytes) else value.encode())


def prop(name, value):
    """Encodes one property: identifier and value."""
    row = PROPERTIES[name]
    if row.kind == "pair":
        body = text(value[0]) + text(value[1])
    else:
        body = {"bool": u8, "u16": u16, "u32": u32, "varint": varint, "text": text, "binary": binary}[row.kind](value)
    return u8(row.identifier) + body


def props(items=()):
    """Encodes a property block with its length. Items are (name, value) pairs or raw bytes."""
    body = b"".join(item if isinstance(item, bytes) else prop(*item) for item in items)
    return varint(len(body)) + body


def pairs(packet):
    return [(item["name"], item["value"]) for item in packet["properties"]]


def _connect(p, v5, version):
    will = p["will"]
    flags = p["clean_start"] << 1
    if will is not None:
        flags |= 0x04 | will["qos"] << 3 | will["retain"] << 5
    flags |= (p["password"] is not None) << 6 | (p["user_name"] is not None) << 7
    out = text("MQIsdp" if version == "3.1" else "MQTT") + u8(LEVELS[version]) + u8(flags) + u16(p["keep_alive_s"])
    out += props(pairs(p)) if v5 else b""
    out += text(p["client_id"])
    if will is not None:
        out += (props(pairs(will)) if v5 else b"") + text(will["topic"]) + binary(will["payload"])
    if p["user_name"] is not None:
        out += text(p["user_name"])
    if p["password"] is not None:
        out += binary(p["password"])
    return out


def _connack(p, v5, _version):
    reason = p["reason"] if v5 else RETURN_CODES[p["reason"]]
    return u8(int(p["session_present"])) + u8(reason) + (props(pairs(p)) if v5 else b"")


def _publish(p, v5, _version):
    out = text(p["topic"] or "")
    out += u16(p["packet_id"]) if p["qos"] else b""
    return out + (props(pairs(p)) if v5 else b"") + p["payload"]


def _ack(p, v5, _version):
    out = u16(p["packet_id"])
    if v5 and p["properties"]:
        return out + u8(p["reason"]) + props(pairs(p))
    return out + (u8(p["reason"]) if v5 and p["reason"] else b"")


def _subscribe(p, v5, _version):
    out = u16(p["packet_id"]) + (props(pairs(p)) if v5 else b"")
    for r in p["requests"]:
        options = r["qos"] | r["no_local"] << 2 | r["retain_as_published"] << 3 | r["retain_handling"] << 4
        out += text(r["filter"]) + u8(options)
    return out


def _unsubscribe(p, v5, _version):
    out = u16(p["packet_id"]) + (props(pairs(p)) if v5 else b"")
    return out + b"".join(text(f) for f in p["filters"])


def _sub_ack(p, v5, _version):
    return u16(p["packet_id"]) + (props(pairs(p)) if v5 else b"") + bytes(p["reasons"])


def _ping(_p, _v5, _version):
    return b""


def _disconnect(p, _v5, _version):
    if p["properties"]:
        return u8(p["reason"]) + props(pairs(p))
    return u8(p["reason"]) if p["reason"] else b""


def _auth(p, _v5, _version):
    if not p["properties"] and not p["reason"]:
        return b""
    return u8(p["reason"]) + props(pairs(p))


BODIES = {
    "connect": _connect,
    "connack": _connack,
    "publish": _publish,
    "puback": _ack,
    "pubrec": _ack,
    "pubrel": _ack,
    "pubcomp": _ack,
    "subscribe": _subscribe,
    "suback": _sub_ack,
    "unsubscribe": _unsubscribe,
    "unsuback": _sub_ack,
    "pingreq": _ping,
    "pingresp": _ping,
    "disconnect": _disconnect,
    "auth": _auth,
}
