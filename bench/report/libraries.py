"""Compares the codecs and clients of each language with their peers: each figure of Tautwire with the best peer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import metrics
from results import OURS, Result, is_ours, is_peer

# The kind of a figure, by the suffix of its name; the prefix is its subject.
KINDS = {
    "_messages_per_cpu_s": "messages a second of its CPU",
    "_messages_per_s": "messages a second",
    "_round_trips_per_s": "round trips a second",
    "_per_s": "a second",
    "_cpu_ns": "CPU",
    "_cpu_us": "CPU",
    "_cpu_s": "CPU",
    "_p50_us": "median",
    "_allocated_bytes": "memory allocated",
    "_allocations": "allocations",
    "_max_rss_bytes": "most memory of the process",
    "_rss_bytes": "memory of the process",
    "_vs_json_ratio": "times as fast as JSON, geometric mean",
    "_ratio_to_raw_tcp": "part of the rate of raw TCP",
    "_bytes": "bytes",
}


@dataclass(frozen=True)
class Row:
    """A figure of Tautwire, and that of the best peer in the same run."""

    result: Result
    metric: str
    ours: float
    peer: str
    theirs: float

    @property
    def language(self) -> str:
        return self.result.data["parameters"]["language"]

    @property
    def part(self) -> str:
        return self.result.data["parameters"]["part"]

    @property
    def what(self) -> str:
        return f"{self.part}, {label(self.metric)}"

    @property
    def path(self) -> Path:
        return self.result.path

    @property
    def factor(self) -> float:
        """Returns how many times as good Tautwire is."""
        better, worse = (self.ours, self.theirs) if metrics.better(self.metric) == metrics.HIGHER else (self.theirs, self.ours)
        if worse:
            return better / worse
        return math.inf if better else 1.0

    @property
    def factor_shown(self) -> str:
        return f"{self.factor:.2f}" if math.isfinite(self.factor) else "∞"


def rows(results: list[Result]) -> list[Row]:
    return [row for result in results if result.is_library for placement in result.placements for row in _of(result, placement)]


def _of(result: Result, placement: str) -> Iterator[Row]:
    for metric in result.metrics(placement):
        direction = metrics.better(metric)
        if direction == metrics.NEITHER:
            continue
        best = min if direction == metrics.LOWER else max
        found = {name: figure.median for name in result.brokers(placement) if (figure := result.figure(placement, name, metric))}
        ours = [median for name, median in found.items() if is_ours(name)]
        peers = [name for name in found if is_peer(name)]
        if ours and peers:
            peer = best(peers, key=found.__getitem__)
            # Use variants of Tautwire only if it has no such figure itself.
            yield Row(result, metric, found.get(OURS, best(ours)), peer, found[peer])


def label(metric: str) -> str:
    """Splits a name into its subject and its kind (the suffix)."""
    for end, words in KINDS.items():
        if metric.endswith(end):
            case = re.sub(r"\bqos(\d)", r"QoS \1", metric.removesuffix(end).replace("v3_1_1", "3.1.1").replace("_", " "))
            return f"{case}: {words}"
    return metrics.label(metric)
