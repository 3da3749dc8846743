"""Figures in which others are better, missed thresholds, and an overview."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import metrics
from results import Figure, Result, is_peer, title_of

# A smaller ratio is not a difference, regardless of the spread.
FACTOR_MIN = 1.02

# For the matrix: pairs of one kind, medians and tails.
MATRIX_COMPARED = re.compile(r"(?P<client>[\w-]+)_to_(?P=client)_qos\d_(p50_us|p99_us|round_trips_per_s)$")


# In the matrix, for each language: the Tautwire client and the other.
MATRIX_CLIENTS = [("c", "c-paho"), ("go", "go-paho"), ("js", "js-mqttjs")]


@dataclass(frozen=True)
class Behind:
    """A figure in which a peer is better: both values, and the peer."""

    result: Result
    placement: str
    what: str
    ours_at: tuple[str, str]
    theirs_at: tuple[str, str]
    by: str

    @property
    def metric(self) -> str:
        return self.ours_at[1]

    @property
    def ours(self) -> Figure:
        return self._figure(*self.ours_at)

    @property
    def theirs(self) -> Figure:
        return self._figure(*self.theirs_at)

    @property
    def factor(self) -> float:
        low, high = sorted((self.ours.median, self.theirs.median))
        return high / low if low > 0 else float("inf")

    @property
    def is_behind(self) -> bool:
        is_lower = self.theirs.median < self.ours.median
        return is_lower == (metrics.better(self.metric) == metrics.LOWER) and self.factor >= FACTOR_MIN

    @property
    def is_clear(self) -> bool:
        """Whether no Tautwire round was as good as the worst of the peer, with more than one round."""
        if self.ours.rounds < 2:
            return False
        if metrics.better(self.metric) == metrics.LOWER:
            return self.ours.least > self.theirs.most
        return self.ours.most < self.theirs.least

    def _figure(self, broker: str, metric: str) -> Figure:
        figure = self.result.figure(self.placement, broker, metric)
        assert figure is not None
        return figure


def behind(results: list[Result]) -> list[Behind]:
    """Returns the figures in which the best peer is better, the largest difference first."""
    found = [case for result in results if not result.is_library
             for placement in result.placements for case in _pairs(result, placement) if case.is_behind]
    return sorted(found, key=lambda case: (not case.is_clear, -case.factor))


def _pairs(result: Result, placement: str) -> Iterator[Behind]:
    for metric in compared(result, placement):
        best = best_peer(result, placement, metric)
        ours = result.ours(placement)
        if best and result.figure(placement, ours, metric):
            yield Behind(result, placement, metrics.label(metric, result.parameter), (ours, metric), (best, metric), title_of(best))
    if result.kind != "rtt-matrix":
        return
    for broker in result.brokers(placement):
        for (ours, theirs), qos in itertools.product(MATRIX_CLIENTS, (0, 1, 2)):
            pair = [(broker, f"{client}_to_{client}_qos{qos}_p50_us") for client in (ours, theirs)]
            if all(result.figure(placement, *at) for at in pair):
                yield Behind(result, placement, f"the client itself, through {title_of(broker)}: {metrics.label(pair[0][1])}", *pair, theirs)


def compared(result: Result, placement: str) -> list[str]:
    """Returns the figures that can be compared."""
    names = [metric for metric in result.metrics(placement) if metrics.better(metric) != metrics.NEITHER]
    if result.kind == "rtt-matrix":
        return [metric for metric in names if MATRIX_COMPARED.match(metric)]
    return names


def best_peer(result: Result, placement: str, metric: str) -> str | None:
    peers = [
        (figure.median, broker) for broker in result.brokers(placement)
        if is_peer(broker) and (figure := result.figure(placement, broker, metric))
    ]
    if not peers:
        return None
    return (min(peers) if metrics.better(metric) == metrics.LOWER else max(peers))[1]


def best_broker(result: Result, placement: str, metric: str) -> str | None:
    """Returns the values of Tautwire and the peers."""
    brokers = [broker for broker in result.brokers(placement) if broker == result.ours(placement) or is_peer(broker)]
    found = [(figure.median, broker) for broker in brokers if (figure := result.figure(placement, broker, metric))]
    direction = metrics.better(metric)
    if len(found) < 2 or direction == metrics.NEITHER:
        return None
    return (min(found) if direction == metrics.LOWER else max(found))[1]


def missed(results: list[Result]) -> list[tuple[Result, dict]]:
    """Returns the checks that did not pass."""
    return [(result, check) for result in results for check in result.data["checks"] if check["verdict"] != "pass"]


def measured(check: dict) -> str:
    return f"{check['measured']:,.4g}" if "measured" in check else "–"


@dataclass(frozen=True)
class Headline:
    """A row of the overview: one figure of the result with these parameters."""

    label: str
    metric: str
    parameters: dict[str, object]
    version: str = "3.1.1"

    def find(self, results: list[Result]) -> Result | None:
        for result in results:
            has = {**result.data["parameters"], "mqtt_version": result.data.get("mqtt_version")}
            wanted = {**self.parameters, "mqtt_version": self.version}
            # The name of a figure of a curve includes its step.
            is_curve = "@" in self.metric
            if all(has.get(name) == value for name, value in wanted.items()) and ("curve" in result.data) == is_curve:
                placement = result.placements[0] if result.placements else ""
                if self.metric in result.metrics(placement):
                    return result
        return None


def flood(publishers: int, subscribers: int, qos: int, payload_bytes: int = 16) -> dict[str, object]:
    return {"kind": "flood", "publishers": publishers, "subscribers": subscribers, "pairs": 0, "qos": qos,
            "payload_bytes": payload_bytes}


CPU = "broker_cpu_s_per_million_deliveries"
HEADLINES = [
    Headline("CPU per million deliveries, 1 publisher → 1 subscriber, QoS 0", CPU, flood(1, 1, 0)),
    Headline("the same, QoS 1", CPU, flood(1, 1, 1)),
    Headline("the same, QoS 2", CPU, flood(1, 1, 2)),
    Headline("the same, 100 publishers → 1 subscriber, QoS 0", CPU, flood(100, 1, 0)),
    Headline("the same, 1 publisher → 100 subscribers, QoS 0", CPU, flood(1, 100, 0)),
    Headline("the same, 1 → 1, QoS 0, payloads of 64 KiB", CPU, flood(1, 1, 0, 65536)),
    Headline("rate of round trips as a share of that of raw TCP, QoS 0", "ratio_to_raw_tcp", {"kind": "rtt", "qos": 0}),
    Headline("the same, QoS 1", "ratio_to_raw_tcp", {"kind": "rtt", "qos": 1}),
    Headline("the same, QoS 2", "ratio_to_raw_tcp", {"kind": "rtt", "qos": 2}),
    Headline("memory at start", "rss_at_start_bytes@10000", {"kind": "idle", "subscribe": False}),
    Headline("memory per idle connection", "bytes_per_connection@10000", {"kind": "idle", "subscribe": False}),
    Headline("the same, with a subscription", "bytes_per_connection@10000", {"kind": "idle", "subscribe": True}),
    Headline("100,000 wildcard filters: memory per filter", "bytes_per_filter@100000", {"kind": "wildcards"}),
    Headline("the same: CPU per publish", "broker_cpu_us_per_publish@100000", {"kind": "wildcards"}),
    Headline("CPU per client that connects, subscribes, publishes, receives and disconnects", "broker_cpu_us_per_cycle", {"kind": "churn"}),
    Headline("10,000 clients connect, one core for the broker: connections per second", "connects_per_s@10000", {"kind": "idle", "subscribe": False}),
    Headline("1,000 publishers, 1,000 subscribers, 10,000 messages per second: 99th percentile of the latency", "p99_us", {"kind": "steady", "publishers": 1000}),
    Headline("one message to 10,000 subscribers: median time until the last has it", "to_all_p50_us", {"kind": "fan-out"}),
    Headline("the same: 99th percentile of the latency of other clients", "bystander_during_p99_us", {"kind": "fan-out"}),
    Headline("1,000 overlapping wildcard subscribers: CPU per million deliveries", CPU, {"kind": "explosion"}),
]
