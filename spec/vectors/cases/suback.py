"""SUBACK and UNSUBACK."""

from encoder import REASONS, frame, u16

from cases.model import VectorFile, suback, unsuback

STATEMENTS = {"suback": "3.9.3-2", "unsuback": "3.11.3-2"}


def build():
    return [_file("suback", 0x90, suback), _file("unsuback", 0xB0, unsuback)]


def _file(kind, first, make):
    f = VectorFile(kind)
    statement = STATEMENTS[kind]
    f.note(
        "reason_code",
        "One of the codes the packet may carry.",
        "MQTT-" + statement,
        "Missing rows end lawful connections.",
    )
    f.note("illegal_reason", "A code the packet may not carry.", "MQTT-" + statement, "A refusal taken for a grant.")
    f.note("packet_id_zero", "Packet Identifier 0.", "MQTT-2.2.1-6", "Answers a request that cannot exist.")
    f.note(
        "no_reason",
        "No reason code at all.",
        None,
        "Every filter has an answer, and a request has at least one filter.",
    )
    f.note("cut", "The packet ends inside a field.", None, "A stall, or bytes of the next packet.")
    f.valid(
        f"{kind}-v5-basic", "id 10, one reason: 0x00", "5.0", make(0, packet_id=10), data=bytes([first, 4, 0, 10, 0, 0])
    )
    for reason in REASONS[kind]:
        f.valid(
            f"{kind}-v5-reason-{reason:02x}",
            f"reason {reason:#04x}",
            "5.0",
            make(reason),
            data=bytes([first, 4, 0, 1, 0, reason]),
            flags=["reason_code"],
            statement=statement,
        )
    illegal = (
        (0x03, 0x04, 0x10, 0x11, 0x18, 0x7F, 0x81, 0x82, 0x90, 0x92, 0xFF)
        if kind == "suback"
        else (0x01, 0x02, 0x10, 0x7F, 0x81, 0x90, 0x92, 0x97, 0x9E, 0xA1, 0xFF)
    )
    for reason in illegal:
        f.protocol_error(
            f"{kind}-v5-reason-{reason:02x}",
            f"reason {reason:#04x} is none of {kind.upper()}",
            "5.0",
            bytes([first, 4, 0, 1, 0, reason]),
            flags=["illegal_reason"],
            statement=statement,
        )
    f.protocol_error(
        f"{kind}-v5-second-reason-illegal",
        "the second reason is none",
        "5.0",
        bytes([first, 5, 0, 1, 0, 0, 0xFF]),
        flags=["illegal_reason"],
        statement=statement,
    )
    f.valid(
        f"{kind}-v5-all",
        "every reason in one packet, in order",
        "5.0",
        make(*REASONS[kind], packet_id=65_535),
        statement=statement.replace("-2", "-1"),
    )
    f.valid(f"{kind}-v5-many", "three hundred reasons", "5.0", make(*([0] * 300)))
    f.valid(
        f"{kind}-v5-reason-string",
        "a Reason String and a User Property",
        "5.0",
        make(0x80, items=[("reason_string", "no"), ("user_property", ("k", "v"))]),
    )
    f.protocol_error(f"{kind}-v5-no-reason", "no reason code", "5.0", bytes([first, 3, 0, 1, 0]), flags=["no_reason"])
    f.malformed(
        f"{kind}-v5-no-property-length",
        "the packet ends behind its id",
        "5.0",
        bytes([first, 2, 0, 1]),
        flags=["cut"],
        statement="2.2.2-1",
    )
    for version, tag in (("3.1.1", "v311"), ("5.0", "v5")):
        tail = {"suback": b"\x00", "unsuback": b""}[kind] if version == "3.1.1" else b"\x00\x00"
        f.protocol_error(
            f"{kind}-{tag}-id-0",
            "packet id 0",
            version,
            frame(first, u16(0) + tail),
            flags=["packet_id_zero"],
            statement="2.2.1-6" if version == "5.0" else "2.3.1-7",
        )
        f.malformed(f"{kind}-{tag}-empty", "no body", version, bytes([first, 0]), flags=["cut"])
        f.malformed(f"{kind}-{tag}-half-id", "one byte of the packet id", version, bytes([first, 1, 0]), flags=["cut"])
    if kind == "suback":
        for code in (0, 1, 2, 0x80):
            f.valid(
                f"suback-v311-code-{code:02x}",
                f"return code {code:#04x}",
                "3.1.1",
                suback(code),
                data=bytes([0x90, 3, 0, 1, code]),
                flags=["reason_code"],
                statement="3.9.3-2",
            )
        for code in (0x03, 0x7F, 0x81, 0x87, 0x8F, 0xFF):
            f.protocol_error(
                f"suback-v311-code-{code:02x}",
                f"return code {code:#04x} is reserved",
                "3.1.1",
                bytes([0x90, 3, 0, 1, code]),
                flags=["illegal_reason"],
                statement="3.9.3-2",
            )
        f.valid(
            "suback-v311-four",
            "four codes in order",
            "3.1.1",
            suback(2, 0x80, 0, 1, packet_id=65_535),
            statement="3.9.3-1",
        )
        f.valid("suback-v31-two", "two codes in 3.1", "3.1", suback(1, 2))
        f.protocol_error("suback-v311-no-code", "no return code", "3.1.1", bytes([0x90, 2, 0, 1]), flags=["no_reason"])
    else:
        f.note("trailing", "3.1.1 has no reason codes.", None, "Smuggled data.")
        for packet_id in (1, 256, 65_535):
            f.valid(
                f"unsuback-v311-id-{packet_id}",
                f"packet id {packet_id}",
                "3.1.1",
                unsuback(packet_id=packet_id),
                data=b"\xb0\x02" + u16(packet_id),
            )
        f.valid("unsuback-v31-id-1", "packet id 1 in 3.1", "3.1", unsuback(), data=b"\xb0\x02\x00\x01")
        f.malformed(
            "unsuback-v311-with-code",
            "a code that 3.1.1 does not have",
            "3.1.1",
            b"\xb0\x03\x00\x01\x00",
            flags=["trailing"],
        )
    return f
