"""Checks the broker's guarantees about memory and time while clients behave as badly as they can.

`python3 tests/hostile/run.py` runs the short cases, `--all` all of them; each has its own broker. It prints a table; the exit
status is 0 only if nothing failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# MQTT packets as bytes.
sys.path.append(str(Path(__file__).resolve().parents[1] / "mqtt"))

import arena  # noqa: E402
import cases  # noqa: E402
from arena import CASES, MIB, Case, Result  # noqa: E402
from broker import EXECUTABLE  # noqa: E402

# A delay caused by the broker occurs in each attempt, one caused by the machine does not: only the shortest counts.
ATTEMPTS = 4


def main() -> int:
    options = _options()
    chosen = [each for each in CASES if _is_chosen(each, options)]
    if options.inside:
        print(arena.run(chosen[0], options.broker).to_json(), flush=True)
        return 0
    if options.list:
        for each in chosen:
            print(f"{each.name:<32}{'short ' if each.is_short else '      '}{each.what}")
        return 0
    if not chosen:
        print("unknown case; --list prints the names")
        return 1
    results = [(each, _run(each, options.broker, options.untimed)) for each in chosen]
    return _report(results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Attacks the broker, and measures the effect on it and on other clients.")
    parser.add_argument("--all", action="store_true", help="all cases, not only the short ones")
    parser.add_argument("--case", action="append", metavar="NAME", help="this case, or those with this prefix; may be repeated")
    parser.add_argument("--broker", type=Path, default=EXECUTABLE, metavar="FILE",
                        help="broker executable to start (default: bin/tautwire)")
    parser.add_argument("--untimed", action="store_true", help="do not check how long others wait, for example if the broker itself is paused")
    parser.add_argument("--list", action="store_true", help="list the cases, and exit")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _is_chosen(each: Case, options: argparse.Namespace) -> bool:
    if options.inside:
        return each.name == options.case[0]
    if options.case:
        return any(each.name.startswith(name) for name in options.case)
    return each.is_short or options.all or options.list


def _run(each: Case, executable: Path, is_untimed: bool) -> Result:
    """Runs a case; repeats it if the bystander waited too long. Everything else has one attempt."""
    for attempt in range(1, ATTEMPTS + 1):
        result = _run_once(each, executable)
        if is_untimed:
            result.late.clear()
        if result.failures or not result.late:
            break
        print(f"  {each.name}: {result.late[0]}; attempt {attempt} of {ATTEMPTS}", flush=True)
    result.failures += result.late
    verdict = "FAIL" if result.failures else "skip" if result.skipped else "ok"
    print(f"{verdict} {each.name}" + "".join(f": {said}" for said in [*result.failures[:1], result.skipped] if said), flush=True)
    return result


def _run_once(each: Case, executable: Path) -> Result:
    """Runs it in its own process, with all its children in one group, which is killed on timeout."""
    command = [sys.executable, "-B", __file__, "--inside", "--case", each.name, "--broker", str(executable)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    started = time.monotonic()
    try:
        said, _ = process.communicate(timeout=each.timeout_s)
        return Result(**json.loads(said))
    except subprocess.TimeoutExpired:
        return Result(failures=[f"not finished within {each.timeout_s:.0f} s"], seconds=time.monotonic() - started)
    except ValueError:
        return Result(failures=["the test program failed; see above"], seconds=time.monotonic() - started)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _report(results: list[tuple[Case, Result]]) -> int:
    print(f"\n{'case':<32}{'limit':>7}{'peak':>7}{'p50':>8}{'p99':>8}{'longest':>9}{'before':>8}{'lost':>6}{'s':>6}  verdict")
    print(f"{'':<32}{'MiB':>7}{'MiB':>7}{'ms':>8}{'ms':>8}{'ms':>9}{'ms':>8}")
    for each, result in results:
        print(_row(each, result))
    for each, result in results:
        for reason in result.failures:
            print(f"FAIL {each.name}: {reason}")
    for each, result in results:
        for note in result.notes:
            print(f"note {each.name}: {note}")
        if result.skipped:
            print(f"skip {each.name}: {result.skipped}")
    failed = sum(1 for _, result in results if result.failures)
    skipped = sum(1 for _, result in results if result.skipped and not result.failures)
    print(f"{len(results) - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if failed == 0 else 1


def _row(each: Case, result: Result) -> str:
    """Round trips are corrected; `before` is the longest one before the attack."""
    seen, quiet = result.attack, result.quiet
    times = f"{seen['corrected_p50_ms']:>8.2f}{seen['corrected_p99_ms']:>8.2f}{seen['corrected_longest_ms']:>9.1f}" \
        f"{quiet['corrected_longest_ms']:>8.1f}{seen['lost']:>6}" if seen else f"{'–':>8}{'–':>8}{'–':>9}{'–':>8}{'–':>6}"
    verdict = "FAIL" if result.failures else "skip" if result.skipped else "ok"
    judged = "" if each.is_timed and each.is_weighed else " (memory)" if each.is_weighed else " (time)" if each.is_timed else ""
    return f"{each.name:<32}{each.limit_bytes // MIB:>7}{result.peak_bytes // MIB:>7}{times}{result.seconds:>6.1f}  {verdict}{judged}"


if __name__ == "__main__":
    assert cases.__path__
    sys.exit(main())
