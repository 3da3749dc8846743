"""Fixed header: types, reserved flags, packet size, input that ends early, bytes after a packet."""

from encoder import ACKS, PACKET_TYPES, frame, text

from cases.carriers import FIRST_BYTES, smallest
from cases.model import VectorFile, ack, auth, disconnect, publish, request, subscribe, unsubscribe

TAGS = {"3.1.1": "v311", "5.0": "v5"}
# The statement about the flags of a packet, if the packet has its own statement.
OWN_FLAG_STATEMENTS = {
    "pubrel": ("3.6.1-1", "3.6.1-1"),
    "subscribe": ("3.8.1-1", "3.8.1-1"),
    "unsubscribe": ("3.10.1-1", "3.10.1-1"),
    "disconnect": ("3.14.1-1", "3.14.1-1"),
    "auth": ("3.15.1-1", None),
}
# The packets other than PUBLISH that 3.1 sends at QoS 1, and may therefore send again with DUP (its section 2.1).
RESENT_IN_3_1 = {
    "pubrel": lambda: ack("pubrel", 10),
    "subscribe": lambda: subscribe(request("a/b", 1), packet_id=10),
    "unsubscribe": lambda: unsubscribe("a/b", packet_id=10),
}
DUP = 0x08


def build():
    f = VectorFile("fixed-header")
    f.note(
        "reserved_flags",
        "Flag bits other than those the standard lists for the packet type.",
        "MQTT-2.1.3-1",
        "A codec that ignores them lets a corrupt stream go on, and accepts what a later version may define.",
    )
    f.note(
        "dup_in_3_1",
        "DUP on PUBREL, SUBSCRIBE or UNSUBSCRIBE, which 3.1 sets when it sends them again.",
        None,
        "A codec that knows the flags of 3.1.1 alone ends the connection of a 3.1 client at its first resend.",
    )
    f.note(
        "followed",
        "Another packet follows in the same input.",
        None,
        "A decoder that reads a short form by what is in the buffer, not by Remaining Length, eats the next packet.",
    )
    f.note(
        "large_claim",
        "The header claims far more than has arrived.",
        None,
        "A decoder that reserves the claimed length can be made to allocate 256 MB by five bytes.",
    )
    f.note(
        "size_limit",
        "The packet meets or passes the receiver's Maximum Packet Size.",
        "MQTT-3.2.2-15",
        "The size counts the fixed header too: counting Remaining Length alone is off by two to five bytes.",
    )
    _types(f)
    _reserved_flags(f)
    _dup_in_3_1(f)
    _size_limit(f)
    _incomplete(f)
    _followed(f)
    return f


def _types(f):
    for version, tag in TAGS.items():
        f.malformed(f"fixed-{tag}-type-0", "packet type 0 is reserved", version, b"\x00\x00")
        f.malformed(f"fixed-{tag}-type-0-with-body", "packet type 0 with a body", version, b"\x00\x02\x00\x01")
    f.malformed("fixed-v311-type-15", "AUTH does not exist in 3.1.1: type 15 is reserved", "3.1.1", b"\xf0\x00")
    f.malformed("fixed-v31-type-15", "AUTH does not exist in 3.1: type 15 is reserved", "3.1", b"\xf0\x00")


def _reserved_flags(f):
    for version, tag in TAGS.items():
        for kind, (_number, right) in PACKET_TYPES.items():
            if kind == "publish" or (kind == "auth" and version != "5.0"):
                continue
            general = "2.1.3-1" if version == "5.0" else "2.2.2-2"
            statement = OWN_FLAG_STATEMENTS.get(kind, (general, general))[version != "5.0"]
            resent = (right | DUP,) if kind in RESENT_IN_3_1 else ()
            for flags in (0, 1, 2, 4, 8, *resent, 15) if version == "5.0" else (0, 2, *resent, 15):
                if flags == right:
                    continue
                f.malformed(
                    f"fixed-{tag}-{kind}-flags-{flags:x}",
                    f"{kind.upper()} with flags {flags:04b}",
                    version,
                    frame(FIRST_BYTES[kind] & 0xF0 | flags, smallest(kind, version)),
                    flags=["reserved_flags"],
                    statement=statement,
                )


def _dup_in_3_1(f):
    """DUP only marks a packet that is sent again: it is not part of the decoded packet, and no encoder writes it."""
    data = {
        "pubrel": bytes.fromhex("6a02000a"),
        "subscribe": bytes.fromhex("8a08000a0003612f6201"),
        "unsubscribe": bytes.fromhex("aa07000a0003612f62"),
    }
    for kind, packet in RESENT_IN_3_1.items():
        f.valid(
            f"fixed-v31-{kind}-dup",
            f"{kind.upper()} sent again",
            "3.1",
            packet(),
            data=data[kind],
            encode_too=False,
            flags=["dup_in_3_1"],
        )
        f.valid(
            f"fixed-v31-{kind}-dup-followed",
            f"{kind.upper()} sent again, then PINGREQ",
            "3.1",
            packet(),
            data=data[kind],
            encode_too=False,
            rest=b"\xc0\x00",
            flags=["dup_in_3_1", "followed"],
        )
        f.too_large(
            f"fixed-v31-{kind}-dup-too-large",
            f"{kind.upper()} sent again, one byte over the limit",
            "3.1",
            data[kind],
            len(data[kind]) - 1,
            flags=["dup_in_3_1", "size_limit"],
        )
    f.valid(
        "fixed-v31-subscribe-dup-two-byte-length",
        "SUBSCRIBE sent again, Remaining Length 133 in two bytes",
        "3.1",
        subscribe(request("f" * 128, 1), packet_id=10),
        data=bytes.fromhex("8a8501000a0080") + b"f" * 128 + b"\x01",
        encode_too=False,
        flags=["dup_in_3_1"],
    )
    for kind, (_number, right) in PACKET_TYPES.items():
        if kind in ("publish", "auth"):
            continue
        legal = (right, right | DUP) if kind in RESENT_IN_3_1 else (right,)
        for flags in (0, 1, 2, 4, 8, 10, 11, 14, 15):
            if flags in legal:
                continue
            f.malformed(
                f"fixed-v31-{kind}-flags-{flags:x}",
                f"{kind.upper()} with flags {flags:04b}",
                "3.1",
                frame(FIRST_BYTES[kind] & 0xF0 | flags, smallest(kind, "3.1")),
                flags=["reserved_flags"],
            )


def _size_limit(f):
    for version, tag in TAGS.items():
        # 12 + 2 bytes in all.
        packet = publish("topic", b"hello" if version == "3.1.1" else b"hell")
        data = bytes.fromhex("300c0005746f70696368656c6c6f" if version == "3.1.1" else "300c0005746f7069630068656c6c")
        for limit in (14, 15, 268_435_460):
            f.valid(
                f"fixed-{tag}-size-limit-{limit}",
                f"14 bytes in all where {limit} are allowed",
                version,
                packet,
                data=data,
                max_packet_size=limit,
                flags=["size_limit"],
            )
        for limit in (13, 12, 2):
            f.too_large(
                f"fixed-{tag}-size-limit-{limit}",
                f"14 bytes in all where {limit} are allowed",
                version,
                data,
                limit,
                flags=["size_limit"],
                statement="3.2.2-15" if version == "5.0" else None,
            )
        f.too_large(
            f"fixed-{tag}-too-large-header-only",
            "the header alone shows it: nothing of the body has come",
            version,
            b"\x30\x0c",
            13,
            flags=["size_limit"],
        )
        f.too_large(
            f"fixed-{tag}-too-large-256-mb",
            "five bytes that claim 256 MB where 1 MB is allowed",
            version,
            b"\x30\xff\xff\xff\x7f",
            1_048_576,
            flags=["size_limit", "large_claim"],
        )
        f.too_large(
            f"fixed-{tag}-too-large-connect",
            "a CONNECT has its size limit before anything in it is known",
            version,
            b"\x10\x80\x80\x80\x01",
            65_536,
            flags=["size_limit", "large_claim"],
        )
    f.too_large(
        "fixed-v5-too-large-subscribe",
        "SUBSCRIBE one byte over the limit",
        "5.0",
        frame(0x82, smallest("subscribe", "5.0")),
        8,
        flags=["size_limit"],
    )


def _incomplete(f):
    for version, tag in TAGS.items():
        f.incomplete(f"fixed-{tag}-empty", "no byte at all", version, b"")
        f.incomplete(f"fixed-{tag}-first-byte-only", "only the first byte", version, b"\x30")
        for count, data in ((1, b"\x30\x80"), (2, b"\x30\x80\x80"), (3, b"\x30\x80\x80\x80")):
            f.incomplete(
                f"fixed-{tag}-length-cut-{count}", f"Remaining Length ends after {count} of its bytes", version, data
            )
        f.incomplete(f"fixed-{tag}-no-body", "a whole header and no body", version, b"\x30\x05")
        f.incomplete(
            f"fixed-{tag}-body-one-short", "the last byte of the body lacks", version, b"\x30\x05\x00\x01t\x00"
        )
        f.incomplete(
            f"fixed-{tag}-claims-256-mb",
            "the largest Remaining Length, with no size limit: wait, and reserve nothing",
            version,
            b"\x30\xff\xff\xff\x7f\x00\x01t",
            flags=["large_claim"],
        )
        f.incomplete(
            f"fixed-{tag}-connect-claims-256-mb",
            "the same as a CONNECT",
            version,
            b"\x10\xff\xff\xff\x7f" + text("MQTT"),
            flags=["large_claim"],
        )
    f.incomplete("fixed-v5-pingreq-cut", "PINGREQ without its length", "5.0", b"\xc0")
    f.incomplete("fixed-v5-disconnect-cut", "DISCONNECT without its length is not the short form", "5.0", b"\xe0")


def _followed(f):
    pingreq = b"\xc0\x00"
    for version, tag in TAGS.items():
        f.valid(
            f"fixed-{tag}-pingreq-followed",
            "PINGREQ, then another",
            version,
            {"type": "pingreq"},
            data=b"\xc0\x00",
            rest=pingreq,
            flags=["followed"],
        )
        f.valid(
            f"fixed-{tag}-publish-followed",
            "PUBLISH, then a part of the next packet",
            version,
            publish("t", b"x"),
            rest=b"\x30",
            flags=["followed"],
        )
        for kind in ACKS:
            f.valid(
                f"fixed-{tag}-{kind}-followed",
                f"{kind.upper()} of Remaining Length 2, then PINGREQ",
                version,
                ack(kind, 1),
                rest=pingreq,
                flags=["followed"],
            )
    f.valid(
        "fixed-v5-disconnect-0-followed",
        "DISCONNECT of Remaining Length 0, then PINGREQ: its first byte is no reason code",
        "5.0",
        disconnect(),
        data=b"\xe0\x00",
        rest=pingreq,
        flags=["followed"],
    )
    f.valid(
        "fixed-v5-disconnect-1-followed",
        "DISCONNECT of Remaining Length 1, then a byte that is no property length",
        "5.0",
        disconnect(0x04),
        data=b"\xe0\x01\x04",
        rest=pingreq,
        flags=["followed"],
    )
    f.valid(
        "fixed-v5-auth-0-followed",
        "AUTH of Remaining Length 0, then PINGREQ",
        "5.0",
        auth(),
        data=b"\xf0\x00",
        rest=pingreq,
        flags=["followed"],
    )
    f.valid(
        "fixed-v5-puback-3-followed",
        "PUBACK of Remaining Length 3, then a byte that is no property length",
        "5.0",
        ack("puback", 1, 0x10),
        data=b"\x40\x03\x00\x01\x10",
        rest=b"\x00",
        flags=["followed"],
    )
