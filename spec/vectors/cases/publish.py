"""PUBLISH."""

from encoder import frame, props, text, u16

from cases.model import VectorFile, publish

TAGS = {"3.1.1": "v311", "5.0": "v5"}


def build():
    f = VectorFile("publish")
    f.note(
        "qos_3",
        "Both QoS bits set.",
        "MQTT-3.3.1-4",
        "A codec that masks or passes on 3 delivers with a QoS that does not exist.",
    )
    f.note(
        "dup_without_qos",
        "DUP with QoS 0.",
        "MQTT-3.3.1-2",
        "A QoS 0 message is never sent twice: the flag can only be a fault.",
    )
    f.note(
        "packet_id_zero",
        "Packet Identifier 0.",
        "MQTT-2.2.1-3",
        "0 means none in many implementations: acknowledgements go astray.",
    )
    f.note(
        "topic_name",
        "A Topic Name that is none.",
        "MQTT-3.3.2-2",
        "A wildcard in a name would reach a broker's match as a filter, or its retained store.",
    )
    f.note("no_topic", "An empty Topic Name.", "MQTT-4.7.3-1", "Only a Topic Alias may stand for it.")
    f.note(
        "payload_not_as_indicated",
        "Payload Format Indicator 1 with a payload that is not UTF-8.",
        None,
        "A receiver may check and answer 0x99; the decoder itself hands the packet on.",
    )
    f.note(
        "server_decides",
        "Well formed, and refused by a server when a client sends it.",
        "MQTT-3.3.4-6",
        "The decoder serves both sides and must hand it on.",
    )
    f.note(
        "like_a_field",
        "A payload that looks like a field.",
        None,
        "A decoder that looks for properties where none are eats payload.",
    )
    f.note("cut", "The packet ends inside a field.", None, "A stall, or fields read from the next packet.")
    _flags(f)
    _topics(f)
    _payloads(f)
    _packet_ids(f)
    _aliases(f)
    _cuts(f)
    return f


def _flags(f):
    f.valid(
        "publish-v311-qos0-basic",
        "topic t, payload hi",
        "3.1.1",
        publish(),
        data=bytes.fromhex("3005000174") + b"hi",
        statement="2.3.1-5",
    )
    f.valid(
        "publish-v311-qos1-basic",
        "QoS 1, id 10",
        "3.1.1",
        publish(qos=1, packet_id=10),
        data=bytes.fromhex("3207000174000a") + b"hi",
    )
    f.valid(
        "publish-v5-qos0-basic",
        "topic t, payload hi",
        "5.0",
        publish(),
        data=bytes.fromhex("300600017400") + b"hi",
        statement="2.2.1-2",
    )
    f.valid(
        "publish-v5-qos1-basic",
        "QoS 1, id 10",
        "5.0",
        publish(qos=1, packet_id=10),
        data=bytes.fromhex("3208000174000a00") + b"hi",
    )
    f.valid(
        "publish-v5-qos2-basic",
        "QoS 2, id 10",
        "5.0",
        publish(qos=2, packet_id=10),
        data=bytes.fromhex("3408000174000a00") + b"hi",
    )
    f.valid(
        "publish-v31-qos2-basic",
        "QoS 2, id 10",
        "3.1",
        publish(qos=2, packet_id=10),
        data=bytes.fromhex("3407000174000a") + b"hi",
    )
    for version, tag in TAGS.items():
        for qos in (0, 1, 2):
            for dup in (False, True) if qos else (False,):
                for retain in (False, True):
                    name = f"qos{qos}{'-dup' if dup else ''}{'-retain' if retain else ''}"
                    f.valid(
                        f"publish-{tag}-flags-{name}",
                        f"flags: {name}",
                        version,
                        publish("a/b", b"x", qos=qos, dup=dup, retain=retain),
                    )
        none = b"\x00" if version == "5.0" else b""
        for retain in (0, 1):
            for dup in (0, 8):
                f.malformed(
                    f"publish-{tag}-qos3{'-dup' if dup else ''}{'-retain' if retain else ''}",
                    "QoS 3",
                    version,
                    frame(0x36 | retain | dup, text("t") + u16(1) + none + b"hi"),
                    flags=["qos_3"],
                    statement="3.3.1-4",
                )
            f.malformed(
                f"publish-{tag}-dup-qos0{'-retain' if retain else ''}",
                "DUP with QoS 0",
                version,
                frame(0x38 | retain, text("t") + none + b"hi"),
                flags=["dup_without_qos"],
                statement="3.3.1-2",
            )


def _topics(f):
    names = {
        "slash": "/",
        "slashes": "///",
        "leading-slash": "/a",
        "trailing-slash": "a/",
        "empty-level": "a//b",
        "space": " ",
        "spaces": "a b/ c",
        "dollar": "$SYS/x",
        "dollar-inside": "a/$b",
        "share-like": "$share/g/t",
        "long-level": "x" * 300,
        "unicode": "строка/日本",
        "deep": "/".join("abcdefghij" * 10),
        "asterisk": "a/*",
        "backslash": "a\\b",
        "control": "a\tb\r\n",
    }
    for version, tag in TAGS.items():
        for name, topic in names.items():
            f.valid(f"publish-{tag}-topic-{name}", f"topic: {name.replace('-', ' ')}", version, publish(topic, b"x"))
        f.valid(
            f"publish-{tag}-topic-65535", "the longest topic", version, publish("t" * 65_535, b"x"), statement="4.7.3-3"
        )
        none = b"\x00" if version == "5.0" else b""
        wildcards = {
            "plus": "+",
            "hash": "#",
            "plus-level": "a/+/b",
            "hash-level": "a/#",
            "plus-inside": "a+b",
            "hash-inside": "a#b",
            "plus-last": "ab+",
            "hash-first": "#ab",
        }
        for name, topic in wildcards.items():
            f.protocol_error(
                f"publish-{tag}-wildcard-{name}",
                f"topic {topic!r}",
                version,
                frame(0x30, text(topic) + none + b"x"),
                0x90,
                flags=["topic_name"],
                statement="3.3.2-2",
            )
        f.protocol_error(
            f"publish-{tag}-wildcard-late",
            "a wildcard behind 64 other bytes",
            version,
            frame(0x30, text("abcdefgh" * 8 + "/+") + none + b"x"),
            0x90,
            flags=["topic_name"],
            statement="3.3.2-2",
        )
        for qos in (0, 1):
            f.protocol_error(
                f"publish-{tag}-topic-empty-qos{qos}",
                "no topic and no alias",
                version,
                frame(0x30 | qos << 1, text("") + (u16(1) if qos else b"") + none + b"x"),
                flags=["no_topic"],
                statement="4.7.3-1",
            )
    f.protocol_error(
        "publish-v5-topic-empty-other-properties",
        "no topic, and properties without an alias",
        "5.0",
        frame(0x30, text("") + props([("content_type", "x"), ("user_property", ("k", "v"))]) + b"x"),
        flags=["no_topic"],
        statement="4.7.3-1",
    )


def _payloads(f):
    for version, tag in TAGS.items():
        f.valid(f"publish-{tag}-payload-empty", "no payload", version, publish("t", b""))
        f.valid(
            f"publish-{tag}-payload-empty-retain",
            "no payload, retained: removes the retained message",
            version,
            publish("t", b"", retain=True),
            statement="3.3.1-6" if version == "5.0" else "3.3.1-10",
        )
        f.valid(f"publish-{tag}-payload-empty-qos2", "no payload, QoS 2", version, publish("t", b"", qos=2))
        f.valid(f"publish-{tag}-payload-every-byte", "every byte once", version, publish("t", bytes(range(256))))
        f.valid(
            f"publish-{tag}-payload-64",
            "64 bytes, QoS 1",
            version,
            publish("sensors/1/temp", bytes(range(64)), qos=1, packet_id=1234),
        )
        f.valid(f"publish-{tag}-payload-65536", "64 KB, QoS 1", version, publish("t", b"\x55" * 65_536, qos=1))
        f.valid(f"publish-{tag}-payload-nul", "a payload of one zero byte", version, publish("t", b"\0"))
    f.valid(
        "publish-v311-payload-like-properties",
        "3.1.1 has no properties: the payload begins with what looks like some",
        "3.1.1",
        publish("t", b"\x02\x01\x01hi"),
        flags=["like_a_field"],
    )
    f.valid(
        "publish-v311-payload-like-packet-id",
        "QoS 0 has no packet id",
        "3.1.1",
        publish("t", b"\x00\x01"),
        flags=["like_a_field"],
    )
    f.valid(
        "publish-v5-payload-like-properties",
        "an empty block, then a payload that looks like one",
        "5.0",
        publish("t", b"\x02\x01\x01hi"),
        flags=["like_a_field"],
    )
    f.valid(
        "publish-v5-payload-like-packet",
        "a payload that is a whole MQTT packet",
        "5.0",
        publish("t", b"\xc0\x00"),
        flags=["like_a_field"],
    )
    f.valid(
        "publish-v5-payload-text",
        "Payload Format Indicator 1 and UTF-8",
        "5.0",
        publish("t", "grüß".encode(), ("payload_format_indicator", 1)),
    )
    for name, payload in (("ill-formed", b"\xff\xfe"), ("surrogate", b"\xed\xa0\x80"), ("cut", b"\xe2\x82")):
        f.valid(
            f"publish-v5-payload-not-text-{name}",
            "Payload Format Indicator 1 and no UTF-8",
            "5.0",
            publish("t", payload, ("payload_format_indicator", 1)),
            flags=["payload_not_as_indicated"],
        )
    f.valid(
        "publish-v5-payload-not-text-unspecified",
        "Payload Format Indicator 0 says nothing of the payload",
        "5.0",
        publish("t", b"\xff", ("payload_format_indicator", 0)),
    )


def _packet_ids(f):
    for version, tag in TAGS.items():
        for packet_id in (1, 255, 256, 32_768, 65_535):
            f.valid(
                f"publish-{tag}-packet-id-{packet_id}",
                f"packet id {packet_id}",
                version,
                publish("t", b"", qos=1, packet_id=packet_id),
            )
        none = b"\x00" if version == "5.0" else b""
        for qos in (1, 2):
            f.protocol_error(
                f"publish-{tag}-packet-id-0-qos{qos}",
                f"packet id 0, QoS {qos}",
                version,
                frame(0x30 | qos << 1, text("t") + u16(0) + none),
                flags=["packet_id_zero"],
                statement="2.2.1-3" if version == "5.0" else "2.3.1-1",
            )


def _aliases(f):
    f.valid(
        "publish-v5-alias-with-topic",
        "sets alias 1",
        "5.0",
        publish("a/b", b"x", ("topic_alias", 1)),
        statement="3.3.2-12",
    )
    f.valid(
        "publish-v5-alias-alone",
        "alias 1 stands for the topic",
        "5.0",
        publish(None, b"x", ("topic_alias", 1)),
        data=bytes.fromhex("300700000323000178"),
        statement="3.3.2-12",
    )
    f.valid(
        "publish-v5-alias-alone-qos1",
        "the same with QoS 1",
        "5.0",
        publish(None, b"x", ("topic_alias", 300), qos=1, packet_id=5),
    )
    f.valid(
        "publish-v5-alias-behind-others",
        "the alias is the last property",
        "5.0",
        publish(None, b"x", ("content_type", "c"), ("user_property", ("k", "v")), ("topic_alias", 2)),
    )
    f.valid(
        "publish-v5-subscription-identifier",
        "a Subscription Identifier, as a server sends it",
        "5.0",
        publish("t", b"x", ("subscription_identifier", 42)),
        flags=["server_decides"],
        statement="3.3.4-6",
    )
    f.valid(
        "publish-v5-subscription-identifiers-many",
        "three Subscription Identifiers",
        "5.0",
        publish("t", b"x", *(("subscription_identifier", n) for n in (1, 200, 70_000))),
        flags=["server_decides"],
        statement="3.3.4-4",
    )
    f.valid(
        "publish-v5-request",
        "a request: response topic and correlation data",
        "5.0",
        publish(
            "service/add",
            b"{}",
            ("response_topic", "replies/7"),
            ("correlation_data", b"\x00\x01\x02"),
            ("message_expiry_interval", 10),
            qos=1,
            packet_id=77,
        ),
    )


def _cuts(f):
    for version, tag in TAGS.items():
        none = b"\x00" if version == "5.0" else b""
        f.malformed(f"publish-{tag}-empty", "no body", version, b"\x30\x00", flags=["cut"], statement="3.3.2-1")
        f.malformed(
            f"publish-{tag}-half-topic-length",
            "one byte of the topic's length",
            version,
            b"\x30\x01\x00",
            flags=["cut"],
            statement="3.3.2-1",
        )
        f.malformed(
            f"publish-{tag}-topic-past-packet",
            "the topic runs one byte past the packet",
            version,
            frame(0x30, u16(4) + b"abc"),
            flags=["cut"],
        )
        f.malformed(
            f"publish-{tag}-topic-65535-of-3",
            "a topic length of 65,535 with three bytes left",
            version,
            frame(0x30, u16(65_535) + b"abc"),
            flags=["cut"],
        )
        f.malformed(
            f"publish-{tag}-no-packet-id", "QoS 1 and no packet id", version, frame(0x32, text("t")), flags=["cut"]
        )
        f.malformed(
            f"publish-{tag}-half-packet-id",
            "one byte of the packet id",
            version,
            frame(0x32, text("t") + b"\x01"),
            flags=["cut"],
        )
        f.malformed(
            f"publish-{tag}-topic-past-packet-into-next",
            "the topic's missing byte is the next packet's first",
            version,
            frame(0x30, u16(3) + b"ab"),
            rest=b"\x30\x05\x00\x01t" + none + b"x",
            flags=["cut"],
        )
    f.malformed(
        "publish-v5-no-property-length",
        "QoS 1, and the packet ends behind its id",
        "5.0",
        frame(0x32, text("t") + u16(1)),
        flags=["cut"],
        statement="2.2.2-1",
    )
