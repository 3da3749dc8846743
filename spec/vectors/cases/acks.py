"""PUBACK, PUBREC, PUBREL and PUBCOMP: one layout, four files."""

from encoder import ACKS, REASONS, frame, props, u16

from cases.carriers import FIRST_BYTES
from cases.model import VectorFile, ack

REASON_STATEMENTS = {"puback": "3.4.2-1", "pubrec": "3.5.2-1", "pubrel": "3.6.2-1", "pubcomp": "3.7.2-1"}
# Codes that belong to other packets, and unknown ones.
ILLEGAL = (0x01, 0x04, 0x11, 0x18, 0x7F, 0x81, 0x82, 0x8F, 0x95, 0x9E, 0xFF)


def build():
    return [_one(kind) for kind in ACKS]


def _one(kind):
    f = VectorFile(kind)
    first = FIRST_BYTES[kind]
    name = kind.upper()
    f.note(
        "short_form",
        "Reason code and properties, or properties alone, are left out.",
        None,
        "The commonest acknowledgement is two bytes long; codecs that want a reason code refuse it.",
    )
    f.note("long_form", "Legal, and longer than it need be.", None, "Not what an encoder writes.")
    f.note(
        "reason_code",
        "One of the codes the packet may carry.",
        "MQTT-" + REASON_STATEMENTS[kind],
        "Missing rows end lawful connections.",
    )
    f.note(
        "illegal_reason",
        "A code the packet may not carry.",
        "MQTT-" + REASON_STATEMENTS[kind],
        "An unknown code taken for success.",
    )
    f.note("packet_id_zero", "Packet Identifier 0.", "MQTT-2.2.1-3", "Acknowledges a message that cannot exist.")
    f.note("trailing", "Bytes behind the last field.", None, "Smuggled data.")
    f.note("cut", "The packet ends inside a field.", None, "A stall, or bytes of the next packet read as this one's.")
    for packet_id in (1, 255, 256, 65_535):
        f.valid(
            f"{kind}-v311-id-{packet_id}",
            f"packet id {packet_id}",
            "3.1.1",
            ack(kind, packet_id),
            data=bytes([first, 2]) + u16(packet_id),
        )
        f.valid(
            f"{kind}-v5-short-id-{packet_id}",
            f"packet id {packet_id}, Remaining Length 2: success",
            "5.0",
            ack(kind, packet_id),
            data=bytes([first, 2]) + u16(packet_id),
            flags=["short_form"],
        )
    f.valid(f"{kind}-v31-id-1", "packet id 1 in 3.1", "3.1", ack(kind, 1), data=bytes([first, 2, 0, 1]))
    f.valid(
        f"{kind}-v5-reason-00-spelled-out",
        "Remaining Length 3 with reason 0x00",
        "5.0",
        ack(kind, 1),
        data=bytes([first, 3, 0, 1, 0]),
        encode_too=False,
        flags=["long_form", "short_form"],
    )
    f.valid(
        f"{kind}-v5-reason-00-empty-properties",
        "Remaining Length 4: reason 0x00 and an empty block",
        "5.0",
        ack(kind, 1),
        data=bytes([first, 4, 0, 1, 0, 0]),
        encode_too=False,
        flags=["long_form"],
    )
    for reason in REASONS[kind]:
        if reason:
            f.valid(
                f"{kind}-v5-reason-{reason:02x}",
                f"reason {reason:#04x}, Remaining Length 3",
                "5.0",
                ack(kind, 1, reason),
                data=bytes([first, 3, 0, 1, reason]),
                flags=["short_form", "reason_code"],
                statement=REASON_STATEMENTS[kind],
            )
            f.valid(
                f"{kind}-v5-reason-{reason:02x}-empty-properties",
                f"reason {reason:#04x} and an empty block",
                "5.0",
                ack(kind, 1, reason),
                data=bytes([first, 4, 0, 1, reason, 0]),
                encode_too=False,
                flags=["long_form", "reason_code"],
            )
    refusal = 0x92 if kind in ("pubrel", "pubcomp") else 0x87
    f.valid(
        f"{kind}-v5-reason-{refusal:02x}-reason-string",
        "a refusal that says why",
        "5.0",
        ack(kind, 7, refusal, ("reason_string", "no"), ("user_property", ("k", "v"))),
    )
    f.valid(
        f"{kind}-v5-success-reason-string",
        "success with a Reason String: nothing can be left out",
        "5.0",
        ack(kind, 7, 0, ("reason_string", "ok")),
    )
    for reason in ILLEGAL + ((0x10, 0x87) if refusal == 0x92 else (0x92,)):
        f.protocol_error(
            f"{kind}-v5-reason-{reason:02x}",
            f"reason {reason:#04x} is none of {name}",
            "5.0",
            bytes([first, 3, 0, 1, reason]),
            flags=["illegal_reason"],
            statement=REASON_STATEMENTS[kind],
        )
    f.protocol_error(
        f"{kind}-v5-reason-ff-with-properties",
        "an unknown reason before an empty block",
        "5.0",
        bytes([first, 4, 0, 1, 0xFF, 0]),
        flags=["illegal_reason"],
        statement=REASON_STATEMENTS[kind],
    )
    for version, tag in (("3.1.1", "v311"), ("5.0", "v5")):
        f.protocol_error(
            f"{kind}-{tag}-id-0",
            "packet id 0",
            version,
            bytes([first, 2, 0, 0]),
            flags=["packet_id_zero"],
            statement="2.2.1-3" if version == "5.0" else None,
        )
        f.malformed(f"{kind}-{tag}-empty", "no body", version, bytes([first, 0]), flags=["cut"])
        f.malformed(f"{kind}-{tag}-half-id", "one byte of the packet id", version, bytes([first, 1, 0]), flags=["cut"])
    f.malformed(
        f"{kind}-v311-reason", "3.1.1 has no reason code", "3.1.1", bytes([first, 3, 0, 1, 0]), flags=["trailing"]
    )
    f.malformed(
        f"{kind}-v311-reason-and-properties",
        "3.1.1 has neither",
        "3.1.1",
        bytes([first, 4, 0, 1, 0, 0]),
        flags=["trailing"],
    )
    f.malformed(
        f"{kind}-v5-trailing",
        "a byte behind the property block",
        "5.0",
        bytes([first, 5, 0, 1, 0, 0, 0]),
        flags=["trailing"],
    )
    f.malformed(
        f"{kind}-v5-trailing-after-properties",
        "a byte behind a property block that is not empty",
        "5.0",
        frame(first, u16(1) + b"\x00" + props([("reason_string", "r")]) + b"\x00"),
        flags=["trailing"],
    )
    f.malformed(
        f"{kind}-v5-properties-past-packet",
        "Property Length 1 and no property",
        "5.0",
        bytes([first, 4, 0, 1, 0, 1]),
        flags=["cut"],
    )
    return f
