"""The machine and the revision of a result, as described by the load generator, and its lock."""

from __future__ import annotations

import fcntl
import math
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent.parent


def describe() -> dict[str, object]:
    cpu = _read("/proc/cpuinfo")
    return {
        "cpu_model": _field(cpu, "model name") or "unknown",
        "cores": cpu.count("\nprocessor") + cpu.startswith("processor"),
        "virtualised": "hypervisor" in (_field(cpu, "flags") or "").split(),
        "memory_mib": int((_field(_read("/proc/meminfo"), "MemTotal") or "0").split()[0]) // 1024,
        "kernel": _read("/proc/sys/kernel/osrelease").strip(),
        "operating_system": (_match(r'^PRETTY_NAME="?([^"\n]+)', _read("/etc/os-release"))) or "none",
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or "none",
        "loopback_mtu_bytes": int(_read("/sys/class/net/lo/mtu").strip() or 0),
        "tcp_congestion_control": _read("/proc/sys/net/ipv4/tcp_congestion_control").strip() or "none",
        "open_files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    }


def wait_for_other_runs() -> IO[bytes]:
    """Locks, because concurrent measurements would affect each other; the load generator uses the same lock. Closing the file releases it."""
    lock = open(Path(tempfile.gettempdir()) / "tautwire-bench.lock", "ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("another measurement is under way; waiting for it", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def slug(machine: dict[str, object]) -> str:
    """Returns the results folder for this class of machine: processor, cores, memory."""
    words = re.sub(r"[^a-z0-9]+", "-", str(machine["cpu_model"]).lower()).strip("-")
    return f"{words}-{machine['cores']}c-{math.ceil(int(str(machine['memory_mib'])) / 1024)}g"


def revision() -> str:
    """The commit, with `+changes` when the tree differs from it."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "none"
    return f"{head}+changes" if _git("status", "--porcelain", "--untracked-files=no") else head


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else ""


def _field(text: str, name: str) -> str | None:
    return _match(rf"^{name}\s*:\s*(.*)$", text)


def _match(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.M)
    return found[1].strip() if found else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
