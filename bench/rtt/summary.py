"""Computes rates, percentiles, histograms and the results of the thresholds from times, with the schema bench/schema/result.json."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

# The growth factor of histogram buckets.
BUCKET_GROWTH = 1.01
PERCENTILES = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}
RATE = "round_trips_per_s"
RATIO = "ratio_to_raw_tcp"
RATIO_OF_P50 = "ratio_to_raw_tcp_of_p50"
RATIO_TO_NODELAY = "ratio_to_nodelay"
MQTTJS = "js_to_js_qos0_ratio_to_mqttjs_through_mosquitto"

# A client with the default of its library, and the same with TCP_NODELAY.
NODELAY = {"python-nagle": "python", "c-paho": "c-paho-nodelay", "java-nagle": "java"}

# The thresholds of Tautwire at the first placement: the share of the rate of raw TCP in the same language, the multiple
# of MQTT.js through mosquitto, and the share of the rate with TCP_NODELAY if it is not set: at most twice the time.
BARS = {
    f"c_to_c_qos0_{RATIO}": 0.42,
    f"c_to_c_qos1_{RATIO}": 0.28,
    f"c_to_c_qos2_{RATIO}": 0.17,
    f"js_to_js_qos0_{RATIO}": 0.36,
    MQTTJS: 3.0,
    **{f"{client}_to_{client}_qos{qos}_{RATIO_TO_NODELAY}": 0.5 for client in NODELAY for qos in (1, 2)},
}


@dataclass(frozen=True)
class Cell:
    """A client, a server and a broker. For bare sockets, the broker is `raw` and the server is the protocol, or `relay`: TCP through a
    process that forwards bytes."""

    broker: str
    client: str
    server: str
    qos: int

    @property
    def is_raw(self) -> bool:
        return self.broker == "raw"

    @property
    def is_even(self) -> bool:
        return self.is_raw or self.client == self.server

    @property
    def name(self) -> str:
        """The prefix before the underscore and the name of a figure."""
        return f"{self.client}_{self.server}_beside_qos{self.qos}" if self.is_raw else f"{self.client}_to_{self.server}_qos{self.qos}"


def of_times(times_ns: list[int]) -> dict[str, float]:
    ordered = sorted(times_ns)
    figures = {RATE: len(times_ns) * 1e9 / sum(times_ns)}
    for name, part in PERCENTILES.items():
        figures[name] = ordered[math.ceil(part * len(ordered)) - 1] / 1000
    return {name: round(figure, 3) for name, figure in figures.items()}


def histogram(times_ns: Iterable[int]) -> dict[str, object]:
    counts: dict[int, int] = {}
    count = longest = 0
    for time_ns in times_ns:
        bucket = math.ceil(math.log(max(time_ns, 1)) / math.log(BUCKET_GROWTH))
        counts[bucket] = counts.get(bucket, 0) + 1
        longest = max(longest, time_ns)
        count += 1
    buckets = sorted(counts)
    values = [round(BUCKET_GROWTH**bucket) for bucket in buckets]
    return {"count": count, "max_ns": longest, "values_ns": values, "counts": [counts[bucket] for bucket in buckets]}


def of_round(figures: dict[Cell, dict[str, float]]) -> dict[str, dict[str, float]]:
    """By broker: the metrics of one round of one placement, with the ratios to other figures of the round."""
    metrics: dict[str, dict[str, float]] = {}
    for cell, of_cell in figures.items():
        into = metrics.setdefault(cell.broker, {})
        into |= {f"{cell.name}_{name}": figure for name, figure in of_cell.items()}
        floor = figures.get(Cell("raw", cell.client, "tcp", cell.qos))
        if floor and (cell.is_even and not cell.is_raw or cell.server == "relay"):
            into[f"{cell.name}_{RATIO}"] = round(of_cell[RATE] / floor[RATE], 4)
            into[f"{cell.name}_{RATIO_OF_P50}"] = round(floor["p50_us"] / of_cell["p50_us"], 4)
        told = NODELAY.get(cell.client, "")
        if cell.is_even and (nodelay := figures.get(Cell(cell.broker, told, told, cell.qos))):
            into[f"{cell.name}_{RATIO_TO_NODELAY}"] = round(of_cell[RATE] / nodelay[RATE], 4)
    ours = figures.get(Cell("tautwire", "js", "js", 0))
    theirs = figures.get(Cell("mosquitto", "js-mqttjs", "js-mqttjs", 0))
    if ours and theirs:
        metrics["tautwire"][MQTTJS] = round(ours[RATE] / theirs[RATE], 4)
    return metrics


def summarise(samples: list[dict]) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """By placement, broker and metric."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for sample in samples:
        for name, figure in sample["metrics"].items():
            values.setdefault((sample["placement"], sample["broker"], name), []).append(figure)
    summary: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for (placement, broker, name), rounds in values.items():
        summary.setdefault(placement, {}).setdefault(broker, {})[name] = of_rounds(rounds)
    return summary


def of_rounds(values: list[float]) -> dict[str, float]:
    """Returns the median of the rounds, and half their range in percent of it."""
    median = statistics.median(values)
    spread = (max(values) - min(values)) / 2 / median * 100 if median else 0.0
    return {
        "median": round(median, 4), "min": min(values), "max": max(values),
        "spread_percent": round(spread, 2), "rounds": len(values),
    }


def checks(summary: dict, placement: str, samples: list[dict]) -> list[dict]:
    """Checks the thresholds at one placement, and that nothing was lost."""
    found = summary.get(placement, {}).get("tautwire", {})
    results = []
    for metric, bar in BARS.items():
        threshold = {"metric": metric, "broker": "tautwire", "pass_at_least": bar, "fail_below": bar}
        check = {"what": f"tautwire: {metric.replace('_', ' ')} at least {bar}", "threshold": threshold, "verdict": "not_measured"}
        if metric in found:
            measured = found[metric]["median"]
            check |= {"measured": measured, "verdict": "pass" if measured >= bar else "fail"}
        results.append(check)
    is_exact = all(sample["exact"] for sample in samples if sample["broker"] == "tautwire")
    what = "tautwire: every message came back once and whole, in every run"
    return [*results, {"what": what, "verdict": "pass" if is_exact else "fail"}]


def verdict(checks_made: list[dict]) -> str:
    worst = ("fail", "warn", "not_measured", "pass")
    return min((check["verdict"] for check in checks_made), key=worst.index)
