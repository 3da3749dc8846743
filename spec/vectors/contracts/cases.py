"""The inputs of the cases and their ids. The oracle provides the expected results."""

import struct


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def tag(number, wire_type):
    return varint(number << 3 | wire_type)


def v(number, value):
    return tag(number, 0) + varint(value)


def d(number, data):
    data = data.encode() if isinstance(data, str) else data
    return tag(number, 2) + varint(len(data)) + data


def f32(number, value):
    return tag(number, 5) + (struct.pack("<f", value) if isinstance(value, float) else struct.pack("<I", value))


def f64(number, value):
    return tag(number, 1) + (struct.pack("<d", value) if isinstance(value, float) else struct.pack("<Q", value))


def nested(levels):
    data = b""
    for _ in range(levels - 1):
        data = d(1, data)
    return data


def nested_json(levels):
    return '{"child":' * (levels - 1) + "{}" + "}" * (levels - 1)


NAN, INFINITY = float("nan"), float("inf")
INT64_MAX, UINT64_MAX = (1 << 63) - 1, (1 << 64) - 1

# id, message, bytes: valid in the binary form, and in every other.
BINARY = [
    ("empty", "Scalars", b""),
    ("zeros-written-out", "Scalars", v(3, 0) + f64(1, 0.0) + d(14, "") + v(13, 0) + v(16, 0)),
    ("minus-zero-is-no-default", "Scalars", f64(1, -0.0) + f32(2, -0.0)),
    ("presence-keeps-zero", "Scalars", v(17, 0) + d(18, "")),
    ("greatest", "Scalars", v(3, (1 << 31) - 1) + v(4, INT64_MAX) + v(5, (1 << 32) - 1) + v(6, UINT64_MAX)
     + v(7, (1 << 32) - 2) + v(8, UINT64_MAX - 1) + f32(9, (1 << 32) - 1) + f64(10, UINT64_MAX)
     + f32(11, (1 << 31) - 1) + f64(12, INT64_MAX)),
    ("least", "Scalars", v(3, -1 << 31) + v(4, -1 << 63) + v(7, (1 << 32) - 1) + v(8, UINT64_MAX)
     + f32(11, 1 << 31) + f64(12, 1 << 63)),
    ("minus-one", "Scalars", v(3, -1) + v(4, -1) + v(7, 1) + v(8, 1) + f32(11, (1 << 32) - 1) + f64(12, UINT64_MAX)),
    ("int32-cut-to-32-bits", "Scalars", v(3, 0x1_0000_0001) + v(5, 0x7_0000_0002) + v(7, 0x3_0000_0003)),
    ("bool-of-any-number", "Scalars", v(13, 300)),
    ("varint-longer-than-it-must-be", "Scalars", tag(3, 0) + b"\x81\x80\x80\x00"),
    ("tag-longer-than-it-must-be", "Scalars", b"\x98\x80\x00\x05"),
    ("doubles", "Scalars", f64(1, 0.1)),
    ("smallest-double", "Scalars", f64(1, 5e-324)),
    ("greatest-double", "Scalars", f64(1, 1.7976931348623157e308)),
    ("large-whole-double", "Scalars", f64(1, 1e20)),
    ("nan", "Scalars", f64(1, NAN) + f32(2, NAN)),
    ("infinity", "Scalars", f64(1, INFINITY) + f32(2, INFINITY)),
    ("minus-infinity", "Scalars", f64(1, -INFINITY) + f32(2, -INFINITY)),
    ("floats", "Scalars", f32(2, 0.1)),
    ("smallest-float", "Scalars", tag(2, 5) + b"\x01\0\0\0"),
    ("greatest-float", "Scalars", tag(2, 5) + b"\xff\xff\x7f\x7f"),
    ("text-of-all-planes", "Scalars", d(14, "a\u00e9\u20ac\U0001f642\u007f")),
    ("text-with-escapes", "Scalars", d(14, '"\\/\b\f\n\r\t\u0001\u2028\0')),
    ("text-of-33-bytes", "Scalars", d(14, "x" * 33)),
    ("text-of-300-bytes", "Scalars", d(14, "x" * 300)),
    ("bytes", "Scalars", d(15, bytes([0xFB, 0xEF, 0xFF, 0x00]))),
    ("bytes-of-300", "Scalars", d(15, bytes(range(256)) + bytes(44))),
    ("enum", "Scalars", v(16, 2)),
    ("enum-alias-has-its-first-name", "Scalars", v(16, 1)),
    ("enum-below-zero", "Scalars", v(16, -5)),
    ("enum-without-a-name", "Scalars", v(16, 77)),
    ("last-value-counts", "Scalars", v(3, 1) + d(14, "a") + v(3, 2) + d(14, "b")),
    ("fields-in-any-order", "Scalars", d(14, "a") + v(3, 1) + f64(1, 1.5)),
    ("unknown-fields-get-lost", "Scalars", v(99, 1) + d(98, "x") + f32(97, 1) + f64(96, 1) + v(3, 5)),
    ("packed", "Lists", d(1, varint(1) + varint(-1) + varint(300))),
    ("packed-field-unpacked", "Lists", v(1, 1) + v(1, 2)),
    ("unpacked-field-packed", "Lists", d(2, varint(1) + varint(2)) + v(2, 3)),
    ("packed-in-parts", "Lists", d(1, varint(1)) + v(3000, 1) + d(1, varint(2) + varint(3)) + v(1, 4) + d(1, b"")),
    ("lists", "Lists", d(3, "") + d(3, "b") + d(4, varint(0) + varint(1) + varint(9)) + d(5, b"") + d(5, v(3, 1))
     + d(6, struct.pack("<dd", 0.0, NAN)) + d(7, b"\x00\x01\x02") + d(8, bytes(8) + b"\xff" * 8) + d(9, b"\x01\x02")
     + d(2000, struct.pack("<f", 0.5))),
    ("sixteen-items", "Lists", d(1, bytes(range(16)))),
    ("empty-packed-list-is-nothing", "Lists", d(1, b"")),
    ("map", "Maps", d(1, d(1, "a") + v(2, 1)) + d(1, d(1, "b") + v(2, 2))),
    ("map-entry-with-nothing", "Maps", d(1, b"") + d(3, b"") + d(2, b"")),
    ("map-entry-reversed", "Maps", d(1, v(2, 1) + d(1, "a"))),
    ("map-last-entry-counts", "Maps", d(1, d(1, "a") + v(2, 1)) + d(1, d(1, "a") + v(2, 2))),
    ("map-last-key-and-value-count", "Maps", d(1, d(1, "a") + d(1, "b") + v(2, 1) + v(2, 2))),
    ("map-key-longer-than-it-must-be", "Maps", d(2, tag(1, 0) + b"\x81\x00" + d(2, "a")) + d(2, v(1, 1) + d(2, "b"))),
    ("map-keys-of-numbers", "Maps", d(2, v(1, -1 << 63) + d(2, "least")) + d(6, f32(1, 0xFFFF_FFFF) + d(2, b"\0"))),
    ("map-keys-of-booleans", "Maps", d(3, v(2 - 1, 0) + d(2, v(3, 1))) + d(3, v(1, 1) + d(2, v(3, 2)))),
    ("map-value-in-parts", "Maps", d(3, v(1, 1) + d(2, v(3, 1)) + d(2, v(4, 2)))),
    ("map-of-enums", "Maps", d(4, v(1, 1) + v(2, 2)) + d(4, v(1, 2) + v(2, 50))),
    ("map-of-values", "Maps", d(5, d(1, "a") + d(2, v(1, 0)))),
    ("choice", "Choice", v(1, 5)),
    ("choice-of-zero", "Choice", v(1, 0)),
    ("choice-last-counts", "Choice", v(1, 5) + d(2, "a") + v(6, 1)),
    ("choice-of-parts", "Choice", d(3, v(3, 1)) + d(3, v(4, 2))),
    ("choice-parts-with-another-between", "Choice", d(3, v(3, 1)) + v(1, 1) + d(3, v(4, 2))),
    ("choice-of-null", "Choice", v(4, 0)),
    ("choice-of-enum", "Choice", v(5, 0)),
    ("message-in-parts", "Tree", d(1, v(3, 1) + d(2, v(3, 7))) + d(1, d(2, v(3, 8)) + d(1, v(3, 2)))),
    ("depth-100", "Tree", nested(100)),
    ("names", "Names", v(1, 1) + v(2, 2) + v(3, 3) + v(4, 4)),
    ("timestamp", "WellKnown", d(1, v(1, 1_767_322_800) + v(2, 678_000_000))),
    ("timestamp-1970", "WellKnown", d(1, b"")),
    ("timestamp-before-1970", "WellKnown", d(1, v(1, -1) + v(2, 1))),
    ("timestamp-first", "WellKnown", d(1, v(1, -62_135_596_800))),
    ("timestamp-last", "WellKnown", d(1, v(1, 253_402_300_799) + v(2, 999_999_999))),
    ("timestamp-of-34-bits", "WellKnown", d(1, v(1, 1 << 33) + v(2, 1_000))),
    ("timestamp-in-parts", "WellKnown", d(1, v(1, 5)) + d(1, v(2, 7))),
    ("timestamps", "WellKnown", d(19, v(1, 951_782_400)) + d(19, v(1, 4_107_542_399))),
    ("duration", "WellKnown", d(2, v(1, 3) + v(2, 500_000_000))),
    ("duration-of-nothing", "WellKnown", d(2, b"")),
    ("duration-below-zero", "WellKnown", d(2, v(2, -1_000))),
    ("duration-longest", "WellKnown", d(2, v(1, -315_576_000_000) + v(2, -999_999_999))),
    ("struct-of-nothing", "WellKnown", d(3, b"")),
    ("struct", "WellKnown", d(3, d(1, d(1, "a") + d(2, f64(2, 1.5))))),
    ("struct-last-entry-counts", "WellKnown", d(3, d(1, d(1, "a") + d(2, v(1, 0))) + d(1, d(1, "a") + d(2, v(4, 1))))),
    ("value-null", "WellKnown", d(4, v(1, 0))),
    ("value-number", "WellKnown", d(4, f64(2, 12.0))),
    ("value-large-number", "WellKnown", d(4, f64(2, 1e16))),
    ("value-text", "WellKnown", d(4, d(3, "x"))),
    ("value-bool", "WellKnown", d(4, v(4, 0))),
    ("value-struct-of-nothing", "WellKnown", d(4, d(5, b""))),
    ("value-list-of-nothing", "WellKnown", d(4, d(6, b""))),
    ("value-last-counts", "WellKnown", d(4, v(1, 0) + d(3, "a") + v(4, 1))),
    ("value-list-in-parts", "WellKnown", d(4, d(6, d(1, v(4, 1))) + d(6, d(1, v(4, 0))))),
    ("list-of-nothing", "WellKnown", d(5, b"")),
    ("list", "WellKnown", d(5, d(1, v(1, 0)) + d(1, d(6, d(1, d(3, "deep")))))),
    ("values", "WellKnown", d(18, v(1, 0)) + d(18, v(4, 1))),
    ("wrappers", "WellKnown", d(6, f64(1, 1.5)) + d(7, f32(1, 0.25)) + d(8, v(1, -5)) + d(9, v(1, UINT64_MAX))
     + d(10, v(1, -5)) + d(11, v(1, 5)) + d(12, v(1, 1)) + d(13, d(1, "x")) + d(14, d(1, b"\1\2"))),
    ("wrappers-of-zero", "WellKnown", b"".join(d(number, b"") for number in range(6, 15))),
    ("list-of-wrappers", "WellKnown", d(20, v(1, 7)) + d(20, b"")),
    ("field-mask", "WellKnown", d(15, d(1, "a_b.c") + d(1, "d"))),
    ("field-mask-of-nothing", "WellKnown", d(15, b"")),
    ("empty-message", "WellKnown", d(16, b"")),
    ("needed", "Needed", v(1, 0)),
    ("needed-with-a-mode", "Needed", v(1, 1) + v(3, 1) + d(2, "")),
    ("closed-enum-unknown-number-gets-lost", "Needed", v(1, 1) + v(3, 7)),
    ("closed-enum-unknown-number-erases-nothing", "Needed", v(1, 1) + v(3, 1) + v(3, 7)),
    ("closed-enum-in-a-map", "Needed", v(1, 1) + d(7, v(1, 1) + v(2, 1)) + d(7, v(1, 2) + v(2, 7))),
    ("closed-enum-in-lists", "Needed", v(1, 1) + v(4, 1) + v(4, 7) + v(4, 0) + d(5, b"\x01\x07\x00")),
]

# id, message, text: valid JSON, but not in canonical form.
JSON = [
    ("json-spaces", "Scalars", ' { "i32" : 1 ,\n\t"b":true}\r\n'),
    ("json-names-of-the-schema", "Scalars", '{"text_value":"a"}'),
    ("json-name-with-escapes", "Scalars", '{"textV\\u0061lue":"a"}'),
    ("json-own-name", "Names", '{"@custom":1,"snake_case_name":2,"a1":3,"UPPER":4}'),
    ("json-null-is-nothing", "Scalars", '{"i32":null,"textValue":null,"data":null,"maybe":null}'),
    ("json-null-lists", "Lists", '{"packed":null,"items":null}'),
    ("json-null-map", "Maps", '{"byText":null}'),
    ("json-null-choice-leaves-room", "Choice", '{"text":null,"number":1}'),
    ("json-numbers-as-text", "Scalars", '{"i32":"5","u64":"5","d":"1.5","f":"-2","x32":"4294967295"}'),
    ("json-wide-numbers-as-numbers", "Scalars", '{"i64":-9223372036854775808,"u64":18446744073709551615}'),
    ("json-whole-with-exponent", "Scalars", '{"i32":1e2,"u32":1.0,"i64":1.5e1}'),
    ("json-minus-zero-integer", "Scalars", '{"i32":-0}'),
    ("json-numbers-not-numbers", "Scalars", '{"d":"NaN","f":"-Infinity"}'),
    ("json-float-rounded", "Scalars", '{"f":0.1000000001}'),
    ("json-float-underflow", "Scalars", '{"f":1e-60,"d":1e-400}'),
    ("json-enum-number", "Scalars", '{"colour":2}'),
    ("json-enum-alias", "Scalars", '{"colour":"CRIMSON"}'),
    ("json-enum-unknown-number", "Scalars", '{"colour":77}'),
    ("json-base64-url", "Scalars", '{"data":"--_-"}'),
    ("json-base64-without-padding", "Scalars", '{"data":"AQ"}'),
    ("json-surrogates", "Scalars", '{"textValue":"\\ud83d\\ude42\\u0000"}'),
    ("json-map-keys", "Maps", '{"byNumber":{"-5":"a"},"byFlag":{"true":{}},"byFixed":{"7":"AA=="}}'),
    ("json-timestamp-with-offset", "WellKnown", '{"at":"2020-01-01T01:30:00.5+01:30"}'),
    ("json-timestamp-nine-digits", "WellKnown", '{"at":"2020-01-01T00:00:00.123456789Z"}'),
    ("json-duration-digits", "WellKnown", '{"span":"-1.50s"}'),
    ("json-value-null", "WellKnown", '{"any":null}'),
    ("json-value-of-all-kinds", "WellKnown", '{"any":{"a":[1,-2.5e3,"x",null,true,{}]}}'),
    ("json-values-null", "WellKnown", '{"anys":[null,1]}'),
    ("json-wrapper-null-is-nothing", "WellKnown", '{"anInt64":null,"aBool":false}'),
    ("json-wrapper-as-text", "WellKnown", '{"anInt64":"7","aDouble":"Infinity"}'),
    ("json-field-mask", "WellKnown", '{"mask":"aB.c,d"}'),
    ("json-empty", "WellKnown", '{"empty":{}}'),
    ("json-null-value", "Choice", '{"nothing":null}'),
    ("json-null-value-by-name", "Choice", '{"nothing":"NULL_VALUE"}'),
    ("json-needed", "Needed", '{"id":0,"mode":"ON"}'),
    ("json-depth-100", "Tree", nested_json(100)),
]

# id, message, format, payload, path of the violation, rule, and why the oracle may accept it.
REFUSED = [
    ("cut-in-a-tag", "Scalars", "protobuf", b"\x98", "", "malformed", None),
    ("cut-in-a-varint", "Scalars", "protobuf", b"\x18\x80", "i32", "malformed", None),
    ("cut-in-a-double", "Scalars", "protobuf", f64(1, 1.0)[:-1], "d", "malformed", None),
    ("cut-in-a-text", "Scalars", "protobuf", d(14, "abc")[:-1], "text_value", "malformed", None),
    ("length-past-the-end", "Lists", "protobuf", tag(5, 2) + b"\x05\x18\x01", "items[0]", "malformed", None),
    ("varint-of-11-bytes", "Scalars", "protobuf", b"\x18" + b"\x80" * 10 + b"\x00", "i32", "malformed", None),
    ("field-number-0", "Scalars", "protobuf", b"\x00\x01", "", "malformed", None),
    ("wire-type-6", "Scalars", "protobuf", b"\x1e\x01", "i32", "malformed", None),
    ("not-utf8", "Scalars", "protobuf", d(14, b"a\xff"), "text_value", "utf8", None),
    ("not-utf8-surrogate", "Scalars", "protobuf", d(14, b"\xed\xa0\x80"), "text_value", "utf8", None),
    ("not-utf8-in-a-key", "Maps", "protobuf", d(1, d(1, b"\xff")), "by_text[0].key", "utf8", None),
    ("packed-cut", "Lists", "protobuf", d(6, bytes(7)), "doubles[0]", "malformed", None),
    ("packed-varint-cut", "Lists", "protobuf", d(1, b"\x80"), "packed[0]", "malformed", None),
    ("needed-missing", "Needed", "protobuf", d(2, "x"), "id", "required", None),
    ("needed-missing-deeper", "Needed", "protobuf", v(1, 1) + d(6, b""), "child.id", "required", None),
    ("depth-102", "Tree", "protobuf", nested(102), None, "depth", None),
    ("group", "Scalars", "protobuf", tag(50, 3) + tag(50, 4), "#50", "group", "groups are refused in every contract"),
    ("other-wire-type", "Scalars", "protobuf", f32(3, 1), "i32", "type", "another wire type is no unknown field here"),
    ("needed-in-parts", "Needed", "protobuf", v(1, 1) + d(6, v(1, 1)) + d(6, d(2, "x")), "child.id", "required",
     "each part of a message is held to its schema"),
    ("json-not-json", "Scalars", "json", "{", "", "malformed", None),
    ("json-list", "Scalars", "json", "[1]", "", "type", None),
    ("json-trailing", "Scalars", "json", "{} {}", "", "trailing", None),
    ("json-trailing-comma", "Scalars", "json", '{"i32":1,}', "", "malformed", None),
    ("json-single-quotes", "Scalars", "json", "{'i32':1}", "", "malformed", None),
    ("json-control-character", "Scalars", "json", '{"textValue":"\n"}', "text_value", "malformed", None),
    ("json-half-surrogate", "Scalars", "json", '{"textValue":"\\ud83d"}', "text_value", "utf8", None),
    ("json-leading-zero", "Scalars", "json", '{"i32":01}', "i32", "malformed", None),
    ("json-plus", "Scalars", "json", '{"i32":+1}', "i32", "malformed", None),
    ("json-nan-as-a-word", "Scalars", "json", '{"d":NaN}', "d", "malformed", None),
    ("json-duplicate", "Scalars", "json", '{"i32":1,"i32":2}', "i32", "duplicate", None),
    ("json-duplicate-by-both-names", "Scalars", "json", '{"textValue":"a","text_value":"b"}', "text_value", "duplicate",
     "a field has one value, by whichever of its names"),
    ("json-both-of-a-choice", "Choice", "json", '{"number":1,"text":"a"}', "text", "duplicate", None),
    ("json-int32-too-large", "Scalars", "json", '{"i32":2147483648}', "i32", "range", None),
    ("json-int32-too-small", "Scalars", "json", '{"i32":-2147483649}', "i32", "range", None),
    ("json-uint32-below-zero", "Scalars", "json", '{"u32":-1}', "u32", "range", None),
    ("json-uint64-too-large", "Scalars", "json", '{"u64":"18446744073709551616"}', "u64", "range", None),
    ("json-int64-too-large", "Scalars", "json", '{"i64":9223372036854775808}', "i64", "range", None),
    ("json-fraction", "Scalars", "json", '{"i32":1.5}', "i32", "type", None),
    ("json-fraction-as-text", "Scalars", "json", '{"i32":"1.5"}', "i32", "type", None),
    ("json-text-with-space", "Scalars", "json", '{"i32":" 1"}', "i32", "type", None),
    ("json-empty-text-as-number", "Scalars", "json", '{"i32":""}', "i32", "type", None),
    ("json-hexadecimal", "Scalars", "json", '{"i32":"0x10"}', "i32", "type", None),
    ("json-bool-as-text", "Scalars", "json", '{"b":"true"}', "b", "type", None),
    ("json-bool-as-number", "Scalars", "json", '{"b":1}', "b", "type", None),
    ("json-number-as-bool", "Scalars", "json", '{"i32":true}', "i32", "type", None),
    ("json-text-as-number", "Scalars", "json", '{"textValue":1}', "text_value", "type", None),
    ("json-float-too-large", "Scalars", "json", '{"f":3.5e38}', "f", "range", None),
    ("json-double-too-large", "Scalars", "json", '{"d":1e400}', "d", "range", None),
    ("json-enum-unknown-name", "Scalars", "json", '{"colour":"BLUE"}', "colour", "enumeration", None),
    ("json-enum-small-letters", "Scalars", "json", '{"colour":"red"}', "colour", "enumeration", None),
    ("json-base64-wrong", "Scalars", "json", '{"data":"A"}', "data", "type", None),
    ("json-base64-spare-bits", "Scalars", "json", '{"data":"AB"}', "data", "type",
     "bits that are left over must be zero here, so that bytes have one text"),
    ("json-null-in-a-list", "Lists", "json", '{"packed":[1,null]}', "packed[1]", "type", None),
    ("json-item-of-a-message", "Lists", "json", '{"items":[{"i32":1},{"i32":"x"}]}', "items[1].i32", "type", None),
    ("json-no-list", "Lists", "json", '{"packed":1}', "packed", "type", None),
    ("json-map-key", "Maps", "json", '{"byNumber":{"x":"a"}}', "by_number[0]", "type", None),
    ("json-map-key-of-a-boolean", "Maps", "json", '{"byFlag":{"1":{}}}', "by_flag[0]", "type", None),
    ("json-map-value", "Maps", "json", '{"byText":{"a":"x"}}', "by_text.a", "type", None),
    ("json-null-in-a-map", "Maps", "json", '{"byText":{"a":null}}', "by_text.a", "type", None),
    ("json-timestamp-small-letters", "WellKnown", "json", '{"at":"2020-01-01t00:00:00z"}', "at", "text_format", None),
    ("json-timestamp-without-zone", "WellKnown", "json", '{"at":"2020-01-01T00:00:00"}', "at", "text_format", None),
    ("json-timestamp-of-the-year-0", "WellKnown", "json", '{"at":"0000-01-01T00:00:00Z"}', "at", "text_format", None),
    ("json-timestamp-after-9999", "WellKnown", "json", '{"at":"9999-12-31T23:59:59-01:00"}', "at", "text_format", None),
    ("json-timestamp-29-february", "WellKnown", "json", '{"at":"2021-02-29T00:00:00Z"}', "at", "text_format", None),
    ("json-timestamp-ten-digits", "WellKnown", "json", '{"at":"2020-01-01T00:00:00.1234567891Z"}', "at", "text_format",
     None),
    ("json-duration-without-s", "WellKnown", "json", '{"span":"1"}', "span", "text_format", None),
    ("json-duration-too-long", "WellKnown", "json", '{"span":"315576000001s"}', "span", "text_format", None),
    ("json-field-mask-underscore", "WellKnown", "json", '{"mask":"a_b"}', "mask", "text_format", None),
    ("json-struct-as-list", "WellKnown", "json", '{"object":[]}', "object", "type", None),
    ("json-needed-missing", "Needed", "json", '{"note":"x"}', "id", "required", None),
    ("json-depth-102", "Tree", "json", nested_json(102), None, "depth", None),
]
