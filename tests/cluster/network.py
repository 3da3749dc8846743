"""A network of our own: each process of the cluster is in a namespace with its own address, and
this process is the router between them.

The router can drop packets silently, in one direction or both, for existing and new connections.
The rest of the machine is not affected, and everything ends with this process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from processes import Place

# Marks this process as the router.
INSIDE = "TAUTWIRE_CLUSTER_NETWORK"
MACHINE_HOURS = 3_600
# A PID namespace, too: no process outlives the router.
_UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


class NetworkError(Exception):
    """A system command has failed."""


def command() -> tuple[list[str], str]:
    """Returns the command prefix for the router process; empty, with the reason, if the system does
    not allow it."""
    if missing := [each for each in ("unshare", "nsenter", "ip") if shutil.which(each) is None]:
        return [], f"{', '.join(missing)} is missing"
    words = _UNSHARE if os.geteuid() == 0 else [*_UNSHARE, "--user", "--map-root-user"]
    script = "mount -t tmpfs tmpfs /run && mkdir /run/netns && ip netns add try && ip rule add to 10.77.0.1 blackhole"
    tried = subprocess.run([*words, "sh", "-c", script], capture_output=True, text=True)
    if tried.returncode != 0:
        return [], (tried.stderr.strip().splitlines() or ["it is not allowed"])[-1]
    return [*words, "env", f"{INSIDE}=1"], ""


def is_inside() -> bool:
    return INSIDE in os.environ


class Network:
    """The router."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._cuts: set[tuple[str, str]] = set()
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        os.mkdir("/run/netns")
        os.mkdir("/run/clocks")
        _run("ip", "link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def place(self, name: str) -> Place:
        """Creates a new namespace, with a monotonic clock of its own if the system supports that:
        different machines have different clocks."""
        number = len(self._places) + 1
        inside, router = f"10.77.{number}.2", f"10.77.{number}.1"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", f"to-{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "addr", "add", f"{router}/30", "dev", f"to-{number}")
        _run("ip", "link", "set", f"to-{number}", "up")
        for words in (["link", "set", "lo", "up"], ["addr", "add", f"{inside}/30", "dev", "eth0"], ["link", "set", "eth0", "up"],
                      ["route", "add", "default", "via", router]):
            _run("ip", "-n", name, *words)
        clock = _clock(name, number * MACHINE_HOURS)
        place = Place(inside, ("nsenter", f"--net=/run/netns/{name}", *clock, "--"))
        self._places[name] = place
        return place

    def cut(self, one: str, other: str) -> None:
        """Drops packets from `one` to `other`."""
        if (one, other) not in self._cuts:
            self._cuts.add((one, other))
            _run("ip", "rule", "add", *self._words(one, other))

    def mend(self, one: str, other: str) -> None:
        if (one, other) in self._cuts:
            self._cuts.remove((one, other))
            _run("ip", "rule", "del", *self._words(one, other))

    def mend_all(self) -> None:
        for one, other in list(self._cuts):
            self.mend(one, other)

    def _words(self, one: str, other: str) -> list[str]:
        return ["from", self._places[one].host, "to", self._places[other].host, "blackhole"]


class SmallDisk:
    """An in-memory file system that can be filled."""

    def __init__(self, folder: Path, size_mib: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder))
        self._filler = folder / "filler"

    def fill(self) -> None:
        # Unbuffered, because a buffer would have to be written on close.
        with open(self._filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 20))
            except OSError:
                return

    def clear(self) -> None:
        self._filler.unlink(missing_ok=True)


def _clock(name: str, offset_s: int) -> list[str]:
    """Returns arguments for nsenter; none if the system does not support time namespaces."""
    file = Path("/run/clocks") / name
    file.touch()
    script = 'mount --bind "/proc/$$/ns/time_for_children" "$0"'
    words = ["unshare", "--time", "--monotonic", str(offset_s), "--boottime", str(offset_s), "sh", "-c", script, str(file)]
    made = subprocess.run(words, capture_output=True)
    return [f"--time={file}"] if made.returncode == 0 else []


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise NetworkError(f"{' '.join(words)}: {done.stderr.strip()}")
