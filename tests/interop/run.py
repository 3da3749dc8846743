"""Tests the broker with real clients.

`python3 tests/interop/run.py` prepares the drivers, starts a new broker for each and runs all its cases, several drivers at a
time. The last line is `N passed, M failed`; the exit status is 0 only if nothing failed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import certificates
import setup
from brokers import READY_TIMEOUT_S, STOP_TIMEOUT_S, BrokerError, announced

BROKER = setup.ROOT / "bin" / "tautwire"
LOGS = setup.ROOT / "target" / "interop-logs"
DRIVER_TIMEOUT_S = 600
# Parallel drivers. They mostly wait: for a timeout, a will, the end of a session.
JOBS = 4

COMMANDS: dict[str, list[str]] = {
    "mosquitto": [sys.executable, str(setup.INTEROP / "mosquitto" / "driver.py")],
    "mqttjs": ["node", str(setup.INTEROP / "mqttjs" / "driver.mjs")],
    "paho-python": [str(setup.VENV_PYTHON), str(setup.INTEROP / "paho-python" / "driver.py")],
    "paho-go": [str(setup.GO_BINARY)],
    "paho-c": [str(setup.PAHO_C_BINARY)],
    "rumqttc": [str(setup.RUST_BINARY)],
    **setup.CLIENTS,
}


# Only other projects' clients: the clients of this repository have their own TLS tests.
BY_TLS = ["mosquitto", "mqttjs", "paho-python", "paho-go", "paho-c", "rumqttc"]


@dataclass(frozen=True)
class Run:
    """A driver with a transport; `variables` are the TLS files."""

    driver: str
    transport: str
    variables: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.driver if self.transport == "tcp" else f"{self.driver}-{self.transport}"


@dataclass
class Outcome:
    """The results of one driver, plus errors found by the runner."""

    name: str
    passed: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


def main() -> int:
    options = _options()
    if options.list:
        return _list(options.only)
    # One after the other: several drivers may need the same packages.
    unprepared = {} if options.no_setup else {driver: why for driver in options.only if (why := _prepared(driver))}
    with ExitStack() as stack, ThreadPoolExecutor(options.jobs) as pool:
        runs = []
        for transport in options.transport:
            variables = stack.enter_context(certificates.made(options.broker, transport))
            runs += [Run(driver, transport, variables) for driver in options.only if _knows(driver, transport)]
        outcomes = list(pool.map(lambda run: _outcome(run, unprepared.get(run.driver), options), runs))
    _print_table(outcomes)
    passed = sum(len(outcome.passed) for outcome in outcomes)
    failed = sum(len(outcome.failures) for outcome in outcomes)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Proves the broker with real clients.")
    parser.add_argument("--only", action="append", choices=list(COMMANDS), metavar="DRIVER",
                        help=f"run this driver; may be repeated; one of {', '.join(COMMANDS)}")
    parser.add_argument("--case", action="append", metavar="NAME",
                        help="run this case, in each chosen driver that has it; may be repeated")
    parser.add_argument("--broker", type=Path, default=BROKER, metavar="FILE",
                        help="broker executable to start (default: bin/tautwire)")
    parser.add_argument("--transport", action="append", choices=certificates.TRANSPORTS,
                        help="tcp; tls; or mtls, with client certificates; may be repeated (default: tcp)")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help="parallel drivers (default: %(default)s)")
    parser.add_argument("--broker-url", metavar="mqtt://HOST:PORT", help="use a broker that is already running")
    parser.add_argument("--no-setup", action="store_true", help="do not install or build what the drivers need")
    parser.add_argument("--list", action="store_true", help="list drivers and cases, and exit")
    options = parser.parse_args()
    options.transport = options.transport or ["tcp"]
    options.only = options.only or [name for name in COMMANDS if any(_knows(name, each) for each in options.transport)]
    if unknowing := [name for name in options.only if not any(_knows(name, each) for each in options.transport)]:
        parser.error(f"not by TLS: {', '.join(unknowing)}; these drivers know it: {', '.join(BY_TLS)}")
    if options.broker_url and options.transport != ["tcp"]:
        parser.error("--broker-url is for tcp")
    if options.broker_url and not re.fullmatch(r"mqtt://[^:/]+:\d+", options.broker_url):
        parser.error("--broker-url must be like mqtt://127.0.0.1:1883")
    if options.broker_url:
        # Cases of two drivers would use the same topics.
        options.jobs = 1
    return options


def _list(drivers: list[str]) -> int:
    for driver in drivers:
        setup.prepare(driver)
        for case in _cases_of(driver):
            print(f"{driver} {case}")
    return 0


def _knows(driver: str, transport: str) -> bool:
    return transport == "tcp" or driver in BY_TLS


def _prepared(driver: str) -> str | None:
    """Prepares a driver. Returns why it cannot run, if so."""
    try:
        setup.prepare(driver)
    except (setup.SetupError, OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None


def _outcome(run: Run, unprepared: str | None, options: argparse.Namespace) -> Outcome:
    outcome = Outcome(run.name)
    if unprepared:
        outcome.failures.append(("setup", unprepared))
        return outcome
    try:
        cases = _cases_of(run.driver)
    except (OSError, subprocess.SubprocessError) as error:
        outcome.failures.append(("setup", str(error)))
        return outcome
    outcome.failures += [(case, "not described in cases.toml") for case in cases if not _is_described(case)]
    if options.case:
        cases = [case for case in cases if case in options.case]
    if not cases:
        return outcome
    started = time.monotonic()
    try:
        with _broker(run, options) as (host, port):
            _say(f"{run.name}: {len(cases)} cases at {host}:{port}")
            _run_cases(outcome, run, [*COMMANDS[run.driver], host, port, *cases], cases)
    except BrokerError as error:
        outcome.failures.append(("broker", str(error)))
    outcome.seconds = time.monotonic() - started
    return outcome


def _cases_of(driver: str) -> list[str]:
    listed = subprocess.run([*COMMANDS[driver], "--list"], capture_output=True, text=True, timeout=60, check=True)
    return listed.stdout.split()


def _is_described(case: str) -> bool:
    version, _, meaning = case.partition("_")
    return version in ("v3", "v5") and meaning in _catalogue()


def _catalogue() -> dict[str, str]:
    with open(setup.INTEROP / "cases.toml", "rb") as file:
        return tomllib.load(file)


def _run_cases(outcome: Outcome, run: Run, command: list[str], cases: list[str]) -> None:
    """Runs a driver and reads its results; a case without one has failed, whatever the exit status is."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **run.variables})
    overdue = threading.Timer(DRIVER_TIMEOUT_S, process.kill)
    overdue.start()
    missing = list(cases)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            _say(f"  {run.name} {line.rstrip()}")
            verdict = re.fullmatch(r"(ok|FAIL) (\w+)(?:: (.*))?", line.rstrip())
            if verdict is None or verdict[2] not in missing:
                continue
            missing.remove(verdict[2])
            if verdict[1] == "ok":
                outcome.passed.append(verdict[2])
            else:
                outcome.failures.append((verdict[2], verdict[3] or "no reason given"))
    finally:
        overdue.cancel()
        status = process.wait()
    outcome.failures += [(case, f"no verdict; the driver ended with status {status}") for case in missing]


def _say(line: str) -> None:
    """In one write, so that threads do not mix their lines."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def _broker(run: Run, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yields a broker for one driver: the running one, or a new one on a port that the kernel picks."""
    if options.broker_url:
        host, port = options.broker_url.removeprefix("mqtt://").split(":")
        yield host, port
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{run.name}.log"
    command = [str(options.broker), "serve", "--memory", *certificates.broker_options(run.transport, run.variables)]
    with open(log, "wb") as stderr:
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        except OSError as error:
            raise BrokerError(f"cannot start {options.broker} (`make build` makes it): {error}") from None
    try:
        yield _await_ready(process, log)
        if process.poll() is not None:
            raise BrokerError(f"exited unexpectedly with status {process.returncode}; see {log.relative_to(setup.ROOT)}")
        process.send_signal(signal.SIGINT)
        if process.wait(STOP_TIMEOUT_S) != 0:
            raise BrokerError(f"exited on Ctrl-C with status {process.returncode}; see {log.relative_to(setup.ROOT)}")
    except subprocess.TimeoutExpired:
        raise BrokerError(f"did not exit within {STOP_TIMEOUT_S} s of Ctrl-C") from None
    finally:
        process.kill()
        process.wait()


def _await_ready(process: subprocess.Popen[str], log: Path) -> tuple[str, str]:
    if where := announced(process):
        return where
    last = (log.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
    raise BrokerError(f"not ready within {READY_TIMEOUT_S} s: {last}")


def _print_table(outcomes: list[Outcome]) -> None:
    print(f"\n{'driver':<18}{'passed':>8}{'failed':>8}{'seconds':>10}")
    for outcome in outcomes:
        print(f"{outcome.name:<18}{len(outcome.passed):>8}{len(outcome.failures):>8}{outcome.seconds:>10.1f}")
    for outcome in outcomes:
        for case, reason in outcome.failures:
            print(f"FAIL {outcome.name} {case}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
