"""Runs all tests of bridges, several files at once: they mostly wait for each other's disks and clocks."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).parent
AT_ONCE = 4
KILLS = "6"
# The longest first.
FORWARDING = ["WithTautwire", "WithTautwire311", "WithMosquitto", "WithMosquitto311", "WithNats", "WithMochi", "WithHiveMq"]


def main() -> int:
    others = sorted(file.name for file in FOLDER.glob("test_*.py") if file.name not in ("test_links.py", "test_forwarding.py"))
    commands = [["test_links.py"], ["kills.py", "--kills", KILLS], *([name] for name in others)]
    commands += [["test_forwarding.py", name] for name in FORWARDING]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(_run, commands))
    failed = [output for has_passed, output in results if not has_passed]
    print("\n".join(failed), end="")
    print(f"bridges: {len(results) - len(failed)} of {len(results)} parts passed")
    return 1 if failed else 0


def _run(command: list[str]) -> tuple[bool, str]:
    began = time.monotonic()
    run = subprocess.run([sys.executable, "-B", str(FOLDER / command[0]), *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"{' '.join(command)}: {'passed' if run.returncode == 0 else 'FAILED'} in {time.monotonic() - began:.0f} s", flush=True)
    return run.returncode == 0, run.stdout


if __name__ == "__main__":
    sys.exit(main())
