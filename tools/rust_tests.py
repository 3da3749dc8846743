"""Compiles the tests of Rust crates and runs several test programs at a time, because most of them wait for sockets and timers.

Usage: tools/rust_tests.py CARGO-TEST-ARGUMENT...
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CARGO = os.environ.get("CARGO", "cargo")
# The longest programs start first.
FIRST = ["conformance", "cli", "simulation"]
# More than the two cores of the CI machine, because most programs wait.
PROGRAMS_AT_ONCE = 4
THREADS_OF_A_PROGRAM = {"conformance": "8"}
DEFAULT_THREADS = "4"
# Programs that take longer are listed.
SLOW_S = 5


@dataclass(frozen=True)
class Program:
    crate: str
    name: str
    path: str
    folder: Path

    @property
    def rank(self) -> int:
        return FIRST.index(self.name) if self.name in FIRST else len(FIRST)


@dataclass(frozen=True)
class Result:
    program: Program
    status: int
    output: str
    seconds: float
    processor_seconds: float


def compiled(arguments: list[str]) -> list[Program]:
    """Compiles the tests, and returns their programs, the longest first."""
    command = [CARGO, "test", "--locked", "--quiet", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    programs = []
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = Path(message["manifest_path"]).parent
            programs.append(Program(folder.name, message["target"]["name"], message["executable"], folder))
    return sorted(programs, key=lambda program: program.rank)


def run(program: Program) -> Result:
    threads = os.environ.get("RUST_TEST_THREADS") or THREADS_OF_A_PROGRAM.get(program.name, DEFAULT_THREADS)
    environment = {**os.environ, "RUST_TEST_THREADS": threads, "CARGO_MANIFEST_DIR": str(program.folder)}
    begin = time.monotonic()
    process = subprocess.Popen([program.path, "--quiet"], cwd=program.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with process.stdout as pipe:
        output = pipe.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Result(program, process.returncode, output, time.monotonic() - begin, usage.ru_utime + usage.ru_stime)


def main(arguments: list[str]) -> int:
    programs = compiled(arguments)
    failed = []
    with ThreadPoolExecutor(PROGRAMS_AT_ONCE) as pool:
        for result in pool.map(run, programs):
            if result.status != 0:
                failed.append(result)
                print(f"\n== {result.program.crate} {result.program.name}: failed\n{result.output}", flush=True)
            elif result.seconds >= SLOW_S:
                print(f"{result.program.crate} {result.program.name}: {result.seconds:.0f} s, {result.processor_seconds:.0f} s of processor time", flush=True)
    names = ", ".join(f"{result.program.crate} {result.program.name}" for result in failed)
    print(f"{len(programs)} programs, {len(failed)} failed{': ' if failed else ''}{names}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
