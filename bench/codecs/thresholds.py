"""Checks the thresholds of bench/thresholds/codecs.toml, like the load generator checks those of its scenarios."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "bench" / "thresholds" / "codecs.toml"
KEYS = {"scenario", "metric", "broker", "times_that_of", "pass_at_most", "fail_above", "pass_at_least", "fail_below"}
OURS = "tautwire"
BEST_PEER = "best peer"
# Bare sockets do not count as peers.
FLOORS = ("raw",)


class ThresholdError(Exception):
    """A threshold without a bound, or with conflicting bounds."""


def load(name: str, path: Path = FILE) -> list[dict]:
    """Returns the thresholds of one benchmark."""
    found = tomllib.loads(path.read_text())["threshold"]
    for threshold in found:
        at_most, at_least = "pass_at_most" in threshold, "pass_at_least" in threshold
        is_mixed = ("fail_above" in threshold and not at_most) or ("fail_below" in threshold and not at_least)
        if unknown := threshold.keys() - KEYS:
            raise ThresholdError(f"{threshold}: unknown {', '.join(sorted(unknown))}")
        if at_most == at_least or is_mixed:
            raise ThresholdError(f"{threshold}: it needs pass_at_most (and fail_above), or pass_at_least (and fail_below)")
        if at_most and threshold.get("fail_above", threshold["pass_at_most"]) < threshold["pass_at_most"]:
            raise ThresholdError(f"{threshold}: it fails before it passes")
        if at_least and threshold.get("fail_below", threshold["pass_at_least"]) > threshold["pass_at_least"]:
            raise ThresholdError(f"{threshold}: it fails before it passes")
    return [{"broker": OURS} | {key: value for key, value in threshold.items() if key != "scenario"}
            for threshold in found if threshold["scenario"] == name]


def check(threshold: dict, summary: dict[str, dict[str, dict[str, float]]]) -> dict:
    """Checks one threshold with the summary of one placement."""
    made = {"what": _wording(threshold), "threshold": threshold, "verdict": "not_measured"}
    # A `*` in the name selects several figures; the threshold applies to the worst of them.
    metrics = [metric for metric in summary.get(threshold["broker"], {}) if fnmatchcase(metric, threshold["metric"])]
    found = [value for metric in metrics if (value := _measured(threshold | {"metric": metric}, summary)) is not None]
    if not found:
        return made
    worst = max(found) if "pass_at_most" in threshold else min(found)
    return made | {"measured": round(worst, 4), "verdict": judge(threshold, worst)}


def _measured(threshold: dict, summary: dict) -> float | None:
    ours = _median(summary, threshold["broker"], threshold["metric"])
    if ours is None or "times_that_of" not in threshold:
        return ours
    theirs = _theirs(threshold, summary)
    return ours / theirs if theirs else None


def judge(threshold: dict, value: float) -> str:
    if "pass_at_most" in threshold:
        passes, warns = value <= threshold["pass_at_most"], value <= threshold.get("fail_above", threshold["pass_at_most"])
    else:
        passes, warns = value >= threshold["pass_at_least"], value >= threshold.get("fail_below", threshold["pass_at_least"])
    return "pass" if passes else "warn" if warns else "fail"


def _theirs(threshold: dict, summary: dict) -> float | None:
    if threshold["times_that_of"] != BEST_PEER:
        return _median(summary, threshold["times_that_of"], threshold["metric"])
    peers = [library for library in summary if not library.startswith(OURS) and library not in FLOORS]
    found = [median for library in peers if (median := _median(summary, library, threshold["metric"])) is not None]
    best = min if "pass_at_most" in threshold else max
    return best(found, default=None)


def _median(summary: dict, library: str, metric: str) -> float | None:
    figure = summary.get(library, {}).get(metric)
    return figure["median"] if figure else None


def _wording(threshold: dict) -> str:
    relation, bound = ("≤", threshold["pass_at_most"]) if "pass_at_most" in threshold else ("≥", threshold["pass_at_least"])
    times = f" × that of {threshold['times_that_of']}" if "times_that_of" in threshold else ""
    between = ""
    if "fail_above" in threshold:
        between = f" (fails above {threshold['fail_above']})"
    elif "fail_below" in threshold:
        between = f" (fails below {threshold['fail_below']})"
    return f"{threshold['broker']}: {threshold['metric']} {relation} {bound}{times}{between}"
