"""Encodes a message as MessagePack: maps with JSON names, native types. Written from the mapping, not from the broker."""

import struct

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor as Field

WRAPPERS = {f"google.protobuf.{name}Value" for name in
            ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")}
AS_IN_JSON = {"google.protobuf.Duration", "google.protobuf.FieldMask"}


def message(value):
    name = value.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return timestamp(value.seconds, value.nanos)
    if name in AS_IN_JSON:
        return text(value.ToJsonString())
    if name in WRAPPERS:
        return scalar(value.DESCRIPTOR.fields_by_name["value"], value.value)
    if name in ("google.protobuf.Struct", "google.protobuf.ListValue", "google.protobuf.Value"):
        return untyped(json_format.MessageToDict(value))
    # By ascending number, as ListFields returns them.
    return pairs([(text(field.json_name), of_field(field, content)) for field, content in value.ListFields()])


def of_field(field, content):
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, item = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return pairs([(text(key_text(k)), scalar(item, content[k])) for k in sorted(content)])
    if field.is_repeated:
        return head(0x90, 0xDC, len(content)) + b"".join(scalar(field, item) for item in content)
    return scalar(field, content)


def key_text(key):
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


def scalar(field, value):
    if field.type == Field.TYPE_MESSAGE:
        return message(value)
    if field.type == Field.TYPE_ENUM:
        if field.enum_type.full_name == "google.protobuf.NullValue":
            return b"\xc0"
        known = next((item for item in field.enum_type.values if item.number == value), None)
        return text(known.name) if known else integer(value)
    if field.type == Field.TYPE_DOUBLE:
        return b"\xcb" + struct.pack(">d", value)
    if field.type == Field.TYPE_FLOAT:
        return b"\xca" + struct.pack(">f", value)
    if field.type == Field.TYPE_BOOL:
        return b"\xc3" if value else b"\xc2"
    if field.type == Field.TYPE_STRING:
        return text(value)
    if field.type == Field.TYPE_BYTES:
        return binary(value)
    return integer(value)


def untyped(value):
    """Converts a google.protobuf.Value; its numbers are doubles."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, (int, float)):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return head(0x90, 0xDC, len(value)) + b"".join(map(untyped, value))
    return pairs([(text(key), untyped(value[key])) for key in sorted(value)])


def pairs(entries):
    return head(0x80, 0xDE, len(entries)) + b"".join(key + value for key, value in entries)


def head(short, long, count):
    return bytes([short | count]) if count < 16 else bytes([long]) + struct.pack(">H", count)


def text(value):
    data = value.encode()
    if len(data) < 32:
        return bytes([0xA0 | len(data)]) + data
    if len(data) < 0x100:
        return bytes([0xD9, len(data)]) + data
    return b"\xda" + struct.pack(">H", len(data)) + data


def binary(data):
    return bytes([0xC4, len(data)]) + data if len(data) < 0x100 else b"\xc5" + struct.pack(">H", len(data)) + data


def integer(value):
    if 0 <= value < 0x80 or -32 <= value < 0:
        return struct.pack(">b", value)
    for mark, form, low, high in (
        (0xCC, ">B", 0, 1 << 8), (0xCD, ">H", 0, 1 << 16), (0xCE, ">I", 0, 1 << 32), (0xCF, ">Q", 0, 1 << 64),
        (0xD0, ">b", -1 << 7, 0), (0xD1, ">h", -1 << 15, 0), (0xD2, ">i", -1 << 31, 0), (0xD3, ">q", -1 << 63, 0),
    ):
        if low <= value < high:
            return bytes([mark]) + struct.pack(form, value)
    raise ValueError(value)


def timestamp(seconds, nanos):
    if nanos == 0 and 0 <= seconds < 1 << 32:
        return b"\xd6\xff" + struct.pack(">I", seconds)
    if 0 <= seconds < 1 << 34:
        return b"\xd7\xff" + struct.pack(">Q", nanos << 34 | seconds)
    return b"\xc7\x0c\xff" + struct.pack(">Iq", nanos, seconds)
