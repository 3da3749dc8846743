"""Properties: each in allowed packets, in other packets, twice, out of range, truncated, beyond its block."""

from encoder import EVERY_PACKET_WITH_PROPERTIES, PROPERTIES, frame, prop, props, text, u8, u16, varint

from cases.carriers import FIRST_BYTES, METHOD, SAMPLES, carry, carry_block, companions
from cases.model import VectorFile, connack, connect, publish, request, subscribe

BOOLEANS = [name for name, row in PROPERTIES.items() if row.kind == "bool"]


def build():
    f = VectorFile("properties")
    f.note(
        "property", "A property where it may stand.", None, "Codecs that miss a row of table 2-4 refuse lawful peers."
    )
    f.note(
        "not_allowed",
        "A property in a packet it is not for.",
        None,
        "A codec that skips or keeps it disagrees with strict peers about what the packet says.",
    )
    f.note(
        "duplicate",
        "A property twice that may stand once.",
        None,
        "Keeping the first or the last is a guess; two implementations guess differently.",
    )
    f.note(
        "out_of_range",
        "A value the standard excludes.",
        None,
        "Zero limits stall a session; a boolean of 2 is read as either.",
    )
    f.note(
        "overrun",
        "A property that runs past the end of its block, with more of the packet behind.",
        None,
        "A codec that does not stop at the block reads payload as property, or the same bytes twice.",
    )
    f.note("cut", "A property block that runs past the end of the packet.", None, "Out of bounds reads, or a stall.")
    f.note(
        "order",
        "Several properties, repeated ones among them: their order is kept.",
        "MQTT-3.3.2-18",
        "A map keyed by name loses the order between different names.",
    )
    _allowed(f)
    _not_allowed(f)
    _duplicates(f)
    _ranges(f)
    _bounds(f)
    _order(f)
    _companions(f)
    return f


def dashed(name):
    return name.replace("_", "-")


def _allowed(f):
    for owner in EVERY_PACKET_WITH_PROPERTIES:
        for name, row in PROPERTIES.items():
            if owner in row.packets:
                items = companions(owner, name) + [(name, SAMPLES[name])]
                f.valid(
                    f"property-{owner}-{dashed(name)}",
                    f"{name} in {owner}",
                    "5.0",
                    carry(owner, items),
                    flags=["property"],
                )


def _not_allowed(f):
    for owner in EVERY_PACKET_WITH_PROPERTIES:
        first = [METHOD] if owner == "auth" else []
        for name, row in PROPERTIES.items():
            if owner not in row.packets:
                f.malformed(
                    f"property-not-in-{owner}-{dashed(name)}",
                    f"{name} does not belong in {owner}",
                    "5.0",
                    carry_block(owner, props(first + [(name, SAMPLES[name])])),
                    flags=["not_allowed"],
                )
    for identifier in (0x00, 0x04, 0x0A, 0x10, 0x14, 0x1B, 0x20, 0x2B, 0x7F):
        f.malformed(
            f"property-unknown-{identifier:02x}",
            f"identifier {identifier:#04x} is no property",
            "5.0",
            carry_block("publish", b"\x02" + u8(identifier) + b"\x00"),
            flags=["not_allowed"],
        )


def _duplicates(f):
    for name, row in PROPERTIES.items():
        for owner in row.packets:
            if owner in row.repeatable or (owner != row.packets[0] and name != "subscription_identifier"):
                continue
            twice = companions(owner, name) + [(name, SAMPLES[name])] * 2
            f.protocol_error(
                f"property-twice-{owner}-{dashed(name)}",
                f"{name} twice in {owner}",
                "5.0",
                carry_block(owner, props(twice)),
                flags=["duplicate"],
            )
    f.protocol_error(
        "property-twice-apart",
        "the second stands behind another property, and differs",
        "5.0",
        carry_block("publish", props([("content_type", "a"), ("user_property", ("k", "v")), ("content_type", "b")])),
        flags=["duplicate"],
    )
    f.protocol_error(
        "property-twice-will-delay",
        "Will Delay Interval twice",
        "5.0",
        carry_block("will", props([("will_delay_interval", 1), ("will_delay_interval", 1)])),
        flags=["duplicate"],
    )
    for owner in EVERY_PACKET_WITH_PROPERTIES:
        if owner in PROPERTIES["reason_string"].packets and owner != "connack":
            first = [METHOD] if owner == "auth" else []
            f.protocol_error(
                f"property-twice-{owner}-reason-string",
                f"Reason String twice in {owner}",
                "5.0",
                carry_block(owner, props(first + [("reason_string", "a"), ("reason_string", "b")])),
                flags=["duplicate"],
            )


def _ranges(f):
    def wrong(id, comment, owner, items, **rest):
        f.protocol_error(
            f"property-{id}", comment, "5.0", carry_block(owner, props(items)), flags=["out_of_range"], **rest
        )

    def right(id, comment, owner, items, **rest):
        f.valid(f"property-{id}", comment, "5.0", carry(owner, items), flags=["property"], **rest)

    for name in BOOLEANS:
        owner = PROPERTIES[name].packets[0]
        for value in (2, 255):
            wrong(f"{dashed(name)}-{value}", f"{name} is 0 or 1", owner, [(name, value)])
        for value in (0, 1):
            if SAMPLES[name] != value:
                right(f"{dashed(name)}-{value}", f"{name} {value}", owner, [(name, value)])
    wrong("will-payload-format-indicator-2", "the same in a will", "will", [("payload_format_indicator", 2)])
    for owner in ("connect", "connack"):
        wrong(f"{owner}-receive-maximum-0", "Receive Maximum 0", owner, [("receive_maximum", 0)])
        wrong(f"{owner}-maximum-packet-size-0", "Maximum Packet Size 0", owner, [("maximum_packet_size", 0)])
        for value in (1, 65_535):
            right(f"{owner}-receive-maximum-{value}", f"Receive Maximum {value}", owner, [("receive_maximum", value)])
        for value in (1, 0xFFFF_FFFF):
            right(
                f"{owner}-maximum-packet-size-{value}",
                f"Maximum Packet Size {value}",
                owner,
                [("maximum_packet_size", value)],
            )
        for value in (0, 65_535):
            right(
                f"{owner}-topic-alias-maximum-{value}",
                f"Topic Alias Maximum {value}",
                owner,
                [("topic_alias_maximum", value)],
            )
    wrong(
        "subscribe-subscription-identifier-0",
        "Subscription Identifier 0",
        "subscribe",
        [("subscription_identifier", 0)],
    )
    wrong("publish-subscription-identifier-0", "Subscription Identifier 0", "publish", [("subscription_identifier", 0)])
    wrong(
        "publish-second-subscription-identifier-0",
        "the second Subscription Identifier is 0",
        "publish",
        [("subscription_identifier", 1), ("subscription_identifier", 0)],
    )
    wrong("topic-alias-0", "Topic Alias 0", "publish", [("topic_alias", 0)], reason=0x94, statement="3.3.2-8")
    right("topic-alias-65535", "Topic Alias 65535", "publish", [("topic_alias", 65_535)])
    for owner in ("connect", "connack", "disconnect"):
        for value in (0, 0xFFFF_FFFF):
            right(
                f"{owner}-session-expiry-{value}",
                f"Session Expiry Interval {value}",
                owner,
                [("session_expiry_interval", value)],
            )
    for owner in ("publish", "will"):
        for value in (0, 0xFFFF_FFFF):
            right(
                f"{owner}-message-expiry-{value}",
                f"Message Expiry Interval {value}",
                owner,
                [("message_expiry_interval", value)],
            )
        for id, topic in (("empty", ""), ("plus", "a/+/b"), ("hash", "a/#")):
            wrong(
                f"{owner}-response-topic-{id}",
                f"Response Topic {topic!r} is no topic name",
                owner,
                [("response_topic", topic)],
                reason=0x90,
                statement="3.3.2-14" if topic else "4.7.3-1",
            )
        right(f"{owner}-correlation-data-empty", "Correlation Data of no bytes", owner, [("correlation_data", b"")])
        right(f"{owner}-content-type-empty", "Content Type of no characters", owner, [("content_type", "")])
    for value in (0, 0xFFFF_FFFF):
        right(f"will-delay-{value}", f"Will Delay Interval {value}", "will", [("will_delay_interval", value)])
    for value in (0, 65_535):
        right(f"server-keep-alive-{value}", f"Server Keep Alive {value}", "connack", [("server_keep_alive", value)])
    right("user-property-empty", "User Property with empty name and value", "publish", [("user_property", ("", ""))])
    right(
        "response-topic-like-share",
        "a Response Topic may look like a shared filter",
        "publish",
        [("response_topic", "$share/g/t")],
    )
    right("reason-string-65535", "Reason String of 65,535 bytes", "puback", [("reason_string", "r" * 65_535)])
    right(
        "correlation-data-65535",
        "Correlation Data of 65,535 bytes",
        "publish",
        [("correlation_data", b"\xaa" * 65_535)],
    )
    right(
        "authentication-method-empty",
        "an empty Authentication Method is still one",
        "connect",
        [("authentication_method", "")],
    )


def _bounds(f):
    for name, row in PROPERTIES.items():
        owner = row.packets[0]
        whole = prop(name, SAMPLES[name])
        before = props(companions(owner, name))[1:]
        # The block ends one byte before its last property does; the packet continues after it.
        block = before + whole
        f.malformed(
            f"property-overrun-{dashed(name)}",
            f"{name} runs one byte past its block",
            "5.0",
            carry_block(owner, varint(len(block) - 1) + block),
            flags=["overrun"],
        )
        f.malformed(
            f"property-identifier-only-{dashed(name)}",
            f"the block ends behind the identifier of {name}",
            "5.0",
            carry_block(owner, varint(len(before) + 1) + before + whole[:1]),
            flags=["overrun"],
        )
    huge = b"\x26" + text("k") + u16(0xFFFF) + b"v"
    f.malformed(
        "property-user-property-length-65535",
        "the value's length runs far past the packet",
        "5.0",
        carry_block("publish", varint(len(huge)) + huge),
        flags=["overrun"],
    )
    key_only = b"\x26" + text("key")
    f.malformed(
        "property-user-property-without-value",
        "a name and no value",
        "5.0",
        carry_block("publish", varint(len(key_only)) + key_only),
        flags=["overrun"],
    )
    f.malformed(
        "property-user-property-half-length",
        "one byte of the value's length",
        "5.0",
        carry_block("publish", varint(len(key_only) + 1) + key_only + b"\x00"),
        flags=["overrun"],
    )
    f.malformed(
        "property-length-eats-payload",
        "a Property Length that ends in the payload",
        "5.0",
        frame(0x30, text("t") + b"\x05" + b"\x01\x01" + b"hello"),
        flags=["overrun"],
    )
    for name, length in (("by-one", 8), ("far", 127), ("2-bytes", 16_383), ("256-mb", 268_435_455)):
        one = prop("user_property", ("k", "v"))
        f.malformed(
            f"property-length-past-packet-{name}",
            f"Property Length {length} with 7 bytes left",
            "5.0",
            frame(0x30, text("t") + varint(length) + one),
            flags=["cut"],
        )
    for owner in EVERY_PACKET_WITH_PROPERTIES:
        # Twenty bytes are more than any of the carriers has after its block.
        f.malformed(
            f"property-length-past-packet-{owner}",
            f"{owner}: Property Length 20 runs past the packet",
            "5.0",
            carry_block(owner, b"\x14" + prop("user_property", ("k", "v"))),
            flags=["cut"],
        )
    heads = {"connack": b"\x00\x00", "publish": text("t"), "subscribe": u16(1), "unsubscribe": u16(1)}
    for owner, head in heads.items():
        f.malformed(
            f"property-length-missing-{owner}",
            f"{owner} ends where its Property Length should be",
            "5.0",
            frame(FIRST_BYTES[owner], head),
            flags=["cut"],
            statement="2.2.2-1",
        )


def _order(f):
    one_two_one = [("user_property", ("a", "1")), ("user_property", ("b", "2")), ("user_property", ("a", "3"))]
    for owner in EVERY_PACKET_WITH_PROPERTIES:
        first = [METHOD] if owner == "auth" else []
        f.valid(
            f"property-{owner}-user-properties-a-b-a",
            "User Properties a, b, a again",
            "5.0",
            carry(owner, first + one_two_one),
            flags=["order"],
        )
    f.valid(
        "property-publish-user-property-same-twice",
        "the same User Property twice",
        "5.0",
        publish("t", b"", ("user_property", ("k", "v")), ("user_property", ("k", "v"))),
        flags=["order"],
    )
    f.valid(
        "property-publish-user-property-fifty",
        "fifty User Properties",
        "5.0",
        publish("t", b"", *(("user_property", (f"k{n}", str(n))) for n in range(50))),
        flags=["order"],
    )
    f.valid(
        "property-publish-subscription-identifiers",
        "Subscription Identifiers 3, 1, 2, 1",
        "5.0",
        publish("t", b"", *(("subscription_identifier", n) for n in (3, 1, 2, 1))),
        flags=["order"],
        statement="3.3.4-4",
    )
    f.valid(
        "property-publish-all-descending",
        "every property of PUBLISH, highest identifier first",
        "5.0",
        publish("t", b"", *((n, SAMPLES[n]) for n in reversed(PROPERTIES) if "publish" in PROPERTIES[n].packets)),
        flags=["order"],
    )
    f.valid(
        "property-connect-all",
        "every property of CONNECT",
        "5.0",
        connect("c", *((n, SAMPLES[n]) for n in PROPERTIES if "connect" in PROPERTIES[n].packets)),
        flags=["order"],
    )
    f.valid(
        "property-connack-all",
        "every property of CONNACK",
        "5.0",
        connack(0, *((n, SAMPLES[n]) for n in PROPERTIES if "connack" in PROPERTIES[n].packets)),
        flags=["order"],
    )
    f.valid(
        "property-will-all",
        "every property of a will",
        "5.0",
        carry("will", [(n, SAMPLES[n]) for n in PROPERTIES if "will" in PROPERTIES[n].packets]),
        flags=["order"],
    )
    f.valid(
        "property-user-between",
        "a User Property between two others",
        "5.0",
        publish("t", b"", ("content_type", "x"), ("user_property", ("k", "v")), ("message_expiry_interval", 1)),
        flags=["order"],
    )
    f.valid(
        "property-subscribe-identifier-behind-user",
        "Subscription Identifier behind a User Property",
        "5.0",
        subscribe(request("f"), items=[("user_property", ("k", "v")), ("subscription_identifier", 268_435_455)]),
        flags=["order"],
    )


def _companions(f):
    data = ("authentication_data", b"\x01")
    for owner in ("connect", "connack", "auth"):
        f.protocol_error(
            f"property-{owner}-authentication-data-alone",
            "Authentication Data without Authentication Method",
            "5.0",
            carry_block(owner, props([data])),
        )
    f.valid(
        "property-connect-authentication-data-first",
        "the order of the two is free",
        "5.0",
        connect("c", data, METHOD),
    )
    f.valid(
        "property-connect-authentication-data-empty",
        "Authentication Data of no bytes",
        "5.0",
        connect("c", METHOD, ("authentication_data", b"")),
    )
