"""Converts the output of the native programs to metrics by library and round. Every figure has its unit in its name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

OURS = "tautwire"
# One peer of the Go codec reads views, without copies, and is compared with the Tautwire codec that does, too.
GO_VIEWS = ("tautwire-reader", "natiu-3.1.1")
GO_UNITS = {"cpu-ns/op": "cpu_ns", "B/op": "allocated_bytes", "allocs/op": "allocations"}
# Excluded from the geometric means: they show the effect of keys that rarely repeat.
MSGPACK_APART = ("random keys", "fresh keys")


@dataclass
class Measured:
    """By round and library: metrics, and the cases that did not complete."""

    rounds: list[dict[str, dict[str, float]]] = field(default_factory=list)
    errors: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, object] = field(default_factory=dict)

    def put(self, at: int, library: str, metric: str, value: float) -> None:
        while len(self.rounds) <= at:
            self.rounds.append({})
        self.rounds[at].setdefault(library, {})[metric] = float(f"{value:.5g}") if abs(value) < 1000 else round(value)

    def fail(self, at: int, library: str, what: str) -> None:
        while len(self.rounds) <= at:
            self.rounds.append({})
        self.rounds[at].setdefault(library, {})
        self.errors.setdefault((at, library), []).append(what)


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()).strip("_")


def geometric_mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.exp(sum(math.log(value) for value in found) / len(found))


def rust_cases(data: dict) -> Measured:
    """Parses the output of bench/codec and bench/contracts."""
    measured = Measured(versions=data["versions"], parameters={name: data[name] for name in ("payload_bytes",) if name in data})
    for result in data["results"]:
        for at, ns in enumerate(result["ns_per_op"]):
            measured.put(at, result["library"], f"{slug(result['case'])}_cpu_ns", ns)
    return measured


def rust_client(data: dict) -> Measured:
    measured = Measured(versions=data["versions"])
    for result in data["results"]:
        name, library, messages = slug(result["scenario"]), result["library"], result["messages"]
        measured.parameters[f"{name}_messages"] = messages
        for at, sample in enumerate(result["samples"]):
            if sample is None:
                measured.fail(at, library, f"{result['scenario']} did not get to its end")
                continue
            measured.put(at, library, f"{name}_messages_per_cpu_s", messages / sample["cpu_s"])
            measured.put(at, library, f"{name}_messages_per_s", messages / sample["elapsed_s"])
            if sample["p50_us"]:
                measured.put(at, library, f"{name}_p50_us", sample["p50_us"])
    return measured


def python_client(data: dict) -> Measured:
    measured = Measured(versions=data["versions"])
    for task, metric in {"trips": "round_trips_qos1_per_s", "flood": "flood_qos1_messages_per_s"}.items():
        measured.parameters[f"{task}_messages"] = data["tasks"][task]["messages"]
        for library, rates in data["tasks"][task]["rates"].items():
            for at, rate in enumerate(rates):
                measured.put(at, library, metric, rate)
    return measured


def go_codec(text: str) -> Measured:
    """Parses the output of `go test -bench` for all rounds."""
    measured = Measured()
    seen: dict[tuple[str, str], int] = {}
    for words in (line.split() for line in text.splitlines()):
        if len(words) < 4 or not words[0].startswith("BenchmarkPackets/"):
            continue
        case, _, library = words[0].removeprefix("BenchmarkPackets/").partition("/lib=")
        at = seen[case, library] = seen.get((case, library), -1) + 1
        packet, _, what = case.partition("/")
        names = [slug(f"{what} {packet}")]
        if what == "read" and library in GO_VIEWS:
            # Tautwire also has thresholds relative to the libraries that copy.
            names = [slug(f"read views {packet}"), *(names if library.startswith(OURS) else [])]
        for value, unit in zip(words[2::2], words[3::2], strict=False):
            for name in names if unit in GO_UNITS else ():
                measured.put(at, library, f"{name}_{GO_UNITS[unit]}", float(value))
    return measured


def c_codec(data: dict) -> Measured:
    measured = Measured(parameters={name: data[name] for name in ("topic_bytes", "payload_bytes", "times")})
    for case, samples in data["ns"].items():
        for at, ns in enumerate(samples):
            measured.put(at, OURS, f"{case}_cpu_ns", ns)
    return measured


def c_client(data: dict) -> Measured:
    measured = Measured(parameters={name: data[name] for name in ("payload_bytes", "round_trips")})
    for level, libraries in data["samples"].items():
        for library, samples in libraries.items():
            for at, sample in enumerate(samples):
                if sample is None:
                    measured.fail(at, library, f"{level} did not get to its end")
                    continue
                measured.put(at, library, f"round_trips_{level}_per_s", 1e9 / sample["wall_ns"])
                measured.put(at, library, f"round_trip_{level}_cpu_us", sample["cpu_ns"] / 1000)
    return measured


def js_codec(data: dict) -> Measured:
    peer = "mqtt-packet"
    measured = Measured(versions=data["versions"], parameters={name: data[name] for name in ("samples", "packets_of_long_runs")})
    for library, runs in data["runs"].items():
        for at, run in enumerate(runs):
            for group, cases in run.items():
                for case, ns in cases.items():
                    measured.put(at, library, f"{slug(group)}_{slug(case)}_cpu_ns", ns)
    for at, (ours, theirs) in enumerate(zip(data["runs"][OURS], data["runs"][peer], strict=True)):
        ratios: dict[str, list[float]] = {}

        def put(group: str, case: str, ratio: float) -> None:
            ratios.setdefault(group, []).append(ratio)
            measured.put(at, OURS, f"{slug(case)}_vs_{slug(peer)}_ratio", ratio)

        for group, of in (("decode", "decode"), ("encode", "encode"), ("encodeInto", "encode")):
            for case in (case for case in ours[group] if case in theirs[of]):
                put(group, f"{group} {case}", theirs[of][case] / ours[group][case])
        for stream, ns in ours["stream"].items():
            # The peer supports only whole packets.
            which, _, way = stream.rpartition(", ")
            put(f"stream {way}", f"stream {stream}", theirs["stream"][f"{which}, full"] / ns)
        for group, found in ratios.items():
            measured.put(at, OURS, f"{slug(group)}_vs_{slug(peer)}_ratio", geometric_mean(found))
    for way, libraries in data["millions"].items():
        for library, run in libraries.items():
            measured.put(0, library, f"{way}_millions_cpu_s", run["cpu_s"])
            measured.put(0, library, f"{way}_millions_max_rss_bytes", run["max_rss_mb"] * 2**20)
    return measured


def js_msgpack(data: dict) -> Measured:
    base = "JSON"
    measured = Measured(versions=data["versions"], parameters={"apart_from_ratios": list(MSGPACK_APART)})
    for library, runs in data["runs"].items():
        for at, run in enumerate(runs):
            ratios: dict[str, list[float]] = {}
            for row, of_base in zip(run, data["runs"][base][at], strict=True):
                name = slug(row["set"])
                measured.put(at, library, f"{row['kind']}_{name}_cpu_ns", row["ns"])
                if row["kind"] == "encode":
                    measured.put(at, library, f"encoded_{name}_bytes", row["bytes"])
                elif not row["exact"]:
                    measured.fail(at, library, f"{row['set']} comes back changed")
                if row["set"] not in MSGPACK_APART:
                    ratio = of_base["ns"] / row["ns"]
                    ratios.setdefault(row["kind"], []).append(ratio)
                    if library == OURS:
                        measured.put(at, library, f"{row['kind']}_{name}_vs_json_ratio", ratio)
            if library != base:
                for kind, found in ratios.items():
                    measured.put(at, library, f"{kind}_vs_json_ratio", geometric_mean(found))
    return measured


def js_client(data: dict) -> Measured:
    measured = Measured(versions=data["versions"], parameters={name: data[name] for name in ("messages", "round_trips", "payload_bytes")})
    titles = {"mqttjs": "MQTT.js"}
    for task, of_task in data["runs"].items():
        for key, samples in of_task.items():
            library, _, level = key.partition(" ")
            name = f"{slug(task)}_{ {'v5': 'v5', 'v4': 'v3_1_1'}[level]}" if level else slug(task)
            who = titles.get(library, library)
            for at, sample in enumerate(samples):
                if not task.startswith("ping"):
                    per_cpu_s = sample["count"] / sample["cpu_s"]
                    measured.put(at, who, f"{name}_messages_per_cpu_s", per_cpu_s)
                    measured.put(at, who, f"{name}_messages_per_s", sample["count"] / sample["wall_s"])
                    if task == "receive" and library == "mqttjs":
                        # It has no iterator, so its callback is compared with `for await`.
                        measured.put(at, who, f"{name.replace('receive', 'iterate')}_messages_per_cpu_s", per_cpu_s)
                else:
                    rate = sample["count"] / sample["wall_s"]
                    measured.put(at, who, f"{name}_round_trips_per_s", rate)
                    if level:
                        raw = of_task["raw"][at]
                        measured.put(at, who, f"{name}_ratio_to_raw_tcp", rate * raw["wall_s"] / raw["count"])
                if "rss_mb" in sample:
                    measured.put(at, who, f"{name}_rss_bytes", sample["rss_mb"] * 2**20)
    return measured
