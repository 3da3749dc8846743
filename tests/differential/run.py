"""Compares the codecs in all languages on random and mutated packets.

`python3 tests/differential/run.py` builds the drivers and runs them; the exit status is 0 only if
they agree on all inputs.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import threading
from pathlib import Path

import inputs
import messages
import normal_form

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CARGO_TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
BUILT = ROOT / "target" / "differential"
REFERENCE = "rust"
DIFFERENCES_SHOWN = 20
# If a class has a smaller part of the inputs, the inputs are one-sided and prove little.
CLASS_MIN_PART = 1 / 500
CLASSES = ("valid", "malformed", "protocol_error", "too_large", "incomplete")

BUILDS: dict[str, list[str]] = {
    "rust": ["cargo", "build", "--release", "--quiet", "--locked", "-p", "tautwire-protocol", "--example", "verdict"],
    "typescript": ["make", "--no-print-directory", "--silent", "typescript"],
    "go": ["go", "-C", "clients/go", "build", "-o", str(BUILT / "go"), "./internal/verdict"],
    "c": ["make", "--no-print-directory", "--silent", "-C", "clients/c", "verdict"],
}
DRIVERS: dict[str, list[str]] = {
    "rust": [str(CARGO_TARGET / "release" / "examples" / "verdict")],
    "typescript": ["node", str(HERE / "typescript.mjs")],
    "go": [str(BUILT / "go")],
    "c": [str(ROOT / "clients" / "c" / "build" / "verdict")],
}


def main() -> int:
    options = _options()
    if not options.no_build:
        BUILT.mkdir(parents=True, exist_ok=True)
        for name in options.only:
            subprocess.run(BUILDS[name], cwd=ROOT, check=True)
    made = list(inputs.make(options.inputs, options.seed))
    answers = _answers(options.only, "".join(item.line() for item in made))
    differences = 0
    classes: collections.Counter[str] = collections.Counter()
    for number, item in enumerate(made):
        said = {name: _comparable(answers[name][number], item.version) for name in options.only}
        wrong = {name: what for name in options.only if (what := messages.fault(name, answers[name][number]))}
        first = said[options.only[0]]
        classes[first.split(" ")[0]] += 1
        if wrong or any(line != first for line in said.values()):
            differences += 1
            if differences <= DIFFERENCES_SHOWN:
                print(f"input {number}: {item.line().rstrip()}")
                for name, line in said.items():
                    print(f"  {name:<11} {line}" + (f": {wrong[name]}" if name in wrong else ""))
    print(f"{len(made)} inputs, seed {options.seed}: " + ", ".join(f"{classes[name]} {name}" for name in CLASSES))
    if rare := [name for name in CLASSES if classes[name] < len(made) * CLASS_MIN_PART]:
        print(f"too few inputs are {' or '.join(rare)} to prove anything")
        return 1
    print(f"{', '.join(options.only)}: " + (f"{differences} differences" if differences else "all agree"))
    return 1 if differences else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares the codecs in all languages.")
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N", help="number of inputs (default: 100000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which (default: 1)")
    parser.add_argument("--only", action="append", choices=list(DRIVERS), help="run only this codec; may be repeated")
    parser.add_argument("--no-build", action="store_true", help="do not build the drivers")
    options = parser.parse_args()
    options.only = options.only or list(DRIVERS)
    return options


def _answers(names: list[str], text: str) -> dict[str, list[str]]:
    answers: dict[str, list[str]] = {}

    def ask(name: str) -> None:
        run = subprocess.run(DRIVERS[name], input=text, capture_output=True, text=True)
        answers[name] = run.stdout.splitlines()
        if run.returncode != 0:
            print(f"{name}: status {run.returncode}: {run.stderr.strip()[-2000:]}")

    threads = [threading.Thread(target=ask, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = text.count("\n")
    if short := [f"{name} ({len(lines)} of {expected})" for name, lines in answers.items() if len(lines) != expected]:
        sys.exit(f"fewer answers than inputs: {', '.join(short)}")
    return answers


def _comparable(line: str, version: int) -> str:
    line = messages.without(line)
    words = line.split(" ")
    if words[0] != "valid":
        return line
    return f"valid {words[1]} {normal_form.of(bytes.fromhex(words[2]), version).hex()}"


if __name__ == "__main__":
    sys.exit(main())
