#!/usr/bin/env python3
"""Writes cases.json. It builds the bytes by hand from the format's tables, without any MessagePack library."""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
VECTORS = []


def valid(name, comment, hex_, value, encode=True):
    VECTORS.append({"id": name, "comment": comment, "hex": hex_, "result": "valid", "encode": encode, "value": value})


def refused(name, comment, hex_, result):
    VECTORS.append({"id": name, "comment": comment, "hex": hex_, "result": result})


def integer(n):
    return {"int": str(n)}


def f64(x):
    return {"float64": struct.pack(">d", x).hex()}


def text(s):
    return {"str": s}


def array(*items):
    return {"array": list(items)}


def mapping(*pairs):
    return {"map": [[k, v] for k, v in pairs]}


def simple():
    valid("nil", "nil", "c0", "nil")
    valid("false", "false", "c2", {"bool": False})
    valid("true", "true", "c3", {"bool": True})


def integers():
    formats = [
        ("positive-fixint", 0, 127, lambda n: "%02x" % n),
        ("uint8", 128, 0xFF, lambda n: "cc%02x" % n),
        ("uint16", 0x100, 0xFFFF, lambda n: "cd%04x" % n),
        ("uint32", 0x10000, 0xFFFFFFFF, lambda n: "ce%08x" % n),
        ("uint64", 1 << 32, (1 << 64) - 1, lambda n: "cf%016x" % n),
        ("negative-fixint", -32, -1, lambda n: "%02x" % (n & 0xFF)),
        ("int8", -128, -33, lambda n: "d0%02x" % (n & 0xFF)),
        ("int16", -0x8000, -129, lambda n: "d1%04x" % (n & 0xFFFF)),
        ("int32", -(1 << 31), -0x8001, lambda n: "d2%08x" % (n & 0xFFFFFFFF)),
        ("int64", -(1 << 63), -(1 << 31) - 1, lambda n: "d3%016x" % (n & ((1 << 64) - 1))),
    ]
    for name, low, high, write in formats:
        valid(f"{name}-low", f"{low}, the lowest that needs this format", write(low), integer(low))
        valid(f"{name}-high", f"{high}, the highest that fits this format", write(high), integer(high))
        middle = (low + high) // 2
        valid(f"{name}-middle", f"{middle}", write(middle), integer(middle))
    safe = (1 << 53) - 1
    for name, n in [("safe", safe), ("past-safe", safe + 1), ("odd-past-safe", safe + 2)]:
        valid(f"uint64-{name}", f"{n}: at the edge of what a double holds", "cf%016x" % n, integer(n))
        valid(f"int64-{name}", f"{-n}: at the edge of what a double holds", "d3%016x" % (-n & ((1 << 64) - 1)), integer(-n))
    longer = [
        ("uint8-zero", "cc00", 0), ("uint8-127", "cc7f", 127), ("uint16-zero", "cd0000", 0), ("uint16-255", "cd00ff", 255),
        ("uint32-one", "ce00000001", 1), ("uint32-65535", "ce0000ffff", 65535), ("uint64-five", "cf0000000000000005", 5),
        ("uint64-uint32", "cf00000000ffffffff", 0xFFFFFFFF), ("int8-zero", "d000", 0), ("int8-127", "d07f", 127),
        ("int8-minus-one", "d0ff", -1), ("int16-one", "d10001", 1), ("int16-minus-128", "d1ff80", -128),
        ("int32-minus-one", "d2ffffffff", -1), ("int32-positive", "d27fffffff", 0x7FFFFFFF),
        ("int64-minus-one", "d3ffffffffffffffff", -1), ("int64-positive", "d30000000000000001", 1),
        ("int64-high", "d37fffffffffffffff", (1 << 63) - 1),
    ]
    for name, hex_, n in longer:
        valid(f"longer-{name}", f"{n} in a longer format than it needs: legal, not what an encoder writes", hex_, integer(n), False)


def floats():
    for name, x in [
        ("one-and-a-half", 1.5), ("tenth", 0.1), ("minus", -2.75), ("huge", 1e300), ("minus-huge", -1e300), ("tiny", 5e-324),
        ("max", 1.7976931348623157e308), ("pi", 3.141592653589793), ("minus-zero", -0.0), ("infinity", float("inf")),
        ("minus-infinity", float("-inf")), ("past-integers", 2.0**53), ("two-to-64", 2.0**64), ("minus-two-to-70", -(2.0**70)),
    ]:
        valid(f"float64-{name}", f"{x!r}", "cb" + struct.pack(">d", x).hex(), f64(x))
    valid("float64-nan", "NaN, in the one form that an encoder writes", "cb7ff8000000000000", {"float64": "7ff8000000000000"})
    valid("float64-nan-other", "NaN with other bits", "cbfff8000000000123", {"float64": "7ff8000000000000"}, False)
    valid("float64-zero", "0.0: a number like the integer 0", "cb0000000000000000", f64(0.0), False)
    valid("float64-seven", "7.0", "cb401c000000000000", f64(7.0), False)
    for name, x in [
        ("one-and-a-half", 1.5), ("minus-zero", -0.0), ("infinity", float("inf")), ("minus-infinity", float("-inf")),
        ("zero", 0.0), ("tiny", 2.0**-149),
    ]:
        valid(f"float32-{name}", f"{x!r} as float32", "ca" + struct.pack(">f", x).hex(), f64(x), False)
    third = struct.unpack(">f", struct.pack(">f", 1 / 3))[0]
    valid("float32-third", "a third, rounded to float32", "ca" + struct.pack(">f", third).hex(), f64(third), False)
    valid("float32-nan", "NaN as float32", "ca7fc00000", {"float64": "7ff8000000000000"}, False)


def strings():
    for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 30, 31):
        valid(f"fixstr-{n}", f"{n} letters", "%02x" % (0xA0 | n) + ("61" * n), text("a" * n))
    for n in (32, 33, 254, 255):
        valid(f"str8-{n}", f"{n} letters", f"d9{n:02x}(61*{n})", {"str": ["a", n]})
    for n in (256, 300, 65535):
        valid(f"str16-{n}", f"{n} letters", f"da{n:04x}(61*{n})", {"str": ["a", n]})
    for n in (65536, 70000):
        valid(f"str32-{n}", f"{n} letters", f"db{n:08x}(61*{n})", {"str": ["a", n]})
    valid("longer-str8-empty", "an empty str8", "d900", text(""), False)
    valid("longer-str8", "three letters as str8", "d903616263", text("abc"), False)
    valid("longer-str16", "three letters as str16", "da0003616263", text("abc"), False)
    valid("longer-str32", "three letters as str32", "db00000003616263", text("abc"), False)
    for name, s in [
        ("two-bytes", "é"), ("three-bytes", "€"), ("four-bytes", "😀"), ("mixed", "aé€😀z"), ("nul", "a\0b"), ("bom", "\ufeffa"),
        ("replacement", "\ufffd"), ("noncharacter", "\uffff"), ("last", "\U0010ffff"), ("del", "\x7f"), ("first-two", "\x80"),
        ("proto", "__proto__"),
    ]:
        data = s.encode()
        valid(f"utf8-{name}", f"U+{ord(s[0]):04X}…" if len(s) > 1 else f"U+{ord(s):04X}", "%02x" % (0xA0 | len(data)) + data.hex(), text(s))
    valid("str8-two-bytes-each", "31 characters, 62 bytes: the header counts bytes", "d93e(c3a9*31)", {"str": ["é", 31]})
    valid("str8-128-two-bytes", "128 characters, 256 bytes: a str16", "da0100(c3a9*128)", {"str": ["é", 128]})
    valid("str16-four-bytes-each", "100 characters, 400 bytes", "da0190(f09f9880*100)", {"str": ["😀", 100]})
    for name, comment, data in [
        ("overlong-slash", "'/' in two bytes", "c0af"), ("overlong-three", "'/' in three bytes", "e080af"),
        ("overlong-four", "U+FFFF in four bytes", "f08fbfbf"), ("overlong-nul", "U+0000 in two bytes", "c080"),
        ("surrogate-high", "U+D800", "eda080"), ("surrogate-low", "U+DFFF", "edbfbf"),
        ("surrogate-pair", "a pair of surrogates, each in three bytes", "eda0bdedb880"), ("too-high", "U+110000", "f4908080"),
        ("bare-continuation", "a continuation byte alone", "80"), ("missing-continuation", "a lead byte before ASCII", "c328"),
        ("cut", "a character that the string cuts", "e282"), ("ff", "0xff", "ff"), ("five-bytes", "a lead byte of five", "f888808080"),
    ]:
        refused(f"utf8-{name}", f"{comment}: not UTF-8", "%02x" % (0xA0 | len(data) // 2) + data, "invalid_utf8")
    refused("utf8-long-invalid", "one bad byte at the end of 300", "da012c(61*299)ff", "invalid_utf8")
    refused("utf8-invalid-key", "a map key that is not UTF-8", "81a2c32801", "invalid_utf8")


def binaries():
    valid("bin8-empty", "no bytes", "c400", {"bin": ""})
    valid("bin8-three", "three bytes", "c4030001ff", {"bin": "0001ff"})
    valid("bin8-255", "255 bytes", "c4ff(ab*255)", {"bin": "(ab*255)"})
    valid("bin16-256", "256 bytes", "c50100(ab*256)", {"bin": "(ab*256)"})
    valid("bin16-65535", "65535 bytes", "c5ffff(00*65535)", {"bin": "(00*65535)"})
    valid("bin32-65536", "65536 bytes", "c600010000(7f*65536)", {"bin": "(7f*65536)"})
    valid("longer-bin16", "one byte as bin16", "c5000101", {"bin": "01"}, False)
    valid("longer-bin32", "one byte as bin32", "c60000000101", {"bin": "01"}, False)


def containers():
    one = integer(1)
    valid("fixarray-empty", "[]", "90", array())
    valid("fixarray-mixed", "five kinds", "95c0c301a161cb3ff8000000000000", array("nil", {"bool": True}, one, text("a"), f64(1.5)))
    valid("fixarray-15", "15 items", "9f(01*15)", {"repeat": [one, 15]})
    valid("array16-16", "16 items", "dc0010(01*16)", {"repeat": [one, 16]})
    valid("array16-65535", "65535 items", "dcffff(01*65535)", {"repeat": [one, 65535]})
    valid("array32-65536", "65536 items", "dd00010000(01*65536)", {"repeat": [one, 65536]})
    valid("longer-array16", "an empty array16", "dc0000", array(), False)
    valid("longer-array32", "an array32 of one", "dd0000000101", array(one), False)
    valid("array-nested", "[[[[]]]]", "91919190", array(array(array(array()))))
    valid("array-of-floats", "three floats", "93" + "cb3ff8000000000000" * 3, {"repeat": [f64(1.5), 3]})
    valid("array-floats-then-text", "a float, a string, an integer", "93cb3ff8000000000000a16107", array(f64(1.5), text("a"), integer(7)))
    valid("array-deep-100", "100 levels", "(91*99)90", deep_array(100))
    valid("fixmap-empty", "{}", "80", mapping())
    valid("fixmap-one", "one entry", "81a16101", mapping((text("a"), one)))
    valid("fixmap-seed", "a small object", "85a161cb3ff8000000000000a162a3666f6fa163920102a164c3a16580",
          mapping((text("a"), f64(1.5)), (text("b"), text("foo")), (text("c"), array(one, integer(2))), (text("d"), {"bool": True}), (text("e"), mapping())))
    letters = [chr(97 + i) for i in range(16)]
    entries = "".join("a1%02x%02x" % (ord(c), i) for i, c in enumerate(letters))
    pairs = [(text(c), integer(i)) for i, c in enumerate(letters)]
    valid("fixmap-15", "15 entries", "8f" + entries[:90], mapping(*pairs[:15]))
    valid("map16-16", "16 entries", "de0010" + entries, mapping(*pairs))
    valid("longer-map16", "one entry as map16", "de0001a16101", mapping((text("a"), one)), False)
    valid("longer-map32", "one entry as map32", "df00000001a16101", mapping((text("a"), one)), False)
    valid("map-proto", "a key named __proto__ is data", "81a95f5f70726f746f5f5f81a17801", mapping((text("__proto__"), mapping((text("x"), one)))))
    valid("map-constructor", "a key named constructor is data", "81ab636f6e7374727563746f7201", mapping((text("constructor"), one)))
    valid("map-empty-key", "an empty key", "81a001", mapping((text(""), one)))
    valid("map-integer-key", "an integer key", "810102", mapping((one, integer(2))))
    valid("map-nil-key", "nil as a key", "81c001", mapping(("nil", one)))
    valid("map-array-key", "an array as a key", "81910102", mapping((array(one), integer(2))))
    valid("map-long-key", "a key of 40 letters", "81d928(6b*40)01", mapping(({"str": ["k", 40]}, one)))
    valid("map-unicode-key", "a key that is not ASCII", "81a5636166c3a901", mapping((text("café"), one)))
    valid("map-of-arrays", "an array within a map within an array", "9181a1619101", array(mapping((text("a"), array(one)))))


def deep_array(levels):
    value = array()
    for _ in range(levels - 1):
        value = array(value)
    return value


def extensions():
    for n, tag in [(1, "d4"), (2, "d5"), (4, "d6"), (8, "d7"), (16, "d8")]:
        valid(f"fixext{n}", f"{n} bytes of type 5", f"{tag}05(aa*{n})", {"ext": 5, "data": f"(aa*{n})"})
    for n, header in [(0, "c700"), (3, "c703"), (17, "c711"), (255, "c7ff"), (256, "c80100"), (65535, "c8ffff"), (65536, "c900010000")]:
        valid(f"ext-{n}", f"{n} bytes of type 7", f"{header}07" + (f"(bb*{n})" if n else ""), {"ext": 7, "data": f"(bb*{n})" if n else ""})
    valid("ext-type-127", "the highest type", "d47f00", {"ext": 127, "data": "00"})
    valid("ext-type-minus-128", "the lowest type", "d48000", {"ext": -128, "data": "00"})
    valid("ext-type-minus-2", "a reserved type", "d4fe00", {"ext": -2, "data": "00"})
    valid("longer-ext8", "one byte as ext8", "c7010500", {"ext": 5, "data": "00"}, False)
    valid("longer-ext16", "one byte as ext16", "c800010500", {"ext": 5, "data": "00"}, False)
    valid("longer-ext32", "one byte as ext32", "c9000000010500", {"ext": 5, "data": "00"}, False)
    for name, seconds, nanos in [
        ("epoch", 0, 0), ("second", 1, 0), ("2100", 4102444800, 0), ("uint32", (1 << 32) - 1, 0), ("nanosecond", 0, 1), ("nanoseconds", 1700000000, 999999999),
        ("34-bits", 1 << 32, 0), ("34-bits-high", (1 << 34) - 1, 999999999), ("past-34-bits", 1 << 34, 0), ("before-1970", -1, 0),
        ("before-1970-nanoseconds", -1, 999999999), ("year-1", -62135596800, 0), ("lowest", -(1 << 63), 0), ("highest", (1 << 63) - 1, 999999999),
    ]:
        if 0 <= seconds < 1 << 32 and nanos == 0:
            hex_ = "d6ff%08x" % seconds
        elif 0 <= seconds < 1 << 34:
            hex_ = "d7ff%016x" % (nanos << 34 | seconds)
        else:
            hex_ = "c70cff%08x%016x" % (nanos, seconds & ((1 << 64) - 1))
        valid(f"timestamp-{name}", f"{seconds} s and {nanos} ns", hex_, {"seconds": str(seconds), "nanoseconds": nanos})
    valid("longer-timestamp64", "a timestamp64 that timestamp32 holds", "d7ff0000000000000001", {"seconds": "1", "nanoseconds": 0}, False)
    valid("longer-timestamp96", "a timestamp96 that timestamp32 holds", "c70cff000000000000000000000001", {"seconds": "1", "nanoseconds": 0}, False)
    refused("timestamp64-nanoseconds", "10^9 nanoseconds", "d7ffee6b280000000001", "invalid_timestamp")
    refused("timestamp96-nanoseconds", "10^9 nanoseconds", "c70cff3b9aca000000000000000001", "invalid_timestamp")
    refused("timestamp-empty", "no bytes", "c700ff", "invalid_timestamp")
    refused("timestamp-one-byte", "one byte", "d4ff00", "invalid_timestamp")
    refused("timestamp-16", "16 bytes", "d8ff(00*16)", "invalid_timestamp")


def broken():
    refused("never-used", "0xc1", "c1", "invalid_format")
    refused("never-used-in-array", "0xc1 as an item", "9201c1", "invalid_format")
    refused("never-used-as-value", "0xc1 as a value of a map", "81a161c1", "invalid_format")
    refused("empty", "nothing at all", "", "truncated")
    headers = {
        "uint8": "cc", "uint16": "cd00", "uint32": "ce000000", "uint64": "cf00000000000000", "int8": "d0", "int16": "d100", "int32": "d2000000",
        "int64": "d300000000000000", "float32": "ca000000", "float64": "cb00000000000000", "fixstr": "a26f", "str8": "d9", "str8-content": "d90261",
        "str16": "da00", "str16-content": "da000261", "str32": "db000000", "str32-content": "db0000000261", "bin8": "c4", "bin8-content": "c40261",
        "bin16": "c500", "bin32": "c6000000", "bin32-content": "c60000000261", "fixext1": "d4", "fixext1-content": "d405", "fixext16": "d805(00*15)",
        "ext8": "c7", "ext8-type": "c700", "ext8-content": "c7020500", "ext16": "c800", "ext32": "c9000000", "fixarray": "9201", "array16": "dc00",
        "array16-content": "dc000201", "array32": "dd000000", "fixmap-key": "81", "fixmap-value": "81a161", "fixmap-second": "82a16101", "map16": "de00",
        "map16-content": "de0002a16101", "map32": "df000000",
    }
    for name, hex_ in headers.items():
        refused(f"truncated-{name}", f"ends within {name}", hex_, "truncated")
    for name, hex_ in {"str32": "dbffffffff", "bin32": "c6ffffffff", "ext32": "c9ffffffff05", "array32": "ddffffffff", "map32": "dfffffffff"}.items():
        refused(f"bomb-{name}", "announces 2^32-1 of what is not there", hex_, "truncated")
    refused("bomb-nested", "each array announces all that is left", "(dc0100*64)" + "(c0*256)", "truncated")
    for name, hex_ in {"nil": "c0c0", "integer": "0100", "string": "a16161", "array": "900a", "map": "8000", "float": "cb3ff800000000000000"}.items():
        refused(f"trailing-{name}", f"one byte after a whole {name}", hex_, "trailing_bytes")


def collect():
    VECTORS.clear()
    for cases in (simple, integers, floats, strings, binaries, containers, extensions, broken):
        cases()
    ids = [vector["id"] for vector in VECTORS]
    assert len(ids) == len(set(ids)), "an id comes twice"
    return VECTORS


def file_text(vectors):
    notes = {
        "hex": "lower case; (61*300) is the bytes 61, 300 times",
        "encode": "true: an encoder given the value writes exactly these bytes; false: legal, but longer than need be, or another number format",
        "float64": "the eight bytes of the double, of which 7ff8000000000000 stands for every NaN",
        "str": "[\"a\", 300] is that text 300 times",
        "repeat": "an array of one value, so many times",
        "invalid_utf8": "for a decoder that checks; another reads U+FFFD",
    }
    lines = ",\n".join("  " + json.dumps(vector, ensure_ascii=True) for vector in vectors)
    head = json.dumps({"format": "msgpack", "notes": notes}, indent=1)[:-2]
    return f"{head},\n \"vectors\": [\n{lines}\n ]\n}}\n"


def main():
    vectors = collect()
    (HERE / "cases.json").write_text(file_text(vectors))
    print(len(vectors), "vectors")


if __name__ == "__main__":
    main()
