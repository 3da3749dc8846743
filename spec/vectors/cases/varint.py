"""Variable byte integers: Remaining Length, Property Length, Subscription Identifier, property identifiers."""

from encoder import binary, frame, prop, text, u16, varint

from cases.carriers import carry_block
from cases.model import VectorFile, publish, request, subscribe

# Remaining Lengths at which the number of length bytes changes.
BOUNDARIES = (127, 128, 16_383, 16_384, 2_097_151, 2_097_152)


def build():
    f = VectorFile("varint")
    f.note(
        "boundary",
        "The value is the last or the first of its number of bytes.",
        None,
        "Off-by-one errors in the length of the length show here.",
    )
    f.note(
        "not_minimal",
        "More bytes than the value needs.",
        "MQTT-1.5.5-1",
        "Two encodings of one packet: filters before and behind a codec can be made to disagree.",
    )
    f.note(
        "too_long",
        "The fourth byte says that a fifth follows.",
        None,
        "A codec that reads on, or drops the bit, takes a garbage length for 256 MB or more.",
    )
    _remaining_length(f)
    _property_length(f)
    _subscription_identifier(f)
    _property_identifier(f)
    return f


def _remaining_length(f):
    for length in BOUNDARIES:
        for version, tag, overhead in (("3.1.1", "v311", 3), ("5.0", "v5", 4)):
            packet = publish("t", b"a" * (length - overhead))
            f.valid(
                f"varint-{tag}-remaining-length-{length}",
                f"Remaining Length {length}, {len(varint(length))} bytes long",
                version,
                packet,
                flags=["boundary"],
            )
    for version, tag in (("3.1.1", "v311"), ("5.0", "v5")):
        statement = "1.5.5-1" if version == "5.0" else None
        for count in (2, 3, 4):
            padded = b"\x80" * (count - 1) + b"\x00"
            f.malformed(
                f"varint-{tag}-remaining-length-0-in-{count}",
                f"Remaining Length 0 in {count} bytes",
                version,
                frame(0xC0, b"", padded),
                flags=["not_minimal"],
                statement=statement,
            )
        body = text("t") + (b"\x00" if version == "5.0" else b"") + b"hi"
        f.malformed(
            f"varint-{tag}-remaining-length-small-in-2",
            "a small Remaining Length in two bytes",
            version,
            frame(0x30, body, bytes([len(body) | 0x80, 0])),
            flags=["not_minimal"],
            statement=statement,
        )
        long_body = body + b"a" * (200 - len(body))
        f.malformed(
            f"varint-{tag}-remaining-length-200-in-3",
            "Remaining Length 200 in three bytes",
            version,
            frame(0x30, long_body, b"\xc8\x81\x00"),
            flags=["not_minimal"],
            statement=statement,
        )
        for name, raw in (
            ("zeros", b"\x80\x80\x80\x80\x00"),
            ("ones", b"\xff\xff\xff\xff\x7f"),
            ("one", b"\x80\x80\x80\x80\x01"),
            ("endless", b"\xff\xff\xff\xff\xff\xff\xff\xff"),
            ("fourth-byte-only", b"\xff\xff\xff\xff"),
        ):
            f.malformed(
                f"varint-{tag}-remaining-length-5-bytes-{name}",
                "Remaining Length of five bytes or more",
                version,
                b"\x30" + raw,
                flags=["too_long"],
            )
    f.malformed(
        "varint-v5-connect-remaining-length-5-bytes",
        "the same on a CONNECT",
        "5.0",
        b"\x10\x80\x80\x80\x80\x01",
        flags=["too_long"],
    )


def _property_length(f):
    for length in (127, 128, 16_383, 16_384):
        # Content Type takes three bytes in addition to its text.
        items = [("content_type", "x" * (length - 3))]
        f.valid(
            f"varint-v5-property-length-{length}",
            f"Property Length {length}",
            "5.0",
            publish("t", b"hi", *items),
            flags=["boundary"],
        )
    for owner in ("publish", "connect", "will", "connack", "subscribe", "disconnect", "puback"):
        f.malformed(
            f"varint-v5-{owner}-property-length-0-in-2",
            "Property Length 0 in two bytes",
            "5.0",
            carry_block(owner, b"\x80\x00"),
            flags=["not_minimal"],
            statement="1.5.5-1",
        )
    one = prop("user_property", ("k", "v"))
    f.malformed(
        "varint-v5-property-length-7-in-2",
        "Property Length 7 in two bytes",
        "5.0",
        carry_block("publish", bytes([len(one) | 0x80, 0]) + one),
        flags=["not_minimal"],
        statement="1.5.5-1",
    )
    f.malformed(
        "varint-v5-property-length-7-in-4",
        "Property Length 7 in four bytes",
        "5.0",
        carry_block("publish", bytes([len(one) | 0x80, 0x80, 0x80, 0]) + one),
        flags=["not_minimal"],
        statement="1.5.5-1",
    )
    f.malformed(
        "varint-v5-property-length-5-bytes",
        "Property Length of five bytes",
        "5.0",
        carry_block("publish", b"\x80\x80\x80\x80\x01"),
        flags=["too_long"],
    )
    f.malformed(
        "varint-v5-property-length-cut",
        "the packet ends inside its Property Length",
        "5.0",
        frame(0x30, text("t") + b"\x80"),
    )


def _subscription_identifier(f):
    for value in (1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455):
        f.valid(
            f"varint-v5-subscription-identifier-{value}",
            f"Subscription Identifier {value}",
            "5.0",
            subscribe(request("f"), items=[("subscription_identifier", value)]),
            flags=["boundary"],
        )

    def block(raw):
        return varint(1 + len(raw)) + b"\x0b" + raw

    for count in (2, 3, 4):
        raw = b"\x87" + b"\x80" * (count - 2) + b"\x00"
        for owner in ("subscribe", "publish"):
            f.malformed(
                f"varint-v5-{owner}-subscription-identifier-7-in-{count}",
                f"Subscription Identifier 7 in {count} bytes",
                "5.0",
                carry_block(owner, block(raw)),
                flags=["not_minimal"],
                statement="1.5.5-1",
            )
    for name, raw in (("ones", b"\xff\xff\xff\xff\x7f"), ("one", b"\x80\x80\x80\x80\x01")):
        f.malformed(
            f"varint-v5-subscription-identifier-5-bytes-{name}",
            "Subscription Identifier of five bytes",
            "5.0",
            carry_block("subscribe", block(raw)),
            flags=["too_long"],
        )
    f.malformed(
        "varint-v5-subscription-identifier-cut",
        "the property block ends inside the identifier, the packet goes on",
        "5.0",
        frame(0x82, u16(1) + b"\x02\x0b\x80" + text("f") + b"\x00"),
    )


def _property_identifier(f):
    value = b"\x01"
    f.malformed(
        "varint-v5-property-identifier-1-in-2",
        "property identifier 1 in two bytes",
        "5.0",
        carry_block("publish", b"\x03\x81\x00" + value),
        flags=["not_minimal"],
        statement="1.5.5-1",
    )
    f.malformed(
        "varint-v5-property-identifier-38-in-2",
        "property identifier 38 (User Property) in two bytes",
        "5.0",
        carry_block("publish", varint(8) + b"\xa6\x00" + text("k") + text("v")),
        flags=["not_minimal"],
        statement="1.5.5-1",
    )
    f.malformed(
        "varint-v5-property-identifier-5-bytes",
        "property identifier of five bytes",
        "5.0",
        carry_block("publish", b"\x06\x81\x80\x80\x80\x80\x01"),
        flags=["too_long"],
    )
    f.malformed(
        "varint-v5-property-identifier-cut",
        "the block ends inside a property identifier",
        "5.0",
        carry_block("publish", b"\x01\x81"),
    )
    f.malformed(
        "varint-v5-property-identifier-128",
        "identifier 128 is a well-formed number and no property",
        "5.0",
        carry_block("publish", b"\x05\x80\x01" + binary(b"x")),
    )
