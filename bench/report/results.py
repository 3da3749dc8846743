"""Reads the files of bench/results for the report."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "bench" / "results"

# Tautwire, and the floors that are not brokers.
OURS = "tautwire"
# Tautwire in scenarios with messages on disk; the one without a disk shows the difference.
OURS_ON_DISK = "tautwire-durable"
# Tautwire in cluster scenarios; the others in these results show the difference.
OURS_IN_CLUSTER = "tautwire-cluster"
FLOORS = ("relay", "raw")
ORDER = ("tautwire", "tautwire-2t", "mosquitto", "nats", "mochi", "rumqttd", "aedes", "hivemq", "relay", "raw")
# These use the style of the broker after the colon, which is never in the same result.

LIKE = {"tautwire-durable": "tautwire-2t", "tautwire-ack-memory": "mochi", "mosquitto-persistent": "mosquitto", "nats-durable": "nats",
        "tautwire-cluster": "tautwire-2t", "tautwire-cluster-1": "mochi", "tautwire-cluster-5": "rumqttd", "nats-cluster": "nats"}
TITLES = {
    "tautwire": "Tautwire", "tautwire-2t": "Tautwire, 2 threads", "tautwire-durable": "Tautwire, on disk",
    "tautwire-ack-memory": "Tautwire, on disk, acknowledging at once",
    "tautwire-cluster": "Tautwire, 3 nodes", "tautwire-cluster-1": "Tautwire, 1 node of a cluster", "tautwire-cluster-5": "Tautwire, 5 nodes",
    "nats-cluster": "nats-server, 3 nodes",
    "mosquitto-persistent": "mosquitto, acknowledging before it saves", "nats": "nats-server", "nats-durable": "nats-server, on disk", "mochi": "mochi-mqtt",
    "aedes": "Aedes", "hivemq": "HiveMQ CE", "relay": "bare relay", "raw": "bare sockets",
}


@dataclass(frozen=True)
class Figure:
    """A median with the minimum and the maximum of its rounds."""

    median: float
    least: float
    most: float
    rounds: int


@dataclass(frozen=True)
class Result:
    """One file of bench/results/HARDWARE."""

    path: Path
    data: dict

    @property
    def name(self) -> str:
        return self.data["name"]

    @property
    def title(self) -> str:
        return self.data["title"]

    @property
    def kind(self) -> str:
        return str(self.data["parameters"].get("kind", ""))

    @property
    def parameter(self) -> str:
        """The unit of the steps of its curve; empty without a curve."""
        return str(self.data.get("curve", {}).get("parameter", ""))

    @property
    def is_library(self) -> bool:
        """Whether its brokers are libraries: codecs and clients."""
        return self.kind == "library"

    @property
    def date(self) -> str:
        return str(self.data.get("date", ""))[:10] or "no date in the file"

    @property
    def machine(self) -> str:
        return describe_machine(self.data["machine"])

    @property
    def source(self) -> str:
        """The path of the file, relative to the root of the repository."""
        return self.path.relative_to(ROOT).as_posix() if self.path.is_relative_to(ROOT) else self.path.name

    @property
    def placements(self) -> list[str]:
        return list(self.data["summary"])

    def brokers(self, placement: str) -> list[str]:
        found = self.data["summary"].get(placement, {})
        return sorted(found, key=lambda name: (place_of(name, len(ORDER)), name))

    def ours(self, placement: str) -> str:
        """The broker that represents Tautwire."""
        measured = self.data["summary"].get(placement, {})
        return next((broker for broker in (OURS_IN_CLUSTER, OURS_ON_DISK) if broker in measured), OURS)

    def figure(self, placement: str, broker: str, metric: str) -> Figure | None:
        found = self.data["summary"].get(placement, {}).get(broker, {}).get(metric)
        return Figure(found["median"], found["min"], found["max"], found["rounds"]) if found else None

    @cached_property
    def _metrics(self) -> dict[str, list[str]]:
        return {
            placement: list(dict.fromkeys(metric for metrics in brokers.values() for metric in metrics))
            for placement, brokers in self.data["summary"].items()
        }

    def metrics(self, placement: str) -> list[str]:
        return self._metrics.get(placement, [])

    def histograms(self, placement: str) -> dict[str, dict[str, dict]]:
        """By name and broker."""
        found: dict[str, dict[str, dict]] = {}
        for broker in self.brokers(placement):
            for name, histogram in self.data.get("histograms", {}).get(placement, {}).get(broker, {}).items():
                found.setdefault(name, {})[broker] = histogram
        return found


def load(folder: Path = RESULTS) -> list[Result]:
    """The latest result of each name and class of machine, by the number in the name and then by name."""
    results = []
    for hardware in sorted(path for path in folder.iterdir() if path.is_dir() and path.name != "quick"):
        found: dict[str, Result] = {}
        # Old results have no prefix.
        for path in sorted(hardware.glob("*.json"), key=lambda path: path.name.startswith("latest-")):
            if not path.name.startswith("latest-") and "_" in path.name:
                continue
            data = json.loads(path.read_text())
            if "summary" in data and "checks" in data and not data["quick"]:
                found[data["name"]] = Result(path, data)
        results += sorted(found.values(), key=lambda result: natural(result.name))
    return results


def natural(name: str) -> list[tuple[bool, int, str]]:
    """A sort key that sorts b2 before b10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name) if part]


def describe_machine(machine: dict) -> str:
    virtual = ", virtual" if machine.get("virtualised") else ""
    memory = f", {round(machine['memory_mib'] / 1024)} GB" if "memory_mib" in machine else ""
    system = f", {machine['operating_system']}" if "operating_system" in machine else ""
    return f"{machine['cpu_model']}, {machine['cores']} cores{virtual}{memory}{system}, Linux {machine['kernel']}"


def place_of(broker: str, otherwise: int) -> int:
    name = LIKE.get(broker, broker)
    return ORDER.index(name) if name in ORDER else otherwise


def title_of(broker: str) -> str:
    return TITLES.get(broker, broker)


def is_ours(broker: str) -> bool:
    return broker.startswith(OURS)


def is_peer(broker: str) -> bool:
    return not is_ours(broker) and broker not in FLOORS
