"""The events that Python agents print, and the payloads of their messages."""

from __future__ import annotations

import json
import sys
import threading
import time

# One message in a hundred is larger than the buffer of a socket.
LARGE_EVERY, LARGE_BYTES = 101, 20_000

_lock = threading.Lock()


def say(who: str, what: str, **more: object) -> None:
    """Prints one event. A sent packet is recorded before it is sent, a received one after it has
    arrived, so the recorded order is reliable."""
    with _lock:
        sys.stdout.write(json.dumps({"at": time.monotonic_ns(), "who": who, "what": what, **more}, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def payload_of(topic: str, number: int) -> bytes:
    filler = LARGE_BYTES if number % LARGE_EVERY == 0 else number * 7919 % 97
    return f"{topic} {number} ".encode() + b"." * filler


def number_of(topic: str, payload: bytes) -> int | None:
    """Returns the number of a message whose payload is intact."""
    parts = payload.split(b" ", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    number = int(parts[1])
    return number if payload == payload_of(topic, number) else None
