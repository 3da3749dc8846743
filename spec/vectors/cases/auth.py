"""AUTH."""

from encoder import frame, props

from cases.carriers import METHOD
from cases.model import VectorFile, auth

DATA = ("authentication_data", b"\x00\x01\xff")


def build():
    f = VectorFile("auth")
    f.note("short_form", "Remaining Length 0 stands for success without properties.", None, "Several codecs refuse it.")
    f.note("long_form", "Legal, and longer than it need be.", None, "Not what an encoder writes.")
    f.note("reason_code", "One of the codes the packet may carry.", "MQTT-3.15.2-1", "An exchange that cannot go on.")
    f.note("illegal_reason", "A code the packet may not carry.", "MQTT-3.15.2-1", "A failure taken for success.")
    f.note("no_method", "No Authentication Method.", "MQTT-4.12.0-5", "Data of one method given to another.")
    f.note("trailing", "Bytes behind the last field.", None, "Smuggled data.")
    f.note("cut", "The packet ends inside a field.", None, "A stall.")
    f.valid("auth-v5-empty", "Remaining Length 0: success", "5.0", auth(), data=b"\xf0\x00", flags=["short_form"])
    f.valid(
        "auth-v5-reason-00-empty-properties",
        "success and an empty block",
        "5.0",
        auth(),
        data=b"\xf0\x02\x00\x00",
        encode_too=False,
        flags=["long_form"],
    )
    for reason in (0x00, 0x18, 0x19):
        f.valid(
            f"auth-v5-reason-{reason:02x}-method",
            f"reason {reason:#04x} with a method",
            "5.0",
            auth(reason, METHOD),
            flags=["reason_code"],
            statement="3.15.2-1",
        )
        f.valid(
            f"auth-v5-reason-{reason:02x}-method-and-data",
            f"reason {reason:#04x} with method and data",
            "5.0",
            auth(reason, METHOD, DATA),
            flags=["reason_code"],
            statement="3.15.2-1",
        )
        if reason:
            f.protocol_error(
                f"auth-v5-reason-{reason:02x}-no-method",
                f"reason {reason:#04x} without a method",
                "5.0",
                bytes([0xF0, 2, reason, 0]),
                flags=["no_method"],
            )
        f.protocol_error(
            f"auth-v5-reason-{reason:02x}-properties-no-method",
            "properties, and no method among them",
            "5.0",
            frame(0xF0, bytes([reason]) + props([("user_property", ("k", "v"))])),
            flags=["no_method"],
        )
        f.malformed(
            f"auth-v5-reason-{reason:02x}-only",
            "Remaining Length 1: the Property Length is missing",
            "5.0",
            bytes([0xF0, 1, reason]),
            flags=["cut"],
        )
    for reason in (0x01, 0x04, 0x17, 0x1A, 0x7F, 0x80, 0x87, 0x8C, 0xFF):
        f.protocol_error(
            f"auth-v5-reason-{reason:02x}",
            f"reason {reason:#04x} is none of AUTH",
            "5.0",
            frame(0xF0, bytes([reason]) + props([METHOD])),
            flags=["illegal_reason"],
            statement="3.15.2-1",
        )
    f.valid(
        "auth-v5-everything",
        "all properties",
        "5.0",
        auth(
            0x18, METHOD, DATA, ("reason_string", "go on"), ("user_property", ("k", "v")), ("user_property", ("k", "w"))
        ),
    )
    f.malformed(
        "auth-v5-trailing",
        "a byte behind the property block",
        "5.0",
        frame(0xF0, b"\x18" + props([METHOD]) + b"\x00"),
        flags=["trailing"],
    )
    f.malformed(
        "auth-v5-properties-past-packet", "Property Length 5 and no property", "5.0", b"\xf0\x02\x18\x05", flags=["cut"]
    )
    return f
