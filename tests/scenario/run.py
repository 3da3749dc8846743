#!/usr/bin/env python3
"""Runs the same scenarios with the clients of all languages, and compares their output.

`run.py [--languages go,rust] [SCENARIO…]`. The exit status is 0 if everything went as expected, 1 if something did not, and 2 if
it could not run.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

from agents import LANGUAGES, ROOT, AgentError, prepare
from stage import Broken, Stage

CASES = Path(__file__).resolve().parent / "cases"
LOGS = ROOT / "target" / "scenario" / "logs"
# Parallel runs. Clients mostly wait, for an offline broker.
JOBS = 4


def main() -> int:
    sys.path.insert(0, str(CASES))
    options = _options()
    languages: list[str] = options.languages
    try:
        for language in languages:
            prepare(language)
    except AgentError as error:
        print(error, file=sys.stderr)
        return 2
    plays = [(name, cast) for name in options.scenarios for cast in _casts(importlib.import_module(name), languages)]
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for is_well, told in pool.map(lambda play: _told(*play), plays):
            failed += not is_well
            print(told, flush=True)
    print(f"{len(plays) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    scenarios = sorted(path.stem for path in CASES.glob("*.py"))
    parser = argparse.ArgumentParser(description="The same scenarios with the clients of all languages.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"some of: {', '.join(scenarios)}")
    parser.add_argument("--languages", default=",".join(LANGUAGES), help="some of: %(default)s")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help="parallel runs (default: %(default)s)")
    options = parser.parse_args()
    options.languages = options.languages.split(",")
    for kind, given, known in (("language", options.languages, LANGUAGES), ("scenario", options.scenarios, scenarios)):
        for each in given:
            if each not in known:
                parser.error(f"unknown {kind} {each!r}; known: {', '.join(known)}")
    options.scenarios = options.scenarios or scenarios
    return options


def _casts(scenario: ModuleType, languages: list[str]) -> Iterator[tuple[str, ...]]:
    """Yields the languages of each run: single ones, or pairs."""
    players = [language for language in languages if language not in getattr(scenario, "WITHOUT", ())]
    return itertools.product(players, repeat=getattr(scenario, "ROLES", 1))


def _told(name: str, cast: tuple[str, ...]) -> tuple[bool, str]:
    """Runs it. Returns whether it passed, and the report."""
    began = time.monotonic()
    title = f"{name} {' '.join(cast)}"
    if problem := _play(importlib.import_module(name), name, cast):
        return False, f"FAIL {title}\n{_indented(problem)}"
    return True, f"ok   {title} ({time.monotonic() - began:.1f} s)"


def _play(scenario: ModuleType, name: str, cast: tuple[str, ...]) -> str | None:
    """Returns what went wrong."""
    folder = LOGS / "-".join((name, *cast))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Stage(folder, cast) as stage:
        try:
            scenario.play(stage)
            stage.end()
        except (Broken, AgentError, TimeoutError) as error:
            return f"{error}\nlogs: {folder.relative_to(ROOT)}"
    return None


def _indented(text: str) -> str:
    return "\n".join(f"     {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
