"""Measures service interruptions of clients, from histories. `measure.py FILE…`; `run.py --measure`
makes such a history."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from judge import Client, Event, History, Link, read

# The maximum time after a kill that is examined.
LOOKED_AT_NS = 15_000_000_000


def kills(events: list[Event]) -> list[tuple[int, str]]:
    """Returns when each broker was killed."""
    begun = (event for event in events if event["what"] == "begins" and event["fault"].startswith("kill broker"))
    return [(event["at"], event["fault"].split()[1]) for event in begun]


def link_at(client: Client, at: int) -> Link | None:
    """Returns the connection that a client used at a time."""
    used = [
        link for link in client.links.values()
        if link.connected_at is not None and link.connected_at < at and (link.ended_at is None or link.ended_at > at)
    ]
    return max(used, key=lambda link: link.connected_at or 0, default=None)


def returns_ms(events: list[Event]) -> Iterator[float]:
    """For each client of a killed broker: the time until CONNACK from another one."""
    history = History(events)
    for at, name in kills(events):
        for client in history.clients.values():
            if (link := link_at(client, at)) and link.to == name:
                after = [other.connected_at for other in client.links.values() if other.connected_at and other.connected_at > at]
                if after:
                    yield (min(after) - at) / 1e6


def silences_ms(events: list[Event]) -> Iterator[float]:
    """For each publisher at another broker: the longest time between two acknowledgements after a
    kill."""
    history = History(events)
    acknowledged: dict[str, list[int]] = {}
    for event in events:
        if event["what"] == "acknowledged":
            acknowledged.setdefault(event["who"], []).append(event["at"])
    for at, name in kills(events):
        for who, times in acknowledged.items():
            link = link_at(history.clients[who], at)
            near = sorted(time for time in times if at - 1_000_000_000 < time < at + LOOKED_AT_NS)
            is_elsewhere = link is not None and link.to != name and (link.ended_at is None or link.ended_at > at + LOOKED_AT_NS)
            if is_elsewhere and len(near) > 1:
                yield max(later - earlier for earlier, later in pairwise(near)) / 1e6


def takeovers_ms(events: list[Event]) -> Iterator[float]:
    """The time from the CONNECT of a client that is connected elsewhere until its CONNACK."""
    for client in History(events).clients.values():
        for link in client.links.values():
            former = link_at(client, link.begun_at)
            if link.connected_at and former and former.to != link.to:
                yield (link.connected_at - link.begun_at) / 1e6


def summary(values: list[float]) -> dict[str, float]:
    """Returns p50, p99 and the maximum."""
    if not values:
        return {"count": 0}
    ordered = sorted(values)
    at = {name: ordered[min(len(ordered) - 1, int(len(ordered) * part))] for name, part in (("p50", 0.5), ("p99", 0.99))}
    return {"count": len(ordered), **{name: round(value, 1) for name, value in at.items()}, "max": round(ordered[-1], 1)}


def measured(events: list[Event]) -> dict[str, dict[str, float]]:
    return {
        "return_after_kill_ms": summary(list(returns_ms(events))),
        "silence_elsewhere_ms": summary(list(silences_ms(events))),
        "takeover_ms": summary(list(takeovers_ms(events))),
    }


def main() -> int:
    for name in sys.argv[1:]:
        print(json.dumps({"history": name, **measured(read(Path(name)))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
