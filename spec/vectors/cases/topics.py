"""Topic names, topic filters, and matching."""

from cases.model import is_long, parts

# The codes of spec/errors/errors.toml, and the statement of each. A share name with a wildcard has its own statement.
STATEMENTS = {
    "topic_missing": "MQTT-4.7.3-1",
    "topic_filter_empty": "MQTT-4.7.3-1",
    "field_too_long": "MQTT-4.7.3-3",
    "utf8_null": "MQTT-4.7.3-2",
    "topic_wildcard": "MQTT-4.7.0-1",
    "topic_filter_wildcard": "MQTT-4.7.1-2",
    "topic_filter_multi_level": "MQTT-4.7.1-1",
    "share_name_invalid": "MQTT-4.8.2-1",
    "share_filter_missing": "MQTT-4.8.2-2",
}
SHARE_NAME_WITH_WILDCARD = "MQTT-4.8.2-2"
# Text that is a valid name and, without a wildcard, also a valid filter.
PLAIN = {
    "one-level": "a",
    "two-levels": "a/b",
    "five-levels": "a/b/c/d/e",
    "slash": "/",
    "slashes": "//",
    "leading-slash": "/a",
    "trailing-slash": "a/",
    "empty-level": "a//b",
    "space": " ",
    "spaces-inside": "a b/c d",
    "leading-space": " a",
    "dollar": "$",
    "dollar-sys": "$SYS/broker/uptime",
    "dollar-level": "$/a",
    "dollar-inside": "a/$SYS",
    "share-word": "$share",
    "share-longer-word": "$shared/g/a",
    "share-upper-case": "$SHARE/g/a",
    "queue": "$queue/a",
    "two-bytes": "ä/ö",
    "three-bytes": "日本/語",
    "four-bytes": "😀/😀",
    "bom": "\ufeff",
    "non-character": "\uffff",
    "control": "\u0001\u001f\u007f",
    "line-feed": "a\nb",
    "tab": "\t",
    "decomposed": "e\u0301",
    "asterisk": "*",
    "question-mark": "a?",
    "backslash": "a\\b",
    "quotation-mark": '"a"',
    "percent": "%2B",
    "dot": "../.",
    "hyphen": "-",
    "full-width-plus": "\uff0b",
    "full-width-hash": "a/\uff03",
    "hundred-levels": "/".join("a" * 100),
    "only-slashes-200": "/" * 200,
    "longest": "x" * 65_535,
    "longest-of-slashes": "/" * 65_535,
    "longest-in-bytes": "ä" + "x" * 65_533,
}
NAMES_WITH_WILDCARDS = {
    "plus": "+",
    "hash": "#",
    "plus-level": "a/+/b",
    "hash-level": "a/#",
    "plus-inside": "a+b",
    "hash-inside": "a#b",
    "plus-last": "a/b+",
    "hash-first": "#a",
    "both": "+/#",
    "share": "$share/g/+",
    "late": "x" * 100 + "#",
}
FILTERS_WITH_WILDCARDS = {
    "plus": "+",
    "hash": "#",
    "plus-plus": "+/+",
    "plus-hash": "+/#",
    "hash-last": "a/#",
    "plus-first": "+/a",
    "plus-middle": "a/+/b",
    "plus-last": "a/+",
    "slash-plus": "/+",
    "slash-hash": "/#",
    "plus-slash": "+/",
    "empty-level-hash": "a//#",
    "three-plus": "+/+/+",
    "dollar-sys-hash": "$SYS/#",
    "dollar-sys-plus": "$SYS/+/uptime",
    "unicode": "größe/+/日本/#",
    "hundred-plus": "/".join("+" * 100),
    "spaces": " /+/ ",
}
BAD_FILTERS = {
    "hash-not-last": ("a/#/b", "topic_filter_multi_level"),
    "hash-slash": ("#/", "topic_filter_multi_level"),
    "hash-twice": ("#/#", "topic_filter_multi_level"),
    "hash-middle-of-plus": ("+/#/+", "topic_filter_multi_level"),
    "hash-behind-text": ("a#", "topic_filter_wildcard"),
    "hash-before-text": ("#a", "topic_filter_wildcard"),
    "hash-inside-text": ("a#b", "topic_filter_wildcard"),
    "hash-hash": ("##", "topic_filter_wildcard"),
    "hash-behind-last": ("a/b#", "topic_filter_wildcard"),
    "plus-behind-text": ("a+", "topic_filter_wildcard"),
    "plus-before-text": ("+a", "topic_filter_wildcard"),
    "plus-inside-text": ("a+b", "topic_filter_wildcard"),
    "plus-plus-together": ("++", "topic_filter_wildcard"),
    "plus-hash-together": ("+#", "topic_filter_wildcard"),
    "hash-plus-together": ("a/#+", "topic_filter_wildcard"),
    "plus-in-middle-level": ("a/b+/c", "topic_filter_wildcard"),
    "plus-space": ("+ ", "topic_filter_wildcard"),
    "hash-space": ("a/# ", "topic_filter_wildcard"),
    "late": ("x" * 100 + "+", "topic_filter_wildcard"),
}
# filter: (group, the filter within it)
SHARED = {
    "plain": ("g", "a"),
    "wildcards": ("g", "a/+/b/#"),
    "hash": ("g", "#"),
    "plus": ("g", "+"),
    "slash": ("g", "/"),
    "leading-slash": ("g", "/a"),
    "dollar": ("g", "$SYS/#"),
    "long-name": ("a group with spaces.and-dots_1", "a"),
    "unicode": ("gruppe-ü", "日本"),
    "dollar-name": ("$g", "a"),
    "share-name": ("$share", "a"),
}
BAD_SHARED = {
    "nothing": ("$share/", "share_name_invalid"),
    "no-name": ("$share//a", "share_name_invalid"),
    "no-name-no-filter": ("$share//", "share_name_invalid"),
    "no-filter": ("$share/g", "share_filter_missing"),
    "empty-filter": ("$share/g/", "share_filter_missing"),
    "name-plus": ("$share/+/a", "share_name_invalid"),
    "name-hash": ("$share/#/a", "share_name_invalid"),
    "name-with-plus": ("$share/a+b/c", "share_name_invalid"),
    "name-with-hash": ("$share/g#/c", "share_name_invalid"),
    "name-hash-alone": ("$share/#", "share_name_invalid"),
    "bad-filter-hash": ("$share/g/#/a", "topic_filter_multi_level"),
    "bad-filter-plus": ("$share/g/a+", "topic_filter_wildcard"),
}
NULLS = {"only": "\0", "first": "\0a", "last": "a\0", "middle": "a/\0/b"}

# filter, names that match, names that do not.
MATCHES = [
    ("a", ["a"], ["A", "a/", "/a", "b", "aa", "a/b", " a", "$a"]),
    ("a/b", ["a/b"], ["a", "a/b/", "a/b/c", "a//b", "a/B", "b/a"]),
    ("/", ["/"], ["//", "/a", "a/", "a"]),
    ("//", ["//"], ["/", "///", "a//"]),
    ("/a", ["/a"], ["a", "//a", "/a/"]),
    ("a/", ["a/"], ["a", "a//", "/a"]),
    ("a//b", ["a//b"], ["a/b", "a///b", "a/x/b"]),
    ("+", ["a", " ", "日本", "x y"], ["/", "a/", "/a", "a/b", "$SYS", "$"]),
    ("+/+", ["/", "a/", "/a", "a/b", "a/$b"], ["a", "//", "a/b/c", "$SYS/a", "$/"]),
    ("+/+/+", ["//", "a/b/c", "a//c", "/b/"], ["a/b", "a/b/c/d", "$SYS/a/b"]),
    ("/+", ["/a", "/"], ["a", "//", "/a/b", "a/b"]),
    ("+/", ["/", "a/"], ["a", "a/b", "//", "$a/"]),
    ("/+/", ["//", "/a/"], ["/a", "a//", "/a/b"]),
    ("a/+", ["a/b", "a/", "a/$b"], ["a", "a/b/c", "a//", "b/a"]),
    ("a/+/c", ["a/b/c", "a//c"], ["a/c", "a/b/d", "a/b/b/c", "a/b/c/"]),
    ("+/b", ["a/b", "/b"], ["b", "a/b/c", "$SYS/b"]),
    ("#", ["a", "/", "//", "a/b/c", "/a", "a/", "a/$SYS", " "], ["$SYS", "$SYS/a", "$", "$share/g/a"]),
    ("/#", ["/", "/a", "/a/b", "//"], ["a", "a/", "$/a"]),
    ("a/#", ["a", "a/", "a/b", "a/b/c", "a//", "a/$x"], ["b", "aa", "/a", "aa/b", "A/b", "$a"]),
    ("a/b/#", ["a/b", "a/b/", "a/b/c/d"], ["a", "a/", "a/bb", "a/bb/c"]),
    ("+/#", ["a", "/", "a/b", "/a/b", "a/"], ["$SYS", "$SYS/a", "$"]),
    ("+/+/#", ["a/b", "/", "a/b/c", "a/"], ["a", "$SYS/a", "$SYS/a/b"]),
    ("a/+/#", ["a/b", "a/", "a/b/c/d", "a//"], ["a", "b/a"]),
    ("/+/#", ["/a", "/", "/a/b"], ["a/b", "a"]),
    ("+/a/#", ["x/a", "/a", "x/a/b"], ["x", "a", "x/b/a", "$x/a"]),
    ("a//#", ["a/", "a//", "a//b"], ["a", "a/b"]),
    ("$SYS/#", ["$SYS", "$SYS/", "$SYS/a/b"], ["SYS", "$SYSX", "a/$SYS", "$sys/a"]),
    ("$SYS/+", ["$SYS/a", "$SYS/"], ["$SYS", "$SYS/a/b"]),
    ("$SYS/+/a", ["$SYS/x/a", "$SYS//a"], ["$SYS/a", "$x/x/a"]),
    ("$", ["$"], ["$a", "a"]),
    ("$/+", ["$/a", "$/"], ["$", "a/b"]),
    ("$share", ["$share"], ["$share/g/a", "share"]),
    ("a/$SYS/#", ["a/$SYS", "a/$SYS/b"], ["a", "$SYS"]),
    ("ä/+", ["ä/ö", "ä/"], ["a/ö", "Ä/ö", "a\u0308/ö"]),
    ("e\u0301", ["e\u0301"], ["\u00e9", "e"]),
    ("\ufeffa", ["\ufeffa"], ["a"]),
    (" ", [" "], ["  ", "a", "/"]),
    ("😀/#", ["😀", "😀/a"], ["😁", "a/😀"]),
    ("日本/+/語", ["日本/の/語"], ["日本/語", "日/の/語"]),
    ("a\u0001b", ["a\u0001b"], ["ab", "a\u0002b"]),
    ("*", ["*"], ["a", "**"]),
    ("a.b", ["a.b"], ["axb", "a/b"]),
    (
        "sport/tennis/player1/#",
        ["sport/tennis/player1", "sport/tennis/player1/ranking", "sport/tennis/player1/score/wimbledon"],
        ["sport/tennis/player2", "sport/tennis"],
    ),
    ("x" * 300 + "/+", ["x" * 300 + "/a"], ["x" * 299 + "/a", "x" * 301 + "/a"]),
    ("/" * 200, ["/" * 200], ["/" * 199, "/" * 201]),
    ("/".join("+" * 50), ["/".join("a" * 50), "/" * 49], ["/".join("a" * 49), "/".join("a" * 51)]),
    ("/".join("+" * 50) + "/#", ["/".join("a" * 50), "/".join("a" * 120)], ["/".join("a" * 49)]),
]


def text_field(name, value):
    if is_long(value.encode()):
        return {name + "_parts": parts(value.encode())}
    return {name: value}


def names():
    vectors = [_name(f"name-{id}", text) for id, text in PLAIN.items()]
    vectors.append(_name("name-share-form", "$share/g/a"))
    vectors += [_name(f"name-{id}", text, "topic_wildcard") for id, text in NAMES_WITH_WILDCARDS.items()]
    vectors += [_name(f"name-nul-{id}", text, "utf8_null") for id, text in NULLS.items()]
    vectors += [_name("name-empty", "", "topic_missing"), _name("name-too-long", "x" * 65_536, "field_too_long")]
    vectors.append(_name("name-too-long-in-bytes", "ä" + "x" * 65_534, "field_too_long"))
    return {"schema": "../schema/topic-names.schema.json", "vectors": vectors}


def _name(id, text, cause=None):
    return {
        "id": id,
        **text_field("topic", text),
        "result": "invalid" if cause else "valid",
        "cause": cause,
        "statement": STATEMENTS.get(cause),
    }


def filters():
    vectors = [_filter(f"filter-{id}", text) for id, text in PLAIN.items()]
    vectors += [_filter(f"filter-{id}", text) for id, text in FILTERS_WITH_WILDCARDS.items()]
    vectors += [
        _filter(f"filter-shared-{id}", f"$share/{group}/{rest}", shared=(group, rest))
        for id, (group, rest) in SHARED.items()
    ]
    vectors += [_filter(f"filter-bad-{id}", text, cause) for id, (text, cause) in BAD_FILTERS.items()]
    vectors += [_filter(f"filter-bad-share-{id}", text, cause) for id, (text, cause) in BAD_SHARED.items()]
    vectors += [_filter(f"filter-nul-{id}", text, "utf8_null") for id, text in NULLS.items()]
    vectors.append(_filter("filter-empty", "", "topic_filter_empty"))
    vectors.append(_filter("filter-too-long", "x" * 65_536, "field_too_long"))
    vectors.append(_filter("filter-too-long-in-bytes", "ä" + "x" * 65_534, "field_too_long"))
    return {"schema": "../schema/topic-filters.schema.json", "vectors": vectors}


def _filter(id, text, cause=None, shared=None):
    vector = {
        "id": id,
        **text_field("filter", text),
        "result": "invalid" if cause else "valid",
        "cause": cause,
        "statement": _statement(text, cause),
    }
    if cause is None:
        rest = shared[1] if shared else text
        vector["share"] = {"group": shared[0], "filter": rest} if shared else None
        vector["has_wildcard"] = any(level in ("+", "#") for level in rest.split("/"))
    return vector


def _statement(text, cause):
    has_wildcard = cause == "share_name_invalid" and ("+" in text or "#" in text)
    return SHARE_NAME_WITH_WILDCARD if has_wildcard else STATEMENTS.get(cause)


def matching():
    vectors = []
    for number, (topic_filter, good, bad) in enumerate(MATCHES, 1):
        for verdict, topics in ((True, good), (False, bad)):
            for index, topic in enumerate(topics, 1):
                hidden = topic.startswith("$") and topic_filter[0] in "+#"
                vectors.append(
                    {
                        "id": f"match-{number:02}-{'yes' if verdict else 'no'}-{index}",
                        **text_field("filter", topic_filter),
                        **text_field("topic", topic),
                        "matches": verdict,
                        "statement": "MQTT-4.7.2-1" if hidden else None,
                    }
                )
    return {"schema": "../schema/topic-matching.schema.json", "vectors": vectors}
