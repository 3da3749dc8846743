"""One small complete packet of each kind, to carry properties or invalid bytes."""

from encoder import ACKS, EVERY_PACKET_WITH_PROPERTIES, PACKET_TYPES, binary, frame, text, u8, u16

from cases.model import (
    ack,
    auth,
    connack,
    connect,
    disconnect,
    publish,
    request,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
    will,
)

# A value of each property.
SAMPLES = {
    "payload_format_indicator": 1,
    "message_expiry_interval": 60,
    "content_type": "text/plain",
    "response_topic": "reply/to",
    "correlation_data": b"\x00\xff\x10",
    "subscription_identifier": 7,
    "session_expiry_interval": 3600,
    "assigned_client_identifier": "auto-1",
    "server_keep_alive": 30,
    "authentication_method": "SCRAM-SHA-256",
    "authentication_data": b"\x01\x02\x00",
    "request_problem_information": 1,
    "will_delay_interval": 5,
    "request_response_information": 1,
    "response_information": "replies/",
    "server_reference": "other:1883",
    "reason_string": "because",
    "receive_maximum": 10,
    "topic_alias_maximum": 16,
    "topic_alias": 1,
    "maximum_qos": 1,
    "retain_available": 0,
    "user_property": ("key", "value"),
    "maximum_packet_size": 65_536,
    "wildcard_subscription_available": 1,
    "subscription_identifier_available": 1,
    "shared_subscription_available": 0,
}
METHOD = ("authentication_method", "m")
FIRST_BYTES = {kind: number << 4 | flags for kind, (number, flags) in PACKET_TYPES.items()}


def companions(owner, name):
    """Returns the properties that are required with `name` for the packet to be legal."""
    needs_method = owner == "auth" or name == "authentication_data"
    return [METHOD] if needs_method and name != "authentication_method" else []


def carry(owner, items):
    """Builds a packet with the properties; `will` is a CONNECT that has them in its will."""
    assert owner in EVERY_PACKET_WITH_PROPERTIES
    if owner in ACKS:
        return ack(owner, 1, 0, *items)
    return {
        "connect": lambda: connect("c", *items),
        "will": lambda: connect("c", will=will("w", b"bye", *items)),
        "connack": lambda: connack(0, *items),
        "publish": lambda: publish("t", b"hi", *items),
        "subscribe": lambda: subscribe(request("f"), items=items),
        "suback": lambda: suback(0, items=items),
        "unsubscribe": lambda: unsubscribe("f", items=items),
        "unsuback": lambda: unsuback(0, items=items),
        "disconnect": lambda: disconnect(0, *items),
        "auth": lambda: auth(0x18, *items),
    }[owner]()


def carry_block(owner, block):
    """Builds the same packet's bytes around a raw property block, including its length."""
    body = {
        "connect": lambda: connect_head(0x02) + block + text("c"),
        "will": lambda: connect_head(0x06) + b"\x00" + text("c") + block + text("w") + binary(b"bye"),
        "connack": lambda: b"\x00\x00" + block,
        "publish": lambda: text("t") + block + b"hi",
        "subscribe": lambda: u16(1) + block + text("f") + b"\x00",
        "unsubscribe": lambda: u16(1) + block + text("f"),
        "suback": lambda: u16(1) + block + b"\x00",
        "unsuback": lambda: u16(1) + block + b"\x00",
        "disconnect": lambda: b"\x00" + block,
        "auth": lambda: b"\x18" + block,
        **{kind: lambda: u16(1) + b"\x00" + block for kind in ACKS},
    }[owner]()
    return frame(FIRST_BYTES["connect" if owner == "will" else owner], body)


def connect_head(flags, *, name="MQTT", level=5, keep_alive_s=60):
    """Returns the variable header of a CONNECT up to its properties."""
    return text(name) + u8(level) + u8(flags) + u16(keep_alive_s)


def smallest(kind, version):
    """Returns the body of a small legal packet of the kind."""
    no_properties = b"\x00" if version == "5.0" else b""
    return {
        "connect": connect_head(0x02, level=5 if version == "5.0" else 4) + no_properties + text("c"),
        "connack": b"\x00\x00" + no_properties,
        "publish": text("t") + no_properties + b"hi",
        **dict.fromkeys(ACKS, u16(1)),
        "subscribe": u16(1) + no_properties + text("f") + b"\x00",
        "suback": u16(1) + no_properties + b"\x00",
        "unsubscribe": u16(1) + no_properties + text("f"),
        "unsuback": u16(1) + no_properties + (b"\x00" if version == "5.0" else b""),
        "pingreq": b"",
        "pingresp": b"",
        "disconnect": b"",
        "auth": b"",
    }[kind]
