"""Compares the client with aiomqtt, paho-mqtt and a bare socket, alternating. See README.md."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PEERS = ("aiomqtt", "paho-mqtt")
# The libraries of each task. The bare socket has no queue to flood.
NAMES = {"trips": ("tautwire", *PEERS, "raw"), "flood": ("tautwire", *PEERS)}
# The number of messages of a round, and how many times as fast as aiomqtt the client must be.
TASKS = {"trips": (500, 3.0), "flood": (5000, 8.0)}
QUICK_DIVISOR = 5


class Process:
    """A library in a separate process."""

    def __init__(self, name: str, host: str, port: str) -> None:
        command = [sys.executable, str(HERE / "libraries.py"), name, host, port]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        if self.line() != "ready":
            sys.exit(f"{name} did not start")

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def rate(self, task: str, count: int) -> float:
        """Messages per second."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{task} {count}\n")
        return count / float(self.line())

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def broker(program: Path) -> Iterator[tuple[str, str]]:
    command = [str(program), "serve", "--memory", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().strip().removeprefix("listening on mqtt://").rpartition(":")
            yield host, port
        finally:
            process.terminate()


def main() -> int:
    parser = argparse.ArgumentParser(description="The Python client beside aiomqtt, paho-mqtt and a bare socket.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages, for a look")
    parser.add_argument("--json", action="store_true", help="print the rates of each round as JSON, and hold no bars")
    parser.add_argument("--broker", type=Path, default=ROOT / "bin/tautwire")
    options = parser.parse_args()
    is_good = True
    found = {}
    with broker(options.broker) as (host, port), contextlib.ExitStack() as stack:
        processes = {}
        for name in NAMES["trips"]:
            processes[name] = Process(name, host, port)
            stack.callback(processes[name].stop)
        for task, (count, least) in TASKS.items():
            rates = measure({name: processes[name] for name in NAMES[task]}, task, count // (QUICK_DIVISOR if options.quick else 1), options.rounds)
            found[task] = {"messages": count, "rates": rates}
            is_good &= options.json or report(task, rates, least)
    if options.json:
        versions = {"python": sys.version.split()[0]} | {name: importlib.metadata.version(name) for name in PEERS}
        print(json.dumps({"versions": versions, "tasks": found}))
    return 0 if is_good else 1


def measure(processes: dict[str, Process], task: str, count: int, rounds: int) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in processes}
    for process in processes.values():
        process.rate(task, count // 5)
    for turn in range(rounds):
        order = list(processes.items())
        for name, process in order if turn % 2 else reversed(order):
            rates[name].append(process.rate(task, count))
    return rates


def report(task: str, rates: dict[str, list[float]], least: float) -> bool:
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, median in medians.items():
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["tautwire"], rates[name], strict=True))
        print(f"{task:6} {name:10} {median:9.0f} /s   tautwire is {ratio:.1f} times as fast", flush=True)
    ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["tautwire"], rates["aiomqtt"], strict=True))
    if ratio < least:
        print(f"{task}: {ratio:.1f} times as fast as aiomqtt, at least {least}")
    return ratio >= least


if __name__ == "__main__":
    sys.exit(main())
