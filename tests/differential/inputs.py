"""Generates packets for the comparison: changed vectors, and bytes made from scratch. The seed
determines all of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VECTORS = Path(__file__).resolve().parents[2] / "spec" / "vectors" / "mqtt"
VERSIONS = {"3.1": 3, "3.1.1": 4, "5.0": 5}
# Longer vectors only test length, and would take most of the time.
VECTOR_MAX_BYTES = 600
MAX_PACKET_BYTES = 268_435_460
USUAL_LIMIT_BYTES = 4096
# Bytes with special meaning: separators, wildcards, property identifiers, first bytes of UTF-8
# sequences.
TELLING_BYTES = bytes([0, 1, 2, 0x23, 0x2B, 0x2F, 0x24, 0x26, 0x7F, 0x80, 0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFF])
SUBSCRIBING_TYPES = (6, 8, 10)


@dataclass(frozen=True)
class Input:
    version: int
    max_packet_size: int
    data: bytes

    def line(self) -> str:
        return f"{self.version} {self.max_packet_size} {self.data.hex()}\n"


def make(count: int, seed: int) -> Iterator[Input]:
    """Yields all vectors unchanged, then `count` others."""
    vectors = list(_vectors())
    yield from vectors
    choose = random.Random(seed)
    for _ in range(count):
        yield _made(choose) if choose.randrange(4) == 0 else _mutated(choose, vectors)


def _vectors() -> Iterator[Input]:
    for file in sorted(VECTORS.glob("*.json")):
        for vector in json.loads(file.read_text())["vectors"]:
            data = bytes.fromhex(vector.get("hex") or "")
            if 0 < len(data) < VECTOR_MAX_BYTES:
                yield Input(VERSIONS[vector["version"]], vector.get("max_packet_size", MAX_PACKET_BYTES), data)


def _mutated(choose: random.Random, vectors: list[Input]) -> Input:
    vector = choose.choice(vectors)
    version, data = vector.version, bytearray(vector.data)
    for _ in range(choose.randrange(4)):
        _change(choose, data)
    # Mostly with a correct remaining length, so that the body is decoded.
    if choose.randrange(4) > 0 and 2 < len(data) < 130:
        data[1] = len(data) - 2
    if choose.randrange(8) == 0:
        version = choose.choice((3, 4, 5))
    limit = choose.randrange(2, 62) if choose.randrange(10) == 0 else USUAL_LIMIT_BYTES
    return Input(version, limit, bytes(data))


def _change(choose: random.Random, data: bytearray) -> None:
    if not data:
        return
    at = choose.randrange(len(data))
    match choose.randrange(6):
        case 0:
            data[at] = choose.randrange(256)
        case 1:
            data[at] ^= 1 << choose.randrange(8)
        case 2:
            del data[at]
        case 3:
            data.insert(at, choose.randrange(256))
        case 4:
            data[at] = choose.choice(TELLING_BYTES)
        case _:
            data[at:] = data[choose.randrange(len(data)) :]


def _made(choose: random.Random) -> Input:
    packet_type = choose.randrange(16)
    if packet_type == 3:
        flags = choose.randrange(16)
    elif packet_type in SUBSCRIBING_TYPES:
        # Sometimes with DUP, which 3.1 accepts and the others refuse.
        flags = choose.choice((2, 2, 2, 10))
    else:
        flags = 0
    length = choose.randrange(40)
    body = bytes(choose.randrange(256) if choose.randrange(3) == 0 else choose.randrange(12) for _ in range(length))
    return Input(choose.choice((3, 4, 5)), USUAL_LIMIT_BYTES, bytes([packet_type << 4 | flags, length]) + body)
