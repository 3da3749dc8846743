"""The codecs and clients of each language beside their peers: files of several forms, made into rows of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from results import RESULTS, describe_machine


@dataclass(frozen=True)
class Row:
    """What it costs us and the best of the others; less is better unless `unit` is a rate."""

    language: str
    what: str
    ours: float
    peer: str
    theirs: float
    unit: str
    path: Path
    date: str
    machine: str

    @property
    def is_rate(self) -> bool:
        return self.unit in ("/s", "×")

    @property
    def factor(self) -> float:
        """How many times as good ours is."""
        return self.ours / self.theirs if self.is_rate else self.theirs / self.ours


def load(folder: Path = RESULTS) -> list[Row]:
    rows: list[Row] = []
    for name, read in FILES.items():
        path = folder / name
        if path.exists():
            rows += read(path, json.loads(path.read_text()))
    return rows


def _best(costs: dict[str, float]) -> tuple[str, float]:
    name = min(costs, key=costs.__getitem__)
    return name, costs[name]


def _rust(path: Path, data: dict) -> Iterator[Row]:
    cases: dict[str, dict[str, float]] = {}
    for result in data["results"]:
        cases.setdefault(result["case"], {})[result["library"]] = result["median"]
    for case, costs in cases.items():
        others = {name: cost for name, cost in costs.items() if not name.startswith("tautwire")}
        if "tautwire" in costs and others:
            yield Row("Rust", case.replace("_", " "), costs["tautwire"], *_best(others), "ns", path, _date(data), _machine(data))


def _rust_client(path: Path, data: dict) -> Iterator[Row]:
    cases: dict[str, dict[str, float]] = {}
    for result in data["results"]:
        cases.setdefault(result["scenario"], {})[result["library"]] = result["messages_per_cpu_s"]
    for case, rates in cases.items():
        others = {name: -rate for name, rate in rates.items() if not name.startswith("tautwire")}
        if "tautwire" in rates and others:
            peer, rate = _best(others)
            what = f"client, messages a second of its CPU: {case}"
            yield Row("Rust", what, rates["tautwire"], peer, -rate, "/s", path, _date(data), _machine(data))


def _go(path: Path, data: dict) -> Iterator[Row]:
    for case, found in data["benchmarks"].items():
        costs = {name: figures["cpu-ns/op"]["median"] for name, figures in found.items()}
        # One peer reads views, without copying: so it is compared with ours that does.
        is_view = {name: case.endswith("/read") and name.startswith("natiu") for name in costs}
        copying = {name: cost for name, cost in costs.items() if not name.startswith("tautwire") and not is_view[name]}
        viewing = {name: cost for name, cost in costs.items() if is_view[name]}
        what = case.replace("/", ", ")
        for what, ours, others in ((what, "tautwire", copying), (f"{what} as views", "tautwire-reader", viewing)):
            if ours in costs and others:
                yield Row("Go", what, costs[ours], *_best(others), "ns", path, _date(data), _machine(data))


def _typescript_codec(path: Path, data: dict) -> Iterator[Row]:
    for kind in ("decode", "encode"):
        ours, theirs = data["ns"]["tautwire"][kind], data["ns"]["mqtt-packet"][kind]
        for case in ours:
            if case in theirs:
                yield Row("JavaScript", f"{kind} {case}", ours[case], "mqtt-packet", theirs[case], "ns", path, _date(data), _machine(data))


def _typescript_client(path: Path, data: dict) -> Iterator[Row]:
    for case, figures in data["summary"].items():
        if not case.startswith("ping") and "mqttjs" in figures:
            what = f"client, messages a second of its CPU: {case}"
            yield Row("JavaScript", what, figures["tautwire"], "MQTT.js", figures["mqttjs"], "/s", path, _date(data), _machine(data))


def _msgpack(path: Path, data: dict) -> Iterator[Row]:
    for kind in ("encode", "decode"):
        ours = data["summary"]["tautwire"][kind]
        others = {name: -figures[kind] for name, figures in data["summary"].items() if not name.startswith("tautwire")}
        peer, times = _best(others)
        what = f"MessagePack, {kind}: times as fast as JSON, geometric mean of seven data sets"
        yield Row("JavaScript", what, ours, peer, -times, "×", path, _date(data), _machine(data))


def _c(path: Path, data: dict) -> Iterator[Row]:
    for level, figures in data.items():
        if level.startswith("qos"):
            others = {name: -entry["round_trips_per_s"] for name, entry in figures.items()
                      if name not in ("tautwire", "rate_to_best_peer")}
            peer, rate = _best(others)
            ours = figures["tautwire"]["round_trips_per_s"]
            yield Row("C", f"client, round trips to itself, QoS {level[3:]}", ours, peer, -rate, "/s", path, _date(data), _machine(data))


FILES: dict[str, Callable[[Path, dict], Iterator[Row]]] = {
    "codec/latest.json": _rust,
    "rust-client/latest.json": _rust_client,
    "go/packets.json": _go,
    "typescript/mqtt-codec.json": _typescript_codec,
    "typescript/client.json": _typescript_client,
    "typescript/msgpack.json": _msgpack,
    "c/round-trip.json": _c,
}


def _date(data: dict) -> str:
    conditions = data.get("conditions") or data.get("meta") or {}
    date = data.get("date") or conditions.get("date")
    return str(date)[:10] if date else "no date in the file"


def _machine(data: dict) -> str:
    if "machine" in data:
        return describe_machine(data["machine"])
    conditions = data.get("conditions") or data.get("meta") or {}
    cpu = conditions.get("cpu") or data.get("cpu") or "CPU not in the file"
    cores = conditions.get("cores") or data.get("cores")
    return f"{cpu}, {cores} cores" if cores else str(cpu)
