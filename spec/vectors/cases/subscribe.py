"""SUBSCRIBE and UNSUBSCRIBE."""

from encoder import frame, props, text, u16

from cases.model import VectorFile, request, subscribe, unsubscribe

TAGS = {"3.1.1": "v311", "5.0": "v5"}
FILTERS = {
    "plain": "a/b",
    "hash": "#",
    "plus": "+",
    "plus-hash": "+/#",
    "hash-last": "a/b/#",
    "plus-middle": "a/+/b",
    "plus-plus": "+/+",
    "slash": "/",
    "slash-plus": "/+",
    "plus-slash": "+/",
    "empty-levels": "a//b",
    "empty-levels-hash": "//#",
    "space": " ",
    "dollar-sys": "$SYS/#",
    "dollar": "$",
    "share-word": "$share",
    "share-words": "$shared/g/f",
    "share-upper-case": "$SHARE/g",
    "unicode": "ключ/+/#",
}
BAD_FILTERS = {
    "empty": ("", "4.7.3-1", "4.7.3-1"),
    "hash-not-last": ("a/#/b", "4.7.1-1", "4.7.1-2"),
    "hash-slash": ("#/", "4.7.1-1", "4.7.1-2"),
    "hash-in-level": ("a#", "4.7.1-1", "4.7.1-2"),
    "hash-in-last-level": ("a/b#", "4.7.1-1", "4.7.1-2"),
    "hash-hash": ("##", "4.7.1-1", "4.7.1-2"),
    "hash-before": ("#a", "4.7.1-1", "4.7.1-2"),
    "plus-behind": ("a+", "4.7.1-2", "4.7.1-3"),
    "plus-before": ("+a", "4.7.1-2", "4.7.1-3"),
    "plus-plus": ("++", "4.7.1-2", "4.7.1-3"),
    "plus-hash-together": ("+#", "4.7.1-1", "4.7.1-2"),
    "plus-in-level": ("x/a+b/y", "4.7.1-2", "4.7.1-3"),
}
SHARED = {
    "plain": "$share/g/a",
    "wildcards": "$share/g/a/+/#",
    "hash": "$share/g/#",
    "slash": "$share/g//",
    "long-name": "$share/my group.1/a",
    "dollar": "$share/g/$SYS/#",
    "unicode": "$share/gruppe-ü/ä",
}
BAD_SHARED = {
    "no-name": ("$share//a", "4.8.2-1"),
    "nothing": ("$share/", "4.8.2-1"),
    "no-filter": ("$share/g", "4.8.2-2"),
    "empty-filter": ("$share/g/", "4.8.2-2"),
    "name-plus": ("$share/+/a", "4.8.2-2"),
    "name-hash": ("$share/#/a", "4.8.2-2"),
    "name-with-plus": ("$share/g+/a", "4.8.2-2"),
    "name-with-hash": ("$share/g#x/a", "4.8.2-2"),
    "no-name-no-filter": ("$share//", "4.8.2-1"),
    "bad-filter-hash": ("$share/g/#/a", "4.7.1-1"),
    "bad-filter-plus": ("$share/g/a+", "4.7.1-2"),
}


def build():
    return [_subscribe(), _unsubscribe()]


def _notes(f):
    f.note("filter", "A Topic Filter that is one.", "MQTT-4.7.1-2", "Lawful filters refused.")
    f.note(
        "bad_filter",
        "A Topic Filter that breaks the rules of wildcards.",
        "MQTT-4.7.1-1",
        "Brokers disagree on what it matches.",
    )
    f.note("shared", "A shared subscription.", "MQTT-4.8.2-1", "Group names and filters mixed up.")
    f.note("packet_id_zero", "Packet Identifier 0.", "MQTT-2.2.1-3", "The acknowledgement cannot be told from none.")
    f.note("no_filter", "No Topic Filter at all.", "MQTT-3.8.3-2", "A packet that asks for nothing.")
    f.note("cut", "The packet ends inside a field.", None, "A request taken for whole, options taken for 0.")


def _subscribe():
    f = VectorFile("subscribe")
    _notes(f)
    f.note(
        "options", "Subscription Options.", "MQTT-3.8.3-5", "Reserved bits and values that do not exist, masked away."
    )
    f.note("no_local_shared", "No Local on a shared subscription.", "MQTT-3.8.3-4", "Messages of group members vanish.")
    f.valid(
        "subscribe-v311-basic",
        "a/b, QoS 1, id 10",
        "3.1.1",
        subscribe(request("a/b", 1), packet_id=10),
        data=bytes.fromhex("8208000a0003612f6201"),
    )
    f.valid(
        "subscribe-v5-basic",
        "a/b, QoS 1, id 10",
        "5.0",
        subscribe(request("a/b", 1), packet_id=10),
        data=bytes.fromhex("8209000a000003612f6201"),
    )
    f.valid(
        "subscribe-v31-basic",
        "a/b, QoS 1, id 10",
        "3.1",
        subscribe(request("a/b", 1), packet_id=10),
        data=bytes.fromhex("8208000a0003612f6201"),
    )
    for version, tag in TAGS.items():
        none = b"\x00" if version == "5.0" else b""
        for qos in (0, 1, 2):
            f.valid(f"subscribe-{tag}-qos{qos}", f"QoS {qos}", version, subscribe(request("f", qos)), statement=None)
        for name, topic_filter in FILTERS.items():
            f.valid(
                f"subscribe-{tag}-filter-{name}",
                f"filter {topic_filter!r}",
                version,
                subscribe(request(topic_filter)),
                flags=["filter"],
            )
        f.valid(
            f"subscribe-{tag}-three",
            "three filters, three QoS",
            version,
            subscribe(request("a", 0), request("b/+", 1), request("c/#", 2), packet_id=65_535),
        )
        f.valid(
            f"subscribe-{tag}-same-twice",
            "the same filter twice: both answered",
            version,
            subscribe(request("a", 0), request("a", 2)),
        )
        f.valid(
            f"subscribe-{tag}-fifty",
            "fifty filters",
            version,
            subscribe(*(request(f"many/{n}", n % 3) for n in range(50))),
        )
        f.valid(
            f"subscribe-{tag}-filter-65535",
            "the longest filter",
            version,
            subscribe(request("f" * 65_535, 1)),
            flags=["filter"],
            statement="4.7.3-3",
        )
        f.valid(
            f"subscribe-{tag}-shared",
            "a shared subscription",
            version,
            subscribe(request("$share/g/a/b", 1)),
            flags=["shared"],
        )
        for name, (topic_filter, v5_statement, v3_statement) in BAD_FILTERS.items():
            f.protocol_error(
                f"subscribe-{tag}-bad-filter-{name}",
                f"filter {topic_filter!r}",
                version,
                frame(0x82, u16(1) + none + text(topic_filter) + b"\x00"),
                0x8F,
                flags=["bad_filter"],
                statement=v5_statement if version == "5.0" else v3_statement,
            )
        f.protocol_error(
            f"subscribe-{tag}-second-filter-bad",
            "the second filter is none",
            version,
            frame(0x82, u16(1) + none + text("a") + b"\x00" + text("a/#/b") + b"\x00"),
            0x8F,
            flags=["bad_filter"],
            statement="4.7.1-1" if version == "5.0" else "4.7.1-2",
        )
        f.protocol_error(
            f"subscribe-{tag}-id-0",
            "packet id 0",
            version,
            frame(0x82, u16(0) + none + text("a") + b"\x00"),
            flags=["packet_id_zero"],
            statement="2.2.1-3" if version == "5.0" else "2.3.1-1",
        )
        f.protocol_error(
            f"subscribe-{tag}-no-filter",
            "no filter",
            version,
            frame(0x82, u16(1) + none),
            flags=["no_filter"],
            statement="3.8.3-2" if version == "5.0" else "3.8.3-3",
        )
        f.malformed(f"subscribe-{tag}-empty", "no body", version, b"\x82\x00", flags=["cut"])
        f.malformed(
            f"subscribe-{tag}-no-options",
            "the packet ends before the options",
            version,
            frame(0x82, u16(1) + none + text("a")),
            flags=["cut"],
        )
        f.malformed(
            f"subscribe-{tag}-second-no-options",
            "the packet ends before the second options",
            version,
            frame(0x82, u16(1) + none + text("a") + b"\x00" + text("b")),
            flags=["cut"],
        )
        f.malformed(
            f"subscribe-{tag}-filter-past-packet",
            "the filter runs past the packet",
            version,
            frame(0x82, u16(1) + none + u16(9) + b"a\x00"),
            flags=["cut"],
        )
        f.malformed(
            f"subscribe-{tag}-trailing",
            "a byte behind the last request",
            version,
            frame(0x82, u16(1) + none + text("a") + b"\x00" + b"\x00"),
            flags=["cut"],
        )
    _options(f)
    for name, topic_filter in SHARED.items():
        f.valid(
            f"subscribe-v5-shared-{name}",
            f"filter {topic_filter!r}",
            "5.0",
            subscribe(request(topic_filter, 1)),
            flags=["shared"],
        )
    for name, (topic_filter, statement) in BAD_SHARED.items():
        f.protocol_error(
            f"subscribe-v5-bad-share-{name}",
            f"filter {topic_filter!r}",
            "5.0",
            frame(0x82, u16(1) + b"\x00" + text(topic_filter) + b"\x00"),
            0x8F,
            flags=["shared", "bad_filter"],
            statement=statement,
        )
    for options in (0x04, 0x05, 0x2E):
        f.protocol_error(
            f"subscribe-v5-shared-no-local-{options:02x}",
            f"No Local on a shared subscription, options {options:#04x}",
            "5.0",
            frame(0x82, u16(1) + b"\x00" + text("$share/g/a") + bytes([options])),
            flags=["no_local_shared"],
            statement="3.8.3-4",
        )
    f.valid(
        "subscribe-v5-no-local-share-word",
        "$share alone is an ordinary filter: No Local may stand",
        "5.0",
        subscribe(request("$share", 0, no_local=True)),
    )
    return f


def _options(f):
    for qos in (0, 1, 2):
        for no_local in (False, True):
            for retain_as_published in (False, True):
                for retain_handling in (0, 1, 2):
                    one = request("f", qos, no_local, retain_as_published, retain_handling)
                    bits = qos | no_local << 2 | retain_as_published << 3 | retain_handling << 4
                    if bits > 2:
                        f.valid(
                            f"subscribe-v5-options-{bits:02x}",
                            f"options {bits:08b}",
                            "5.0",
                            subscribe(one),
                            flags=["options"],
                        )
    for bits in (0x03, 0x07, 0x0B, 0x23, 0x30, 0x31, 0x3C):
        what = "Maximum QoS 3" if bits & 3 == 3 else "Retain Handling 3"
        f.protocol_error(
            f"subscribe-v5-options-{bits:02x}",
            what,
            "5.0",
            frame(0x82, u16(1) + b"\x00" + text("f") + bytes([bits])),
            flags=["options"],
        )
    for bits in (0x40, 0x80, 0xC0, 0x41):
        f.malformed(
            f"subscribe-v5-options-{bits:02x}",
            "reserved bits",
            "5.0",
            frame(0x82, u16(1) + b"\x00" + text("f") + bytes([bits])),
            flags=["options"],
            statement="3.8.3-5",
        )
    for bits in (0x03, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF):
        f.malformed(
            f"subscribe-v311-qos-byte-{bits:02x}",
            "QoS 3 or reserved bits",
            "3.1.1",
            frame(0x82, u16(1) + text("f") + bytes([bits])),
            flags=["options"],
            statement="3.8.3-4",
        )


def _unsubscribe():
    f = VectorFile("unsubscribe")
    _notes(f)
    f.valid(
        "unsubscribe-v311-basic",
        "a/b, id 10",
        "3.1.1",
        unsubscribe("a/b", packet_id=10),
        data=bytes.fromhex("a207000a0003612f62"),
    )
    f.valid(
        "unsubscribe-v5-basic",
        "a/b, id 10",
        "5.0",
        unsubscribe("a/b", packet_id=10),
        data=bytes.fromhex("a208000a000003612f62"),
    )
    f.valid(
        "unsubscribe-v31-basic",
        "a/b, id 10",
        "3.1",
        unsubscribe("a/b", packet_id=10),
        data=bytes.fromhex("a207000a0003612f62"),
    )
    for version, tag in TAGS.items():
        none = b"\x00" if version == "5.0" else b""
        for name, topic_filter in FILTERS.items():
            f.valid(
                f"unsubscribe-{tag}-filter-{name}",
                f"filter {topic_filter!r}",
                version,
                unsubscribe(topic_filter),
                flags=["filter"],
            )
        f.valid(f"unsubscribe-{tag}-three", "three filters", version, unsubscribe("a", "b/+", "c/#", packet_id=65_535))
        f.valid(f"unsubscribe-{tag}-same-twice", "the same filter twice: both answered", version, unsubscribe("a", "a"))
        f.valid(
            f"unsubscribe-{tag}-filter-65535",
            "the longest filter",
            version,
            unsubscribe("f" * 65_535, "g"),
            flags=["filter"],
        )
        for name, (topic_filter, v5_statement, v3_statement) in BAD_FILTERS.items():
            f.protocol_error(
                f"unsubscribe-{tag}-bad-filter-{name}",
                f"filter {topic_filter!r}",
                version,
                frame(0xA2, u16(1) + none + text(topic_filter)),
                0x8F,
                flags=["bad_filter"],
                statement=v5_statement if version == "5.0" else v3_statement,
            )
        f.protocol_error(
            f"unsubscribe-{tag}-id-0",
            "packet id 0",
            version,
            frame(0xA2, u16(0) + none + text("a")),
            flags=["packet_id_zero"],
            statement="2.2.1-3" if version == "5.0" else "2.3.1-1",
        )
        f.protocol_error(
            f"unsubscribe-{tag}-no-filter",
            "no filter",
            version,
            frame(0xA2, u16(1) + none),
            flags=["no_filter"],
            statement="3.10.3-2",
        )
        f.malformed(f"unsubscribe-{tag}-empty", "no body", version, b"\xa2\x00", flags=["cut"])
        f.malformed(
            f"unsubscribe-{tag}-half-length",
            "one byte of a second filter's length",
            version,
            frame(0xA2, u16(1) + none + text("a") + b"\x00"),
            flags=["cut"],
        )
        f.malformed(
            f"unsubscribe-{tag}-filter-past-packet",
            "the filter runs past the packet",
            version,
            frame(0xA2, u16(1) + none + u16(2) + b"a"),
            flags=["cut"],
        )
    for name, topic_filter in SHARED.items():
        f.valid(
            f"unsubscribe-v5-shared-{name}",
            f"filter {topic_filter!r}",
            "5.0",
            unsubscribe(topic_filter),
            flags=["shared"],
        )
    for name, (topic_filter, statement) in BAD_SHARED.items():
        f.protocol_error(
            f"unsubscribe-v5-bad-share-{name}",
            f"filter {topic_filter!r}",
            "5.0",
            frame(0xA2, u16(1) + b"\x00" + text(topic_filter)),
            0x8F,
            flags=["shared", "bad_filter"],
            statement=statement,
        )
    f.malformed(
        "unsubscribe-v5-filter-past-packet-behind-properties",
        "the same behind a property block",
        "5.0",
        frame(0xA2, u16(1) + props([("user_property", ("k", "v"))]) + u16(2) + b"a"),
        flags=["cut"],
    )
    return f
