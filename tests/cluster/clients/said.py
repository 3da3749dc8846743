"""What agents in Python say, and what their messages look like."""

from __future__ import annotations

import json
import sys
import threading
import time

# A message in a hundred is larger than what waits for one write of a socket.
LARGE_EVERY, LARGE_BYTES = 101, 20_000

_lock = threading.Lock()


def say(who: str, what: str, **more: object) -> None:
    """One event. What is sent is said before it is sent, and what has come after it has come: so what is said to be later was."""
    with _lock:
        sys.stdout.write(json.dumps({"at": time.monotonic_ns(), "who": who, "what": what, **more}, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def payload_of(topic: str, number: int) -> bytes:
    filler = LARGE_BYTES if number % LARGE_EVERY == 0 else number * 7919 % 97
    return f"{topic} {number} ".encode() + b"." * filler


def number_of(topic: str, payload: bytes) -> int | None:
    """The number of a message, all of whose bytes are as they were sent."""
    parts = payload.split(b" ", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    number = int(parts[1])
    return number if payload == payload_of(topic, number) else None
