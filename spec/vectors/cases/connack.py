"""CONNACK."""

from encoder import REASONS, RETURN_CODES, frame, props

from cases.model import VectorFile, connack

V3_NAMES = {
    0: "accepted",
    1: "unacceptable protocol version",
    2: "identifier rejected",
    3: "server unavailable",
    4: "bad user name or password",
    5: "not authorised",
}


def build():
    f = VectorFile("connack")
    f.note(
        "reason_code",
        "One of the codes the packet may carry.",
        "MQTT-3.2.2-8",
        "Missing rows of the table end lawful connections.",
    )
    f.note("illegal_reason", "A code the packet may not carry.", "MQTT-3.2.2-8", "An unknown code taken for success.")
    f.note(
        "acknowledge_flags",
        "Connect Acknowledge Flags.",
        "MQTT-3.2.2-1",
        "Session Present misread: messages lost or sent twice.",
    )
    f.note("trailing", "Bytes behind the last field.", None, "Smuggled data.")
    f.note("cut", "The packet ends inside a field.", None, "Fields taken for zero, which means success here.")
    f.valid("connack-v311-accepted", "accepted, no session", "3.1.1", connack(), data=bytes.fromhex("20020000"))
    f.valid(
        "connack-v311-session-present",
        "accepted, session present",
        "3.1.1",
        connack(session_present=True),
        data=bytes.fromhex("20020100"),
        statement="3.2.2-2",
    )
    f.valid("connack-v31-accepted", "accepted in 3.1", "3.1", connack(), data=bytes.fromhex("20020000"))
    f.valid(
        "connack-v5-success",
        "success, no session",
        "5.0",
        connack(),
        data=bytes.fromhex("2003000000"),
        statement="2.2.2-1",
    )
    f.valid(
        "connack-v5-session-present",
        "success, session present",
        "5.0",
        connack(session_present=True),
        data=bytes.fromhex("2003010000"),
        statement="3.2.2-3",
    )
    for reason, code in RETURN_CODES.items():
        if code:
            f.valid(
                f"connack-v311-return-code-{code}",
                f"return code {code}: {V3_NAMES[code]}",
                "3.1.1",
                connack(reason),
                data=bytes([0x20, 2, 0, code]),
                flags=["reason_code"],
            )
            f.valid(
                f"connack-v31-return-code-{code}",
                f"return code {code}: {V3_NAMES[code]}",
                "3.1",
                connack(reason),
                data=bytes([0x20, 2, 0, code]),
                flags=["reason_code"],
            )
    for code in (6, 7, 0x80, 0x84, 0xFF):
        f.protocol_error(
            f"connack-v311-return-code-{code}",
            f"return code {code} is reserved",
            "3.1.1",
            bytes([0x20, 2, 0, code]),
            flags=["illegal_reason"],
        )
    for reason in REASONS["connack"]:
        if reason:
            f.valid(
                f"connack-v5-reason-{reason:02x}",
                f"reason {reason:#04x}",
                "5.0",
                connack(reason),
                data=bytes([0x20, 3, 0, reason, 0]),
                flags=["reason_code"],
                statement="3.2.2-8",
            )
    for reason in (0x01, 0x04, 0x10, 0x18, 0x7F, 0x8B, 0x8D, 0x8E, 0x8F, 0x91, 0x93, 0x9E, 0xA0, 0xA1, 0xA2, 0xFF):
        f.protocol_error(
            f"connack-v5-reason-{reason:02x}",
            f"reason {reason:#04x} is none of CONNACK",
            "5.0",
            bytes([0x20, 3, 0, reason, 0]),
            flags=["illegal_reason"],
            statement="3.2.2-8",
        )
    for version, tag, tail in (("3.1.1", "v311", b""), ("5.0", "v5", b"\x00")):
        for flags in (0x02, 0x80, 0xFE, 0xFF):
            f.malformed(
                f"connack-{tag}-flags-{flags:02x}",
                f"acknowledge flags {flags:08b}",
                version,
                frame(0x20, bytes([flags, 0]) + tail),
                flags=["acknowledge_flags"],
                statement="3.2.2-1" if version == "5.0" else None,
            )
        f.protocol_error(
            f"connack-{tag}-session-present-refused",
            "Session Present with a refusal",
            version,
            frame(0x20, bytes([1, 0x87 if version == "5.0" else 5]) + tail),
            flags=["acknowledge_flags"],
            statement="3.2.2-6" if version == "5.0" else "3.2.2-4",
        )
        f.malformed(f"connack-{tag}-empty", "no body", version, b"\x20\x00", flags=["cut"])
        f.malformed(f"connack-{tag}-one-byte", "no reason code", version, b"\x20\x01\x00", flags=["cut"])
        f.malformed(
            f"connack-{tag}-trailing",
            "a byte behind the last field",
            version,
            frame(0x20, b"\x00\x00" + tail + b"\x00"),
            flags=["trailing"],
        )
    f.valid(
        "connack-v5-usual",
        "what a server usually says",
        "5.0",
        connack(
            0,
            ("session_expiry_interval", 60),
            ("receive_maximum", 20),
            ("maximum_qos", 1),
            ("retain_available", 1),
            ("maximum_packet_size", 1_048_576),
            ("assigned_client_identifier", "auto-7f3a"),
            ("topic_alias_maximum", 10),
            ("reason_string", "welcome"),
            ("user_property", ("node", "1")),
            ("server_keep_alive", 120),
        ),
    )
    f.valid(
        "connack-v5-refused-with-reason-string",
        "a refusal that says why",
        "5.0",
        connack(0x86, ("reason_string", "wrong password")),
    )
    f.malformed(
        "connack-v5-trailing-after-properties",
        "a byte behind the property block",
        "5.0",
        frame(0x20, b"\x00\x00" + props([("receive_maximum", 1)]) + b"\x00"),
        flags=["trailing"],
    )
    return f
