"""PINGREQ and PINGRESP."""

from encoder import frame

from cases.model import VectorFile

TAGS = {"3.1": "v31", "3.1.1": "v311", "5.0": "v5"}


def build():
    return [_file("pingreq", 0xC0), _file("pingresp", 0xD0)]


def _file(kind, first):
    f = VectorFile(kind)
    f.note("body", "A body where none may be.", None, "A codec that skips it lets anything travel in a ping.")
    for version, tag in TAGS.items():
        f.valid(f"{kind}-{tag}", f"{kind.upper()}", version, {"type": kind}, data=bytes([first, 0]))
        f.malformed(f"{kind}-{tag}-body-1", "one byte of body", version, bytes([first, 1, 0]), flags=["body"])
        f.malformed(f"{kind}-{tag}-body-2", "two bytes of body", version, bytes([first, 2, 0, 1]), flags=["body"])
    f.malformed(f"{kind}-v5-body-200", "200 bytes of body", "5.0", frame(first, b"x" * 200), flags=["body"])
    return f
