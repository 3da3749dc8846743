"""Tests of the MessagePack vectors: their schema, their generator, and agreement with Python's msgpack."""

import importlib.util
import json
import re
import struct
import unittest
from pathlib import Path

import jsonschema
import msgpack

VECTORS = Path(__file__).resolve().parent / "vectors/msgpack"
FILE = json.loads((VECTORS / "cases.json").read_text())

# Values that it cannot represent: a list as a key, and extensions below 0 other than timestamps.
NOT_COMPARABLE = frozenset({"map-array-key", "ext-type-minus-2", "ext-type-minus-128"})


def data(notation):
    return bytes.fromhex(re.sub(r"\(([0-9a-f]+)\*(\d+)\)", lambda m: m[1] * int(m[2]), notation))


def value(notation):
    if notation == "nil":
        return None
    kind, content = next(iter(notation.items()))
    match kind:
        case "bool":
            return content
        case "int":
            return int(content)
        case "float64":
            return struct.unpack(">d", data(content))[0]
        case "str":
            return content if isinstance(content, str) else content[0] * content[1]
        case "bin":
            return data(content)
        case "array":
            return [value(item) for item in content]
        case "repeat":
            return [value(content[0])] * content[1]
        case "map":
            return {value(k): value(v) for k, v in content}
        case "ext":
            return msgpack.ExtType(content, data(notation["data"]))
        case "seconds":
            return msgpack.Timestamp(int(content), notation["nanoseconds"])
    raise AssertionError(f"unknown notation {kind}")


def unpack(wire):
    return msgpack.unpackb(wire, strict_map_key=False, use_list=True)


def same(got, expected):
    # NaN differs from itself, and −0 equals 0, so compare their texts.
    return repr(got) == repr(expected)


class MsgpackVectors(unittest.TestCase):
    def test_the_file_matches_its_schema(self):
        jsonschema.validate(FILE, json.loads((VECTORS / "schema.json").read_text()))

    def test_the_file_matches_the_generator(self):
        spec = importlib.util.spec_from_file_location("msgpack_vectors", VECTORS / "generate.py")
        generate = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(generate)
        self.assertEqual(generate.file_text(generate.collect()), (VECTORS / "cases.json").read_text())

    def test_python_decodes_every_valid_vector(self):
        for vector in FILE["vectors"]:
            if vector["result"] == "valid" and vector["id"] not in NOT_COMPARABLE:
                with self.subTest(vector["id"]):
                    expected = value(vector["value"])
                    got = unpack(data(vector["hex"]))
                    self.assertTrue(same(got, expected), (got, expected))

    def test_python_encodes_the_required_bytes(self):
        for vector in FILE["vectors"]:
            if vector["result"] == "valid" and vector["encode"] and vector["id"] not in NOT_COMPARABLE:
                with self.subTest(vector["id"]):
                    self.assertEqual(msgpack.packb(value(vector["value"])), data(vector["hex"]))

    def test_python_refuses_invalid_vectors(self):
        for vector in FILE["vectors"]:
            if vector["result"] == "valid":
                continue
            with self.subTest(vector["id"]), self.assertRaises((ValueError, TypeError, msgpack.UnpackException)):
                unpack(data(vector["hex"]))


if __name__ == "__main__":
    unittest.main()
