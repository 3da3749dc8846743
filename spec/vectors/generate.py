#!/usr/bin/env python3
"""Writes the vectors from the cases: `python spec/vectors/generate.py`. `--check` only lists stale files."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases import (
    acks,
    auth,
    connack,
    connect,
    disconnect,
    fixed_header,
    ping,
    properties,
    publish,
    suback,
    subscribe,
    topics,
    utf8,
    varint,
)  # noqa: E402


def mqtt_files():
    """Builds every file under `mqtt/`, as `VectorFile`s."""
    modules = (
        fixed_header,
        varint,
        utf8,
        properties,
        connect,
        connack,
        publish,
        acks,
        subscribe,
        suback,
        ping,
        disconnect,
        auth,
    )
    for module in modules:
        built = module.build()
        yield from built if isinstance(built, list) else [built]


def documents():
    """Yields the path below this directory and the text of every vector file."""
    out = {f"mqtt/{f.name}.json": render(f.document()) for f in mqtt_files()}
    for name in ("names", "filters", "matching"):
        out[f"topics/{name}.json"] = render(getattr(topics, name)())
    return out


def render(document):
    """Formats JSON with one vector a line, so that a diff shows changed vectors."""
    lines = ["{", f'  "schema": {one_line(document["schema"])},']
    if "notes" in document:
        notes = [f"    {one_line(flag)}: {one_line(note)}" for flag, note in document["notes"].items()]
        lines += ['  "notes": {', ",\n".join(notes), "  },"]
    vectors = ["    " + one_line(vector) for vector in document["vectors"]]
    lines += ['  "vectors": [', ",\n".join(vectors), "  ]", "}"]
    return "\n".join(lines) + "\n"


def one_line(value):
    """Escapes everything beyond ASCII, because editors and terminals alter characters that they do not show."""
    return json.dumps(value, ensure_ascii=True)


def main():
    changed = [
        path for path, text in documents().items() if not (HERE / path).exists() or (HERE / path).read_text() != text
    ]
    if "--check" in sys.argv[1:]:
        for path in changed:
            print(f"{path} differs from its cases: run python spec/vectors/generate.py")
        return 1 if changed else 0
    for path, text in documents().items():
        (HERE / path).parent.mkdir(exist_ok=True)
        (HERE / path).write_text(text)
    print("\n".join(f"wrote {path}" for path in changed) or "nothing changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
