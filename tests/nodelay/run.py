"""Clients without TCP_NODELAY must not wait for delayed TCP acknowledgements. See README.md.

`python3 tests/nodelay/run.py` runs all; the last line is `N passed, M failed`; the exit status is 0 only if nothing failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

sys.path.insert(0, str(ROOT / "bench" / "rtt"))
import programs  # noqa: E402
from drivers import Driver, DriverError, pinned, running  # noqa: E402

# The maximum ratio of the time with default settings to that with TCP_NODELAY.
RATIO_MAX = 2.0
# A delayed acknowledgement takes 40 ms; everything else is much shorter.
STALL_NS = 25_000_000
# How many delays the broker may need to detect such a client.
STALLS_MAX = 4
FIRST_MESSAGES = 40
# A busy machine only adds delays: the lowest count of so many connections is used.
FIRST_TRIES = 3
ROUNDS = 20
ROUND_MESSAGES = 30
LIMIT_MS = 20_000


@dataclass(frozen=True)
class Library:
    """Commands of the same client, with default settings and with TCP_NODELAY."""

    prepare: Callable[[], None]
    as_it_comes: tuple[str, ...]
    nodelay: tuple[str, ...]


def _prepare_aiomqtt() -> None:
    programs.prepare_client("python")
    command = [*programs.PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*command, "--requirement", str(HERE / "requirements.txt")], stdout=sys.stderr).returncode != 0:
        raise programs.Unavailable("aiomqtt cannot be installed")


AIOMQTT = (*programs.PYTHON, str(HERE / "aiomqtt_driver.py"))

LIBRARIES = {
    "paho-python": Library(lambda: programs.prepare_client("python"), (*programs.PYTHON_DRIVER, "--nagle"), programs.PYTHON_DRIVER),
    "paho-c": Library(lambda: programs.prepare_client("c-paho-nodelay"), programs.C_PAHO, programs.C_PAHO_NODELAY),
    "paho-java-v3": Library(lambda: programs.prepare_client("java"), (*programs.JAVA, "mqttv3", "--nagle"), (*programs.JAVA, "mqttv3")),
    "paho-java-v5": Library(lambda: programs.prepare_client("java"), (*programs.JAVA, "mqttv5", "--nagle"), (*programs.JAVA, "mqttv5")),
    "aiomqtt": Library(_prepare_aiomqtt, (*AIOMQTT, "--nagle"), AIOMQTT),
}


def main() -> int:
    options = _options()
    passed = failed = 0
    for name in options.only:
        missing = _missing(name)
        for qos in (1, 2):
            failure = missing or _run(name, qos, options)
            passed, failed = passed + (failure is None), failed + (failure is not None)
            print(f"{'ok' if failure is None else 'FAIL'} {name} QoS {qos}{f': {failure}' if failure else ''}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Clients that do not set TCP_NODELAY.")
    parser.add_argument("--only", action="append", choices=list(LIBRARIES), help="run only this library; may be repeated")
    parser.add_argument("--broker", type=Path, default=ROOT / "bin" / "tautwire", metavar="FILE", help="executable to start (bin/tautwire)")
    parser.add_argument("--broker-url", metavar="mqtt://HOST:PORT", help="use a broker that is already running")
    options = parser.parse_args()
    options.only = options.only or list(LIBRARIES)
    if options.broker_url and not re.fullmatch(r"mqtt://[^:/]+:\d+", options.broker_url):
        parser.error("--broker-url must be like mqtt://127.0.0.1:1883")
    options.broker = options.broker.resolve()
    return options


def _missing(name: str) -> str | None:
    """Returns why a library is not available here."""
    try:
        LIBRARIES[name].prepare()
    except programs.Unavailable as error:
        return str(error)
    return None


def _run(name: str, qos: int, options: argparse.Namespace) -> str | None:
    """Returns what is wrong, if anything."""
    for _ in range(FIRST_TRIES):
        failure, was_held_up = _run_once(name, qos, options)
        if not was_held_up:
            break
    return failure


def _run_once(name: str, qos: int, options: argparse.Namespace) -> tuple[str | None, bool]:
    """Returns what is wrong, if anything, and whether too many of the first messages were delayed. The two clients are connected
    at the same time and alternate."""
    library = LIBRARIES[name]
    try:
        # On one CPU, so that the two differ only by TCP_NODELAY, not by scheduling.
        with pinned(max(os.sched_getaffinity(0))), _broker(options) as (host, port), running({
            (digit,): (*command, "self", host, port, str(qos), digit)
            for digit, command in (("0", library.as_it_comes), ("1", library.nodelay))
        }) as drivers:
            return _compare(name, qos, drivers["0",], drivers["1",])
    except (programs.Unavailable, programs.interop_brokers.BrokerError, DriverError) as error:
        return str(error), False


def _compare(name: str, qos: int, as_it_comes: Driver, nodelay: Driver) -> tuple[str | None, bool]:
    first = [driver.ask("itself", FIRST_MESSAGES, LIMIT_MS) for driver in (as_it_comes, nodelay)]
    stalls, stalls_nodelay = (sum(time >= STALL_NS for time in times) for times in first)
    means: list[tuple[float, float]] = []
    for turn in range(ROUNDS):
        order = (as_it_comes, nodelay) if turn % 2 else (nodelay, as_it_comes)
        of = {driver: statistics.mean(driver.ask("itself", ROUND_MESSAGES, LIMIT_MS)) / 1e6 for driver in order}
        means.append((of[as_it_comes], of[nodelay]))
    mean_ms, mean_nodelay_ms = (statistics.median(column) for column in zip(*means, strict=True))
    ratio = statistics.median(ours / theirs for ours, theirs in means)
    print(f"  {name} QoS {qos}: {mean_ms:.2f} ms a message, with TCP_NODELAY {mean_nodelay_ms:.2f}, {ratio:.2f} times; "
          f"{stalls} of the first {FIRST_MESSAGES} were held up, with TCP_NODELAY {stalls_nodelay}", flush=True)
    if ratio > RATIO_MAX:
        return f"{ratio:.2f} times the time with TCP_NODELAY, at most {RATIO_MAX}", False
    if stalls > stalls_nodelay + STALLS_MAX:
        return f"{stalls} of the first messages were delayed, at most {STALLS_MAX}", True
    return None, False


@contextlib.contextmanager
def _broker(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    if options.broker_url:
        host, port = options.broker_url.removeprefix("mqtt://").split(":")
        yield host, port
        return
    if not options.broker.exists():
        raise programs.Unavailable(f"{options.broker} is missing; run `make build`")
    ours = programs.interop_brokers.ALL["tautwire"]
    command = [str(options.broker), "serve", "--memory", "--listen", "127.0.0.1:0"]
    with programs.interop_brokers.running(replace(ours, command=lambda _folder, _port: command)) as where:
        yield where


if __name__ == "__main__":
    sys.exit(main())
