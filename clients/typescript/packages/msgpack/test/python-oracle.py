"""Checks the vectors against Python's msgpack, which must be installed: `python3 test/python-oracle.py`."""

import json
import pathlib
import re
import struct

import msgpack

CASES = pathlib.Path(__file__).resolve().parents[5] / "spec/vectors/msgpack/cases.json"


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
            return {freeze(value(k)): value(v) for k, v in content}
        case "ext":
            return msgpack.ExtType(content, data(notation["data"]))
        case "seconds":
            return msgpack.Timestamp(int(content), notation["nanoseconds"])


def freeze(key):
    return tuple(key) if isinstance(key, list) else key


def packable(v):
    return not (isinstance(v, msgpack.ExtType) and v.code < 0)


def main():
    vectors = json.loads(CASES.read_text())["vectors"]
    decoded = encoded = refused = 0
    for vector in vectors:
        wire = data(vector["hex"])
        if vector["result"] == "valid":
            try:
                expected = value(vector["value"])
                got = msgpack.unpackb(wire, strict_map_key=False, use_list=True)
            except (TypeError, ValueError) as error:
                print("not comparable:", vector["id"], error)
                continue
            assert repr(got) == repr(expected) or got == expected, (vector["id"], got, expected)
            decoded += 1
            if vector["encode"] and packable(expected):
                assert msgpack.packb(expected) == wire, vector["id"]
                encoded += 1
        else:
            try:
                msgpack.unpackb(wire, strict_map_key=False)
            except Exception:
                refused += 1
            else:
                print("accepted there, refused here:", vector["id"])
    print(f"{len(vectors)} vectors: {decoded} decode alike, {encoded} encode alike, {refused} are refused alike")


if __name__ == "__main__":
    main()
