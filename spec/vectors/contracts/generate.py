#!/usr/bin/env python3
"""Writes vectors.json from cases.py. The Python runtime of Protocol Buffers converts payloads to the other formats,
except MessagePack, which it does not support: pack.py does that."""

import json
import math
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message, message_factory

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import pack  # noqa: E402


def main():
    (HERE / "vectors.json").write_text(text())


def text():
    """Returns the text of vectors.json."""
    types = Types(json.loads((HERE / "schemas.json").read_text()))
    vectors = [from_binary(types, *case) for case in cases.BINARY]
    vectors += [from_json(types, *case) for case in cases.JSON]
    vectors += [refused(types, *case) for case in cases.REFUSED]
    names = [vector["id"] for vector in vectors]
    assert len(names) == len(set(names)), "an id is there twice"
    lines = ",\n".join("    " + json.dumps(vector) for vector in vectors)
    return f'{{\n  "comment": "Made by generate.py. See README.md.",\n  "vectors": [\n{lines}\n  ]\n}}\n'


class Types:
    """Loads the messages from the descriptor sets that the contract compiler has generated."""

    def __init__(self, schemas):
        pool = descriptor_pool.DescriptorPool()
        self.file_of, known = {}, set()
        for name, hex_text in schemas.items():
            for file in descriptor_pb2.FileDescriptorSet.FromString(bytes.fromhex(hex_text)).file:
                if file.name not in known:
                    known.add(file.name)
                    pool.Add(file)
            for found in pool.FindFileByName(name).message_types_by_name:
                self.file_of[found] = name
        self.pool = pool

    def new(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(f"vectors.{name}"))()


def from_binary(types, identifier, name, payload):
    value = types.new(name)
    value.ParseFromString(payload)
    return {"id": identifier, **head(types, name), "format": "protobuf", "hex": payload.hex(), **outcome(value)}


def from_json(types, identifier, name, payload):
    value = json_format.Parse(payload, types.new(name))
    return {"id": identifier, **head(types, name), "format": "json", "text": payload, **outcome(value)}


def head(types, name):
    return {"schema": types.file_of[name], "message": name}


def outcome(value):
    """Returns the message in all formats, in canonical form."""
    value.DiscardUnknownFields()
    as_json = json_format.MessageToDict(value)
    return {
        "result": "valid",
        "protobuf_hex": value.SerializeToString(deterministic=True).hex(),
        "json": exact(as_json),
        "messagepack_hex": pack.message(value).hex(),
    }


def exact(value):
    """Sorts keys, because the runtime chooses the order of a map, and requires finite numbers, because JSON has no others."""
    if isinstance(value, float):
        assert math.isfinite(value)
    if isinstance(value, dict):
        return {key: exact(value[key]) for key in sorted(value)}
    return [exact(item) for item in value] if isinstance(value, list) else value


def refused(types, identifier, name, format_name, payload, path, rule, why_not_there):
    try:
        value = types.new(name)
        if format_name == "protobuf":
            value.ParseFromString(payload)
            accepted = value.IsInitialized()
        else:
            json_format.Parse(payload, value)
            accepted = value.IsInitialized()
    except (message.DecodeError, json_format.ParseError, ValueError):
        accepted = False
    verdict = "takes" if accepted else "refuses"
    assert accepted == (why_not_there is not None), f"{identifier}: the oracle {verdict} it"
    data = {"hex": payload.hex()} if format_name == "protobuf" else {"text": payload}
    vector = {"id": identifier, **head(types, name), "format": format_name, **data, "result": "refused", "rule": rule}
    if path is not None:
        vector["path"] = path
    if why_not_there:
        vector["stricter"] = why_not_there
    return vector


if __name__ == "__main__":
    main()
