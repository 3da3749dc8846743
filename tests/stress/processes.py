"""The processes below this one, and CPU load besides a suite."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36

# It exits when its parent does.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1_000_000): pass"


def adopt_orphans() -> None:
    """Orphaned processes become children of this one, so that they can be found."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants(spared: frozenset[int] = frozenset()) -> list[int]:
    """All processes below this one, except `spared` and their descendants, in the order of their numbers."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(int(entry.name))):
            children.setdefault(parent, []).append(int(entry.name))
    found, unseen = [], [os.getpid()]
    while unseen:
        for child in children.get(unseen.pop(), []):
            if child not in spared:
                found.append(child)
                unseen.append(child)
    return sorted(found)


def _parent(pid: int) -> int | None:
    """None for a process that has ended."""
    try:
        # The name in parentheses may contain anything.
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state in "ZX" else int(parent)


def end_descendants(spared: frozenset[int]) -> int:
    """Kills the remaining processes below this one, and returns how many there were."""
    left = descendants(spared)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for pid in left:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            # Not a child of this process, or no longer.
            pass
    return len(left)


class Load:
    """So many busy processes until this is closed."""

    def __init__(self, count: int) -> None:
        self._processes = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]

    def pids(self) -> frozenset[int]:
        return frozenset(process.pid for process in self._processes)

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
