"""Proves the broker with real clients.

`python3 tests/interop/run.py` prepares the drivers, starts a fresh broker for each and runs all its cases.
The last line says `N passed, M failed`; the exit status is 0 only when nothing failed.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import certificates
import setup
from brokers import READY_TIMEOUT_S, STOP_TIMEOUT_S, BrokerError, announced

BROKER = setup.ROOT / "bin" / "tautwire"
LOGS = setup.ROOT / "target" / "interop-logs"
DRIVER_TIMEOUT_S = 600

COMMANDS: dict[str, list[str]] = {
    "mosquitto": [sys.executable, str(setup.INTEROP / "mosquitto" / "driver.py")],
    "mqttjs": ["node", str(setup.INTEROP / "mqttjs" / "driver.mjs")],
    "paho-python": [str(setup.VENV_PYTHON), str(setup.INTEROP / "paho-python" / "driver.py")],
    "paho-go": [str(setup.GO_BINARY)],
    "paho-c": [str(setup.PAHO_C_BINARY)],
    "rumqttc": [str(setup.RUST_BINARY)],
    **setup.CLIENTS,
}


# Those of others: the clients of this repository have tests of their own for TLS.
BY_TLS = ["mosquitto", "mqttjs", "paho-python", "paho-go", "paho-c", "rumqttc"]


@dataclass
class Outcome:
    """What one driver reported, plus what the runner found wrong itself."""

    driver: str
    passed: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


def main() -> int:
    options = _options()
    if options.list:
        return _list(options.only)
    with certificates.made(options.broker, options.transport) as environment:
        os.environ.update(environment)
        outcomes = [_run_driver(name, options) for name in options.only]
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
    parser.add_argument("--transport", choices=certificates.TRANSPORTS, default="tcp",
                        help="tcp; tls; or mtls, where clients show certificates, too (default: tcp)")
    parser.add_argument("--broker-url", metavar="mqtt://HOST:PORT", help="use a broker that is running already")
    parser.add_argument("--no-setup", action="store_true", help="do not install or build what the drivers need")
    parser.add_argument("--list", action="store_true", help="list drivers and cases, and end")
    options = parser.parse_args()
    drivers = list(COMMANDS) if options.transport == "tcp" else BY_TLS
    options.only = options.only or drivers
    if not set(options.only) <= set(drivers):
        parser.error(f"these drivers know TLS: {', '.join(drivers)}")
    if options.broker_url and options.transport != "tcp":
        parser.error("--broker-url is for tcp")
    if options.broker_url and not re.fullmatch(r"mqtt://[^:/]+:\d+", options.broker_url):
        parser.error("--broker-url must be like mqtt://127.0.0.1:1883")
    return options


def _list(drivers: list[str]) -> int:
    for driver in drivers:
        setup.prepare(driver)
        for case in _cases_of(driver):
            print(f"{driver} {case}")
    return 0


def _run_driver(driver: str, options: argparse.Namespace) -> Outcome:
    outcome = Outcome(driver)
    try:
        if not options.no_setup:
            setup.prepare(driver)
        cases = _cases_of(driver)
    except (setup.SetupError, OSError, subprocess.SubprocessError) as error:
        outcome.failures.append(("setup", str(error)))
        return outcome
    outcome.failures += [(case, "not described in cases.toml") for case in cases if not _is_described(case)]
    if options.case:
        cases = [case for case in cases if case in options.case]
    if not cases:
        return outcome
    started = time.monotonic()
    try:
        with _broker(driver, options) as (host, port):
            print(f"{driver}: {len(cases)} cases at {host}:{port}", flush=True)
            _run_cases(outcome, [*COMMANDS[driver], host, port, *cases], cases)
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


def _run_cases(outcome: Outcome, command: list[str], cases: list[str]) -> None:
    """Runs a driver and takes its verdicts; a case without one has failed, whatever the exit status says."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    overdue = threading.Timer(DRIVER_TIMEOUT_S, process.kill)
    overdue.start()
    missing = list(cases)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"  {line.rstrip()}", flush=True)
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


@contextmanager
def _broker(driver: str, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """A broker for one driver: the running one, or a fresh one on a port that the kernel picks."""
    if options.broker_url:
        host, port = options.broker_url.removeprefix("mqtt://").split(":")
        yield host, port
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{driver}.log"
    command = [str(options.broker), "serve", "--memory", *certificates.broker_options(options.transport)]
    with open(log, "wb") as stderr:
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        except OSError as error:
            raise BrokerError(f"cannot start {options.broker} (`make build` makes it): {error}") from None
    try:
        yield _await_ready(process, log)
        if process.poll() is not None:
            raise BrokerError(f"ended by itself with status {process.returncode}; see {log.relative_to(setup.ROOT)}")
        process.send_signal(signal.SIGINT)
        if process.wait(STOP_TIMEOUT_S) != 0:
            raise BrokerError(f"Ctrl-C ended it with status {process.returncode}; see {log.relative_to(setup.ROOT)}")
    except subprocess.TimeoutExpired:
        raise BrokerError(f"did not end within {STOP_TIMEOUT_S} s of Ctrl-C") from None
    finally:
        process.kill()
        process.wait()


def _await_ready(process: subprocess.Popen[str], log: Path) -> tuple[str, str]:
    if where := announced(process):
        return where
    last = (log.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
    raise BrokerError(f"did not say within {READY_TIMEOUT_S} s that it is ready: {last}")


def _print_table(outcomes: list[Outcome]) -> None:
    print(f"\n{'driver':<14}{'passed':>8}{'failed':>8}{'seconds':>10}")
    for outcome in outcomes:
        print(f"{outcome.driver:<14}{len(outcome.passed):>8}{len(outcome.failures):>8}{outcome.seconds:>10.1f}")
    for outcome in outcomes:
        for case, reason in outcome.failures:
            print(f"FAIL {outcome.driver} {case}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
