"""An operator who bans non-existent clients, by one broker after the other, during the faults: each
ban is a revision of the shared configuration."""

from __future__ import annotations

import json
import random
import threading
import urllib.error
import urllib.request
from contextlib import suppress

from agents import Record
from processes import Broker

WHO = "operator"
PATH = "/v1/bans"
CREATED = 201
EVERY_S, PATIENCE_S = 0.4, 5


class Operator:
    """Bans clients from the start of the `with` block to its end."""

    def __init__(self, brokers: list[Broker], seed: int, record: Record) -> None:
        self._brokers, self._random, self._record = brokers, random.Random(seed), record
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Operator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(EVERY_S):
            number += 1
            broker = self._random.choice(self._brokers)
            self._record.note(WHO, "ban", number=number, to=broker.name)
            # Without an answer, or with 503, the ban may nevertheless take effect.
            if _request(broker, "POST", {"client_id": _name(number)})[0] == CREATED:
                self._record.note(WHO, "banned", number=number, to=broker.name)


def bans_of(broker: Broker) -> list[int] | None:
    """Returns the numbers of a broker's bans; `None` without an answer."""
    status, text = _request(broker, "GET")
    if status != 200:
        return None
    names = [ban.get("client_id", "") for ban in json.loads(text)["bans"]]
    return [number for number in map(_number, names) if number is not None]


def _name(number: int) -> str:
    return f"nobody-{number}"


def _number(name: str) -> int | None:
    return int(name.removeprefix("nobody-")) if name.startswith("nobody-") else None


def _request(broker: Broker, method: str, body: dict | None = None) -> tuple[int | None, str]:
    data = json.dumps(body).encode() if body else None
    headers = {"Authorization": f"Bearer {broker.token}"}
    with suppress(OSError, ValueError):
        request = urllib.request.Request(f"http://{broker.admin}{PATH}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    return None, ""
