"""DISCONNECT."""

from encoder import REASONS, frame, props

from cases.model import VectorFile, disconnect


def build():
    f = VectorFile("disconnect")
    f.note(
        "short_form",
        "Reason code and properties, or properties alone, are left out.",
        None,
        "Remaining Length 0 is the normal end of a connection; codecs that refuse it have the will published.",
    )
    f.note("long_form", "Legal, and longer than it need be.", None, "Not what an encoder writes.")
    f.note(
        "reason_code",
        "One of the codes the packet may carry.",
        "MQTT-3.14.2-1",
        "Missing rows hide why a connection ended.",
    )
    f.note(
        "illegal_reason", "A code the packet may not carry.", "MQTT-3.14.2-1", "An unknown code taken for a normal end."
    )
    f.note("trailing", "Bytes behind the last field.", None, "Smuggled data.")
    f.note("cut", "The packet ends inside a field.", None, "A stall.")
    for version, tag in (("3.1", "v31"), ("3.1.1", "v311")):
        f.valid(f"disconnect-{tag}", "DISCONNECT", version, disconnect(), data=b"\xe0\x00")
        f.malformed(
            f"disconnect-{tag}-reason", "no reason code before 5.0", version, b"\xe0\x01\x00", flags=["trailing"]
        )
        f.malformed(
            f"disconnect-{tag}-reason-and-properties",
            "nor properties",
            version,
            b"\xe0\x02\x00\x00",
            flags=["trailing"],
        )
    f.valid(
        "disconnect-v5-empty",
        "Remaining Length 0: normal disconnection",
        "5.0",
        disconnect(),
        data=b"\xe0\x00",
        flags=["short_form"],
    )
    f.valid(
        "disconnect-v5-reason-00-spelled-out",
        "Remaining Length 1 with reason 0x00",
        "5.0",
        disconnect(),
        data=b"\xe0\x01\x00",
        encode_too=False,
        flags=["short_form", "long_form"],
    )
    f.valid(
        "disconnect-v5-reason-00-empty-properties",
        "Remaining Length 2 with an empty block",
        "5.0",
        disconnect(),
        data=b"\xe0\x02\x00\x00",
        encode_too=False,
        flags=["long_form"],
    )
    for reason in REASONS["disconnect"]:
        if reason:
            f.valid(
                f"disconnect-v5-reason-{reason:02x}",
                f"reason {reason:#04x}",
                "5.0",
                disconnect(reason),
                data=bytes([0xE0, 1, reason]),
                flags=["short_form", "reason_code"],
                statement="3.14.2-1",
            )
            f.valid(
                f"disconnect-v5-reason-{reason:02x}-empty-properties",
                f"reason {reason:#04x} and an empty block",
                "5.0",
                disconnect(reason),
                data=bytes([0xE0, 2, reason, 0]),
                encode_too=False,
                flags=["long_form", "reason_code"],
            )
    for reason in (0x01, 0x02, 0x10, 0x11, 0x18, 0x19, 0x7F, 0x84, 0x85, 0x86, 0x88, 0x91, 0x92, 0xA3, 0xFF):
        f.protocol_error(
            f"disconnect-v5-reason-{reason:02x}",
            f"reason {reason:#04x} is none of DISCONNECT",
            "5.0",
            bytes([0xE0, 1, reason]),
            flags=["illegal_reason"],
            statement="3.14.2-1",
        )
    f.valid(
        "disconnect-v5-with-will",
        "reason 0x04 with a Session Expiry Interval",
        "5.0",
        disconnect(0x04, ("session_expiry_interval", 0)),
    )
    f.valid(
        "disconnect-v5-normal-session-expiry",
        "normal, and a Session Expiry Interval: nothing can be left out",
        "5.0",
        disconnect(0, ("session_expiry_interval", 86_400)),
    )
    f.valid(
        "disconnect-v5-moved",
        "use another server, with all properties a server sends",
        "5.0",
        disconnect(0x9C, ("reason_string", "moved"), ("server_reference", "other:1883"), ("user_property", ("k", "v"))),
    )
    f.malformed(
        "disconnect-v5-trailing", "a byte behind the property block", "5.0", b"\xe0\x03\x00\x00\x00", flags=["trailing"]
    )
    f.malformed(
        "disconnect-v5-trailing-after-properties",
        "a byte behind a property block that is not empty",
        "5.0",
        frame(0xE0, b"\x00" + props([("reason_string", "r")]) + b"\x00"),
        flags=["trailing"],
    )
    f.malformed(
        "disconnect-v5-properties-past-packet",
        "Property Length 5 and no property",
        "5.0",
        b"\xe0\x02\x00\x05",
        flags=["cut"],
    )
    return f
