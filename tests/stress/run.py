"""Runs test suites on a busy machine, while their processes are stopped at random: a suite that depends on timing fails here.

`python3 tests/stress/run.py` runs each suite ten times, which takes hours; `--short` runs a part, once, in about a minute. `--
COMMAND` runs that command instead of the suites. The exit status is 0 only if every run has passed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import processes
from stopper import Stopper
from suites import PREPARATIONS, ROOT, SHORT, SUITES, Suite

LOGS = ROOT / "target" / "stress"
# The time limit for a suite, however late everything is.
SUITE_TIMEOUT_S = 3 * 3600
LAST_LINES = 40


def main() -> int:
    options = _options()
    suites = _chosen(options)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}, {options.load} busy processes beside, {options.stoppers} processes stopped at a time", flush=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    processes.adopt_orphans()
    for command in () if options.command else PREPARATIONS:
        subprocess.run(command, cwd=ROOT, check=True)
    failed = []
    with processes.Load(options.load) as load:
        for at in range(options.repeat):
            for suite in suites:
                if not _passes(suite, seed + at, options, load):
                    failed.append((suite, seed + at))
    for suite, of_run in failed:
        print(f"FAIL {suite.name} with seed {of_run}: {LOGS / _log_name(suite, of_run)}\n  again: {_again(suite, of_run, options)}")
    print(f"{options.repeat * len(suites) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs test suites under load, and stops their processes at random.")
    parser.add_argument("--suite", action="append", choices=sorted(SUITES), help="this suite; may be repeated (default: all)")
    parser.add_argument("--short", action="store_true", help="the parts of suites that `make test` runs, once")
    parser.add_argument("--repeat", type=int, help="how often (default: 10, with --short 1)")
    parser.add_argument("--seed", type=int, help="seed of the choice, time and duration of stops; each run adds 1 (default: random)")
    parser.add_argument("--load", type=int, default=10, help="busy processes besides the suite (default: 10)")
    parser.add_argument("--stoppers", type=int, default=2, help="maximum number of processes stopped at a time (default: 2)")
    parser.add_argument("command", nargs="*", help="a command to run instead, after `--`")
    options = parser.parse_args()
    if options.repeat is None:
        options.repeat = 1 if options.short else 10
    return options


def _chosen(options: argparse.Namespace) -> list[Suite]:
    if options.command:
        return [Suite("command", tuple(options.command))]
    if options.short:
        return SHORT
    return [SUITES[name] for name in options.suite or SUITES]


def _passes(suite: Suite, seed: int, options: argparse.Namespace, load: processes.Load) -> bool:
    """One run. All processes that it leaves are killed."""
    path = LOGS / _log_name(suite, seed)
    started = time.monotonic()
    # Its output is separate from ours, so that a passing run takes one line.
    with open(path, "wb") as log:
        process = subprocess.Popen(suite.command, cwd=ROOT / suite.folder, env=os.environ | suite.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        spared = load.pids()
        with Stopper(seed, options.stoppers, spared) as stopper:
            try:
                status = process.wait(SUITE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                status = None
    left = processes.end_descendants(spared)
    seconds = time.monotonic() - started
    verdict = "ok" if status == 0 else "FAIL"
    ended = "not finished" if status is None else "" if status == 0 else f"status {status}"
    notes = [ended, f"{stopper.stops} stops", f"{seconds:.0f} s", f"{left} processes left behind" if left else ""]
    print(f"{verdict} {suite.name}, seed {seed}: {', '.join(filter(None, notes))}", flush=True)
    if status != 0:
        print(_last_lines(path), flush=True)
    return status == 0


def _log_name(suite: Suite, seed: int) -> str:
    return f"{suite.name}-{seed}.log"


def _again(suite: Suite, seed: int, options: argparse.Namespace) -> str:
    what = f"-- {' '.join(suite.command)}" if options.command or options.short else f"--suite {suite.name}"
    return f"tests/stress/run.py --repeat 1 --seed {seed} --load {options.load} --stoppers {options.stoppers} {what}"


def _last_lines(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return "\n".join(f"  | {line}" for line in lines[-LAST_LINES:])


if __name__ == "__main__":
    sys.exit(main())
