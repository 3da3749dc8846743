"""CONNECT in 3.1, 3.1.1 and 5.0."""

from encoder import binary, frame, text, u16

from cases.carriers import connect_head
from cases.model import VectorFile, connect, will

TAGS = {"3.1": "v31", "3.1.1": "v311", "5.0": "v5"}
LEVEL = {"3.1": ("MQIsdp", 3), "3.1.1": ("MQTT", 4), "5.0": ("MQTT", 5)}


def build():
    f = VectorFile("connect")
    f.note(
        "server_decides",
        "Well formed, and a server may or must refuse it for what it asks.",
        "MQTT-3.1.3-6",
        "The decoder must hand it on, so that the server can answer with the right code.",
    )
    f.note(
        "protocol",
        "Protocol name and level.",
        "MQTT-3.1.2-1",
        "A server that answers other protocols as MQTT, or hangs, confuses both sides.",
    )
    f.note(
        "connect_flags",
        "Connect flags that contradict each other or are reserved.",
        "MQTT-3.1.2-3",
        "The flags decide which fields follow: wrong ones shift every field.",
    )
    f.note("trailing", "Bytes behind the last field.", None, "Smuggled data: one side stops, the other reads on.")
    f.note(
        "cut",
        "The packet ends inside a field.",
        "MQTT-3.1.3-1",
        "Fields taken for empty: a client id or a password vanishes.",
    )
    _valid(f)
    _wills(f)
    _credentials(f)
    _protocol(f)
    _flags(f)
    _cuts(f)
    return f


def head(version, flags, keep_alive_s=60):
    name, level = LEVEL[version]
    return connect_head(flags, name=name, level=level, keep_alive_s=keep_alive_s) + (
        b"\x00" if version == "5.0" else b""
    )


def _valid(f):
    f.valid(
        "connect-v311-minimal",
        "clean session, client id 'c', keep alive 60",
        "3.1.1",
        connect("c"),
        data=bytes.fromhex("100d00044d5154540402003c000163"),
    )
    f.valid(
        "connect-v31-minimal",
        "the same in 3.1",
        "3.1",
        connect("c"),
        data=bytes.fromhex("100f00064d51497364700302003c000163"),
    )
    f.valid(
        "connect-v5-minimal",
        "clean start, client id 'c', keep alive 60",
        "5.0",
        connect("c"),
        data=bytes.fromhex("100e00044d5154540502003c00000163"),
    )
    for version, tag in TAGS.items():
        f.valid(
            f"connect-{tag}-not-clean", "an existing session is asked for", version, connect("c", clean_start=False)
        )
        for keep_alive_s in (0, 1, 255, 256, 65_535):
            f.valid(
                f"connect-{tag}-keep-alive-{keep_alive_s}",
                f"keep alive {keep_alive_s} s",
                version,
                connect("c", keep_alive_s=keep_alive_s),
            )
        f.valid(
            f"connect-{tag}-client-id-23",
            "client id of 23 letters and digits",
            version,
            connect("abcdefghijklmnopqrstuvw"),
            statement="3.1.3-5" if version != "3.1" else None,
        )
        f.valid(
            f"connect-{tag}-client-id-24",
            "a client id may be longer than 23 bytes",
            version,
            connect("abcdefghijklmnopqrstuvwx"),
        )
        f.valid(
            f"connect-{tag}-client-id-empty-clean",
            "no client id, clean",
            version,
            connect(""),
            flags=["server_decides"],
        )
        f.valid(
            f"connect-{tag}-client-id-empty-not-clean",
            "no client id, not clean: 3.1.1 servers refuse it with return code 2",
            version,
            connect("", clean_start=False),
            flags=["server_decides"],
            statement="3.1.3-8" if version == "3.1.1" else None,
        )
    f.valid("connect-v5-client-id-65535", "the longest client id", "5.0", connect("c" * 65_535))
    f.valid("connect-v311-client-id-65535", "the longest client id", "3.1.1", connect("c" * 65_535))
    f.valid(
        "connect-v5-client-id-odd",
        "a client id of spaces, slashes and wildcards",
        "5.0",
        connect(" /+#$ "),
        flags=["server_decides"],
    )
    f.valid(
        "connect-v5-everything",
        "all fields at once",
        "5.0",
        connect(
            "client-1",
            ("session_expiry_interval", 3600),
            ("receive_maximum", 100),
            ("maximum_packet_size", 65_536),
            ("topic_alias_maximum", 10),
            ("request_response_information", 1),
            ("request_problem_information", 0),
            ("user_property", ("region", "north")),
            ("authentication_method", "SCRAM"),
            ("authentication_data", b"\x00\x01"),
            keep_alive_s=30,
            clean_start=False,
            will=will(
                "status/client-1",
                b"gone",
                ("will_delay_interval", 10),
                ("payload_format_indicator", 1),
                ("message_expiry_interval", 120),
                ("content_type", "text/plain"),
                ("response_topic", "r"),
                ("correlation_data", b"\x07"),
                ("user_property", ("k", "v")),
                qos=2,
                retain=True,
            ),
            user_name="ana",
            password=b"\x00secret\xff",
        ),
        statement="3.1.3-1",
    )
    f.valid(
        "connect-v311-everything",
        "all fields at once",
        "3.1.1",
        connect(
            "client-1",
            keep_alive_s=30,
            clean_start=False,
            will=will("status/client-1", b"gone", qos=1, retain=True),
            user_name="ana",
            password=b"secret",
        ),
        statement="3.1.3-1",
    )
    f.valid(
        "connect-v31-everything",
        "all fields at once",
        "3.1",
        connect(
            "client-1",
            keep_alive_s=30,
            will=will("status/client-1", b"gone", qos=1, retain=True),
            user_name="ana",
            password=b"secret",
        ),
    )


def _wills(f):
    for version, tag in TAGS.items():
        for qos in (0, 1, 2):
            for retain in (False, True):
                f.valid(
                    f"connect-{tag}-will-qos{qos}{'-retain' if retain else ''}",
                    f"will of QoS {qos}, retain {int(retain)}",
                    version,
                    connect("c", will=will("w", b"bye", qos=qos, retain=retain)),
                    statement={"5.0": "3.1.2-12", "3.1.1": "3.1.2-14"}.get(version),
                )
        f.valid(
            f"connect-{tag}-will-empty-payload", "a will without a payload", version, connect("c", will=will("w", b""))
        )
        f.valid(
            f"connect-{tag}-will-binary-payload",
            "a will payload that is no text",
            version,
            connect("c", will=will("w", b"\x00\xff\xc0\x80")),
        )
        for name, topic in (("empty", ""), ("plus", "a/+"), ("hash", "#")):
            body = head(version, 0x06) + text("c") + (b"\x00" if version == "5.0" else b"") + text(topic) + binary(b"")
            section = (
                {"5.0": "4.7.0-1", "3.1.1": "4.7.1-1"}.get(version)
                if topic
                else ("4.7.3-1" if version != "3.1" else None)
            )
            f.protocol_error(
                f"connect-{tag}-will-topic-{name}",
                f"Will Topic {topic!r} is no topic name",
                version,
                frame(0x10, body),
                0x90,
                statement=section,
            )
    f.valid(
        "connect-v5-will-payload-65535", "the longest will payload", "5.0", connect("c", will=will("w", b"p" * 65_535))
    )
    f.valid(
        "connect-v5-will-topic-dollar",
        "a Will Topic that begins with $",
        "5.0",
        connect("c", will=will("$SYS/x")),
        flags=["server_decides"],
    )


def _credentials(f):
    for version, tag in TAGS.items():
        f.valid(f"connect-{tag}-user-name", "user name alone", version, connect("c", user_name="ana"))
        f.valid(f"connect-{tag}-user-name-empty", "an empty user name is not none", version, connect("c", user_name=""))
        f.valid(
            f"connect-{tag}-user-and-password",
            "user name and password",
            version,
            connect("c", user_name="ana", password=b"pw"),
        )
        f.valid(
            f"connect-{tag}-password-empty",
            "an empty password is not none",
            version,
            connect("c", user_name="ana", password=b""),
        )
        f.valid(
            f"connect-{tag}-password-binary",
            "a password is binary data",
            version,
            connect("c", user_name="ana", password=b"\x00\xff\xc3\x28"),
        )
    f.valid(
        "connect-v5-password-alone", "5.0 allows a password without a user name", "5.0", connect("c", password=b"token")
    )
    f.valid("connect-v5-password-65535", "the longest password", "5.0", connect("c", password=b"x" * 65_535))
    for version in ("3.1", "3.1.1"):
        f.malformed(
            f"connect-{TAGS[version]}-password-alone",
            "3.1 and 3.1.1 do not allow a password without a user name",
            version,
            frame(0x10, head(version, 0x42) + text("c") + binary(b"token")),
            flags=["connect_flags"],
            statement="3.1.2-22" if version == "3.1.1" else None,
        )


def _protocol(f):
    def refused(id, comment, name, level, statement):
        body = connect_head(0x02, name=name, level=level) + b"\x00" + text("c")
        f.protocol_error(
            f"connect-protocol-{id}", comment, "5.0", frame(0x10, body), 0x84, flags=["protocol"], statement=statement
        )

    for level in (0, 1, 2, 3, 6, 7, 127, 255):
        refused(f"mqtt-level-{level}", f"MQTT, level {level}", "MQTT", level, "3.1.2-2")
    for level in (0x83, 0x84, 0x85):
        refused(
            f"mqtt-level-{level:x}", "the bridge bit some brokers use is not in the standard", "MQTT", level, "3.1.2-2"
        )
    for level in (0, 2, 4, 5):
        refused(f"mqisdp-level-{level}", f"MQIsdp, level {level}", "MQIsdp", level, "3.1.2-2")
    for id, name in (
        ("empty", ""),
        ("lower-case", "mqtt"),
        ("mixed-case", "Mqtt"),
        ("short", "MQT"),
        ("long", "MQTTX"),
        ("padded", "MQTT "),
        ("other", "AMQP"),
        ("mqtts", "MQTTS"),
        ("mqisdp-lower-case", "mqisdp"),
    ):
        refused(f"name-{id}", f"protocol name {name!r}", name, 5, "3.1.2-1")
    f.malformed(
        "connect-protocol-cut",
        "the packet ends inside the protocol name",
        "5.0",
        frame(0x10, b"\x00\x04MQ"),
        flags=["cut"],
    )
    f.malformed(
        "connect-protocol-name-longer-than-packet",
        "a length of 65,535 for the protocol name",
        "5.0",
        frame(0x10, b"\xff\xffMQTT\x05\x02\x00\x3c\x00\x00\x01c"),
        flags=["cut"],
    )
    f.malformed(
        "connect-protocol-no-level", "the packet ends before the level", "5.0", frame(0x10, text("MQTT")), flags=["cut"]
    )


def _flags(f):
    for version, tag in TAGS.items():
        f.malformed(
            f"connect-{tag}-reserved-flag",
            "bit 0 of the connect flags is reserved",
            version,
            frame(0x10, head(version, 0x03) + text("c")),
            flags=["connect_flags"],
            statement="3.1.2-3" if version != "3.1" else None,
        )
        will_fields = (b"\x00" if version == "5.0" else b"") + text("w") + binary(b"")
        f.malformed(
            f"connect-{tag}-will-qos-3",
            "Will QoS 3",
            version,
            frame(0x10, head(version, 0x1E) + text("c") + will_fields),
            flags=["connect_flags"],
            statement={"5.0": "3.1.2-12", "3.1.1": "3.1.2-14"}.get(version),
        )
        for qos in (1, 2, 3):
            f.malformed(
                f"connect-{tag}-will-qos-{qos}-without-will",
                f"Will QoS {qos} without Will Flag",
                version,
                frame(0x10, head(version, 0x02 | qos << 3) + text("c")),
                flags=["connect_flags"],
                statement={"5.0": "3.1.2-11", "3.1.1": "3.1.2-13"}.get(version),
            )
        f.malformed(
            f"connect-{tag}-will-retain-without-will",
            "Will Retain without Will Flag",
            version,
            frame(0x10, head(version, 0x22) + text("c")),
            flags=["connect_flags"],
            statement={"5.0": "3.1.2-13", "3.1.1": "3.1.2-15"}.get(version),
        )


def _cuts(f):
    for version, tag in TAGS.items():
        none = b"\x00" if version == "5.0" else b""
        name, level = LEVEL[version]
        fields = {
            "flags": text(name) + bytes([level]),
            "keep-alive": text(name) + bytes([level, 2]),
            "half-keep-alive": text(name) + bytes([level, 2, 0]),
            "client-id": head(version, 0x02),
            "half-client-id-length": head(version, 0x02) + b"\x00",
            "inside-client-id": head(version, 0x02) + u16(5) + b"abcd",
            "will-topic": head(version, 0x06) + text("c") + none,
            "will-payload": head(version, 0x06) + text("c") + none + text("w"),
            "inside-will-payload": head(version, 0x06) + text("c") + none + text("w") + u16(3) + b"by",
            "user-name": head(version, 0x82) + text("c"),
            "password": head(version, 0xC2) + text("c") + text("ana"),
            "inside-password": head(version, 0xC2) + text("c") + text("ana") + u16(65_535) + b"pw",
        }
        statements = {
            "client-id": ("3.1.3-3",) * 2,
            "will-topic": ("3.1.2-9",) * 2,
            "will-payload": ("3.1.2-9",) * 2,
            "user-name": ("3.1.2-17", "3.1.2-19"),
            "password": ("3.1.2-19", "3.1.2-21"),
        }
        for field, body in fields.items():
            own = statements.get(field, (None, None))
            f.malformed(
                f"connect-{tag}-cut-{field}",
                f"the packet ends: {field.replace('-', ' ')}",
                version,
                frame(0x10, body),
                flags=["cut"],
                statement={"5.0": own[0], "3.1.1": own[1]}.get(version),
            )
        f.malformed(
            f"connect-{tag}-trailing",
            "a byte behind the client id",
            version,
            frame(0x10, head(version, 0x02) + text("c") + b"\x00"),
            flags=["trailing"],
            statement={"5.0": "3.1.2-16", "3.1.1": "3.1.2-18"}.get(version),
        )
        f.malformed(
            f"connect-{tag}-user-name-without-flag",
            "a user name without its flag",
            version,
            frame(0x10, head(version, 0x02) + text("c") + text("ana")),
            flags=["trailing"],
            statement={"5.0": "3.1.2-16", "3.1.1": "3.1.2-18"}.get(version),
        )
        f.malformed(
            f"connect-{tag}-password-without-flag",
            "a password without its flag",
            version,
            frame(0x10, head(version, 0x82) + text("c") + text("ana") + binary(b"pw")),
            flags=["trailing"],
            statement={"5.0": "3.1.2-18", "3.1.1": "3.1.2-20"}.get(version),
        )
        f.malformed(f"connect-{tag}-empty", "CONNECT without a body", version, frame(0x10, b""), flags=["cut"])
    f.malformed(
        "connect-v5-no-property-length",
        "5.0 without a Property Length",
        "5.0",
        frame(0x10, connect_head(0x02)),
        flags=["cut"],
        statement="2.2.2-1",
    )
    f.malformed(
        "connect-v5-no-will-property-length",
        "a will whose Property Length is missing: the packet ends",
        "5.0",
        frame(0x10, head("5.0", 0x06) + text("c")),
        flags=["cut"],
        statement="3.1.2-9",
    )
