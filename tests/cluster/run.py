"""Runs and checks histories of a cluster under faults. README.md describes the phases and the
guarantees.

`run.py` runs one schedule for each seed, and exits with 0 only if every guarantee held in all of
them.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Starts servers and brokers.
sys.path.append(str(HERE.parents[1] / "tools" / "cluster"))

import network  # noqa: E402
from judge import read  # noqa: E402
from measure import measured  # noqa: E402
from processes import StageError, program  # noqa: E402
from schedule import draw, only_kills  # noqa: E402
from trial import Trial  # noqa: E402

SCHEDULES = 20
TRIAL_MAX_S = 600


def main() -> int:
    options = _options()
    if options.inside is not None:
        return _run_inside(options)
    words, why_not = network.command()
    if not words:
        print(f"cluster: no network of our own ({why_not}): connections are not cut, and disks are not filled", flush=True)
    if options.measure:
        options.seeds = [0]
    seeds = [options.seed + each for each in range(options.schedules)] if options.seeds is None else options.seeds
    print(f"cluster: {len(seeds)} schedules, seeds {seeds[0]} to {seeds[-1]}", flush=True)
    began = time.monotonic()
    until = began + options.minutes * 60 if options.minutes else None
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for seed, status in pool.map(lambda seed: (seed, _run_apart(seed, words, options, until)), seeds):
            failed += status != 0
    took_s = time.monotonic() - began
    print(f"cluster: {failed} of {len(seeds)} schedules failed, {took_s:.0f} s", flush=True)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs histories of a cluster under faults, and checks them.")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, metavar="N", help=f"number of schedules (default: {SCHEDULES})")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), metavar="N", help="seed of the first schedule")
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], metavar="N,…", help="run these seeds, one after the other")
    parser.add_argument("--minutes", type=float, metavar="N", help="start no schedule after this time")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="parallel schedules, each with its own cluster")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep all folders and histories, not only those of failed schedules")
    parser.add_argument("--measure", type=int, metavar="KILLS", help="kill this many brokers, one after the other, and print measurements")
    parser.add_argument("--inside", type=int, metavar="SEED", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_apart(seed: int, words: list[str], options: argparse.Namespace, until: float | None) -> int:
    """Runs one schedule in its own process and network."""
    if until is not None and time.monotonic() > until:
        return 0
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"tautwire-cluster-{seed}-", dir=options.keep)).resolve()
    command = [*words, sys.executable, "-B", str(HERE / "run.py"), "--inside", str(seed), "--folder", str(folder)]
    if options.measure:
        command += ["--measure", str(options.measure)]
    try:
        status = subprocess.run(command, timeout=TRIAL_MAX_S).returncode
    except subprocess.TimeoutExpired:
        print(f"FAIL seed {seed}: not finished within {TRIAL_MAX_S} s; history, logs and state: {folder}", flush=True)
        return 1
    if status == 0 and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def _run_inside(options: argparse.Namespace) -> int:
    seed = options.inside
    schedule = only_kills(options.measure) if options.measure else draw(seed)
    if schedule.needs_network and not network.is_inside():
        print(f"skip seed {seed}, {schedule.theme}: there is no network to cut", flush=True)
        return 0
    folder = options.folder
    try:
        outcome = Trial(schedule, folder, program("TAUTWIRE_NATS_SERVER"), program("TAUTWIRE")).run()
    except StageError as error:
        print(f"FAIL seed {seed}: {error}", flush=True)
        return 1
    counts = outcome.counts
    said = ", ".join(f"{counts.get(what, 0):,} {what}" for what in ("acknowledged", "message", "connected", "refused"))
    if options.measure:
        print(json.dumps(measured(read(folder / "history.jsonl")), indent=1), flush=True)
    if not outcome.wrong:
        print(f"ok seed {seed}, {schedule.theme}, {outcome.took_s:.0f} s: {said}", flush=True)
        return 0
    lines = [*outcome.wrong, *(f"  {fault.told()}" for fault in schedule.faults)]
    lines.append(f"FAIL seed {seed}, {schedule.theme}, {outcome.took_s:.0f} s: {said}")
    lines.append(f"  history, logs and state: {folder}")
    lines.append(f"    check it again: {sys.executable} tests/cluster/judge.py {folder / 'history.jsonl'}")
    lines.append(f"  run it again:   tests/cluster/run.py --seeds {seed}")
    print("\n".join(lines), flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
