"""UTF-8 encoded strings: refused and accepted ones, in every string field."""

from encoder import PROPERTIES, binary, frame, text, u8, u16, varint

from cases.carriers import carry_block, connect_head
from cases.model import VectorFile, connect, publish, request, subscribe, unsubscribe, will

ILL_FORMED = {
    "overlong-nul": (b"\xc0\x80", "U+0000 in two bytes"),
    "overlong-slash-2": (b"\xc0\xaf", "'/' in two bytes"),
    "overlong-2-last": (b"\xc1\xbf", "U+007F in two bytes"),
    "overlong-slash-3": (b"\xe0\x80\xaf", "'/' in three bytes"),
    "overlong-3-last": (b"\xe0\x9f\xbf", "U+07FF in three bytes"),
    "overlong-slash-4": (b"\xf0\x80\x80\xaf", "'/' in four bytes"),
    "overlong-4-last": (b"\xf0\x8f\xbf\xbf", "U+FFFF in four bytes"),
    "surrogate-first": (b"\xed\xa0\x80", "U+D800"),
    "surrogate-high-last": (b"\xed\xaf\xbf", "U+DBFF"),
    "surrogate-low-first": (b"\xed\xb0\x80", "U+DC00"),
    "surrogate-last": (b"\xed\xbf\xbf", "U+DFFF"),
    "surrogate-pair": (b"\xed\xa0\xbd\xed\xb8\x80", "a surrogate pair, as CESU-8 has it"),
    "above-10ffff": (b"\xf4\x90\x80\x80", "U+110000"),
    "lead-f5": (b"\xf5\x80\x80\x80", "lead byte F5"),
    "lead-f8": (b"\xf8\x88\x80\x80\x80", "five byte form"),
    "lead-fc": (b"\xfc\x84\x80\x80\x80\x80", "six byte form"),
    "byte-fe": (b"\xfe", "byte FE"),
    "byte-ff": (b"\xff", "byte FF"),
    "stray-80": (b"\x80", "a continuation byte alone"),
    "stray-bf": (b"\xbf", "a continuation byte alone"),
    "stray-after-2": (b"\xc3\xa9\xa9", "one continuation byte too many"),
    "cut-2": (b"\xc3", "two byte form cut by the end of the string"),
    "cut-3": (b"\xe2\x82", "three byte form cut by the end of the string"),
    "cut-4": (b"\xf0\x9f\x98", "four byte form cut by the end of the string"),
    "broken-2": (b"\xc3\x28", "two byte form broken by '('"),
    "broken-3-second": (b"\xe2\x28\xa1", "three byte form broken at its second byte"),
    "broken-3-third": (b"\xe2\x82\x28", "three byte form broken at its third byte"),
    "broken-4-second": (b"\xf0\x28\x8c\xbc", "four byte form broken at its second byte"),
    "broken-4-fourth": (b"\xf0\x90\x8c\x28", "four byte form broken at its fourth byte"),
    "lead-then-lead": (b"\xc3\xc3\xa9", "a lead byte after a lead byte"),
    "latin-1": (b"caf\xe9", "Latin-1 in place of UTF-8"),
}
WELL_FORMED = {
    "u0080": ("\u0080", "U+0080, first of two bytes, a control character"),
    "u07ff": ("\u07ff", "U+07FF, last of two bytes"),
    "u0800": ("\u0800", "U+0800, first of three bytes"),
    "ud7ff": ("\ud7ff", "U+D7FF, last before the surrogates"),
    "ue000": ("\ue000", "U+E000, first after the surrogates"),
    "ufffd": ("\ufffd", "U+FFFD, the replacement character itself"),
    "uffff": ("\uffff", "U+FFFF, a non-character"),
    "ufdd0": ("\ufdd0", "U+FDD0, a non-character"),
    "u10000": ("\U00010000", "U+10000, first of four bytes"),
    "u10ffff": ("\U0010ffff", "U+10FFFF, the last of all"),
    "u0001": ("\u0001", "U+0001, a control character"),
    "u001f": ("\u001f", "U+001F, a control character"),
    "u007f": ("\u007f", "U+007F, a control character"),
    "u009f": ("\u009f", "U+009F, a control character"),
    "emoji": ("\U0001f600", "an emoji"),
    "composed": ("\u00e9", "e acute as one character"),
    "decomposed": ("e\u0301", "e acute as two: no normalisation makes it the same"),
    "quote-backslash": ('"\\', "a quotation mark and a backslash"),
    "space": (" ", "a space"),
    "mixed": ("Äpfel/日本/😀/z", "all lengths in one string"),
}
# Every field of the 5.0 packets that is a string, outside properties.
FIELDS = {
    "client-id": lambda s: frame(0x10, connect_head(0x02) + b"\x00" + s),
    "user-name": lambda s: frame(0x10, connect_head(0x82) + b"\x00" + text("c") + s),
    "will-topic": lambda s: frame(0x10, connect_head(0x06) + b"\x00" + text("c") + b"\x00" + s + binary(b"")),
    "subscribe-filter": lambda s: frame(0x82, u16(1) + b"\x00" + s + b"\x00"),
    "subscribe-second-filter": lambda s: frame(0x82, u16(1) + b"\x00" + text("f") + b"\x00" + s + b"\x00"),
    "unsubscribe-filter": lambda s: frame(0xA2, u16(1) + b"\x00" + s),
}
FIELD_STATEMENTS = {
    "client-id": ("3.1.3-4", "3.1.3-4"),
    "user-name": ("3.1.3-12", "3.1.3-11"),
    "will-topic": ("3.1.3-11", "3.1.3-10"),
    "subscribe-filter": ("3.8.3-1", "3.8.3-1"),
    "subscribe-second-filter": ("3.8.3-1", "3.8.3-1"),
    "unsubscribe-filter": ("3.10.3-1", "3.10.3-1"),
}
FIELDS_311 = {
    "client-id": lambda s: frame(0x10, connect_head(0x02, level=4) + s),
    "user-name": lambda s: frame(0x10, connect_head(0x82, level=4) + text("c") + s),
    "will-topic": lambda s: frame(0x10, connect_head(0x06, level=4) + text("c") + s + binary(b"")),
    "subscribe-filter": lambda s: frame(0x82, u16(1) + s + b"\x00"),
    "unsubscribe-filter": lambda s: frame(0xA2, u16(1) + s),
}


def build():
    f = VectorFile("utf8")
    f.note(
        "ill_formed",
        "Bytes that are not well-formed UTF-8.",
        "MQTT-1.5.4-1",
        "A codec that lets them through, or replaces them by U+FFFD, makes two topics of one or one of two.",
    )
    f.note(
        "null_character",
        "U+0000 in a string.",
        "MQTT-1.5.4-2",
        "In C a string ends there: an access rule may see another topic than the broker.",
    )
    f.note(
        "bom",
        "U+FEFF.",
        "MQTT-1.5.4-3",
        "A decoder library that strips a byte order mark changes the topic.",
    )
    f.note(
        "word_boundary",
        "The fault lies just before or behind 8, 16, 32 or 64 bytes.",
        None,
        "Fast checks that go by words or vectors miss the rest.",
    )
    _topic(f)
    _word_boundaries(f)
    _other_fields(f)
    _properties(f)
    _kept(f)
    return f


def _publish(version, topic):
    return frame(0x30, binary(topic) + (b"\x00" if version == "5.0" else b"") + b"x")


def _topic(f):
    for name, (raw, what) in ILL_FORMED.items():
        f.malformed(
            f"utf8-v5-topic-{name}",
            f"Topic Name with {what}",
            "5.0",
            _publish("5.0", b"a/" + raw),
            flags=["ill_formed"],
            statement="1.5.4-1",
        )
    for name in (
        "overlong-nul",
        "overlong-slash-2",
        "surrogate-first",
        "surrogate-pair",
        "above-10ffff",
        "stray-80",
        "cut-3",
        "byte-ff",
    ):
        raw, what = ILL_FORMED[name]
        f.malformed(
            f"utf8-v311-topic-{name}",
            f"Topic Name with {what}",
            "3.1.1",
            _publish("3.1.1", b"a/" + raw),
            flags=["ill_formed"],
            statement="1.5.3-1",
        )
    for place, raw in (("only", b"\0"), ("first", b"\0a"), ("middle", b"a\0b"), ("last", b"ab\0")):
        for version, tag, statement in (("5.0", "v5", "1.5.4-2"), ("3.1.1", "v311", "1.5.3-2")):
            f.malformed(
                f"utf8-{tag}-topic-nul-{place}",
                f"Topic Name with U+0000, {place}",
                version,
                _publish(version, raw),
                flags=["null_character"],
                statement=statement,
            )


def _word_boundaries(f):
    for before in (7, 8, 15, 16, 31, 32, 63, 64):
        ascii_part = bytes(97 + i % 26 for i in range(before))
        f.malformed(
            f"utf8-v5-topic-stray-after-{before}",
            f"a stray continuation byte after {before} ASCII bytes",
            "5.0",
            _publish("5.0", ascii_part + b"\x80"),
            flags=["ill_formed", "word_boundary"],
            statement="1.5.4-1",
        )
        f.malformed(
            f"utf8-v5-topic-nul-after-{before}",
            f"U+0000 after {before} ASCII bytes, two more follow",
            "5.0",
            _publish("5.0", ascii_part + b"\0zz"),
            flags=["null_character", "word_boundary"],
            statement="1.5.4-2",
        )
        f.valid(
            f"utf8-v5-topic-multibyte-after-{before}",
            f"a two byte character after {before} ASCII bytes",
            "5.0",
            publish(ascii_part.decode() + "é", b"x"),
            flags=["word_boundary"],
        )


def _other_fields(f):
    faults = {
        "overlong": (b"\xc0\xaf", "ill_formed", 0),
        "surrogate": (b"\xed\xa0\x80", "ill_formed", 0),
        "cut": (b"\xe2\x82", "ill_formed", 0),
        "nul": (b"a\0", "null_character", 1),
    }
    for version, tag, fields, section in (("5.0", "v5", FIELDS, "1.5.4"), ("3.1.1", "v311", FIELDS_311, "1.5.3")):
        for field, write in fields.items():
            for name, (raw, flag, is_nul) in faults.items():
                own = FIELD_STATEMENTS[field][version != "5.0"]
                f.malformed(
                    f"utf8-{tag}-{field}-{name}",
                    f"{field.replace('-', ' ')}: {name}",
                    version,
                    write(binary(raw)),
                    flags=[flag],
                    statement=f"{section}-2" if is_nul else own,
                )


def _properties(f):
    for name, row in PROPERTIES.items():
        owner = row.packets[0]
        method = b"\x15\x00\x01m" if owner == "auth" else b""
        own = {"response_topic": "3.3.2-13", "content_type": "3.3.2-19"}.get(name, "1.5.4-1")
        if row.kind == "text":
            for fault, raw, flag, statement in (
                ("overlong", b"\xc0\xaf", "ill_formed", own),
                ("surrogate", b"\xed\xb2\x80", "ill_formed", own),
                ("nul", b"a\0", "null_character", "1.5.4-2"),
            ):
                block = method + u8(row.identifier) + binary(raw)
                f.malformed(
                    f"utf8-v5-{name.replace('_', '-')}-{fault}",
                    f"{name}: {fault}",
                    "5.0",
                    carry_block(owner, varint(len(block)) + block),
                    flags=[flag],
                    statement=statement,
                )
    for place, key, value in (("name", b"\xff", b"v"), ("value", b"k", b"\xff")):
        for owner in ("connect", "publish", "will", "puback", "disconnect"):
            block = b"\x26" + binary(key) + binary(value)
            f.malformed(
                f"utf8-v5-{owner}-user-property-{place}",
                f"User Property whose {place} is not UTF-8",
                "5.0",
                carry_block(owner, varint(len(block)) + block),
                flags=["ill_formed"],
                statement="1.5.7-1",
            )
    for place, key, value in (("name", b"\0", b"v"), ("value", b"k", b"v\0")):
        block = b"\x26" + binary(key) + binary(value)
        f.malformed(
            f"utf8-v5-user-property-{place}-nul",
            f"User Property whose {place} has U+0000",
            "5.0",
            carry_block("publish", varint(len(block)) + block),
            flags=["null_character"],
            statement="1.5.7-1",
        )


def _kept(f):
    for name, (value, what) in WELL_FORMED.items():
        f.valid(f"utf8-v5-topic-{name}", f"Topic Name with {what}", "5.0", publish("a/" + value, b"x"))
    for name in ("u0800", "uffff", "u10ffff", "u0001", "mixed"):
        value, what = WELL_FORMED[name]
        f.valid(f"utf8-v311-topic-{name}", f"Topic Name with {what}", "3.1.1", publish("a/" + value, b"x"))
    for version, tag, statement in (("5.0", "v5", "1.5.4-3"), ("3.1.1", "v311", "1.5.3-3")):
        for place, topic in (("only", "\ufeff"), ("first", "\ufeffa"), ("middle", "a\ufeffb")):
            f.valid(
                f"utf8-{tag}-topic-bom-{place}",
                f"U+FEFF, {place}, is kept",
                version,
                publish(topic, b"x"),
                flags=["bom"],
                statement=statement,
            )
    f.valid(
        "utf8-v5-client-id-bom",
        "U+FEFF before a client id is part of it",
        "5.0",
        connect("\ufeffc"),
        flags=["bom"],
        statement="1.5.4-3",
    )
    f.valid("utf8-v5-client-id-mixed", "a client id beyond ASCII", "5.0", connect("café-日本"))
    f.valid("utf8-v5-user-name-mixed", "a user name beyond ASCII", "5.0", connect("c", user_name="Jürgen 😀"))
    f.valid("utf8-v5-will-topic-mixed", "a Will Topic beyond ASCII", "5.0", connect("c", will=will("wille/ö")))
    f.valid("utf8-v5-subscribe-mixed", "a filter beyond ASCII", "5.0", subscribe(request("größe/+/日本/#")))
    f.valid("utf8-v311-unsubscribe-mixed", "a filter beyond ASCII", "3.1.1", unsubscribe("größe/+/日本/#"))
    f.valid(
        "utf8-v5-user-property-mixed",
        "name and value beyond ASCII",
        "5.0",
        publish("t", b"x", ("user_property", ("ключ", "值"))),
    )
