"""Runs a page's commands in one shell, in its own folder and network: ports are free, and no process is left."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
import subprocess
import time
from pathlib import Path

BLOCK_TIMEOUT_S = 120
PRINTS_TIMEOUT_S = 60
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
# Each failed command is reported, except those in the background and in conditions. The shell's variables must not interfere with the
# page.
PROLOGUE = "trap '__failed=\"${__failed:-}${BASH_COMMAND}; \"' ERR\n"


class Failure(Exception):
    """A page's expectation is not met."""


class Session:
    def __init__(self, folder: Path, executable: Path) -> None:
        self.folder = folder
        self.transcript = folder.parent / "transcript"
        self.seen = 0
        tools = folder.parent / "bin"
        tools.mkdir()
        (tools / "tautwire").symlink_to(executable)
        (folder / "bin").mkdir()
        (folder / "bin/tautwire").symlink_to(executable)
        environment = {
            "PATH": f"{tools}:{os.environ['PATH']}:/usr/sbin", "HOME": str(folder), "LC_ALL": "C.UTF-8",
            "XDG_STATE_HOME": str(folder / ".local/state"), "NO_COLOR": "1",
        }
        self.output = self.transcript.open("wb")
        self.control_out, control_in = os.pipe()
        os.set_inheritable(control_in, True)
        self.control_in = control_in
        self.shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=self.output, stderr=subprocess.STDOUT, pass_fds=[control_in],
        )
        self._say(PROLOGUE)

    def run(self, commands: str, exit_code: int | None) -> None:
        """Runs a block. Each command must succeed, or the last one must exit with `exit_code` if that is not 0; with `None` any may
        fail."""
        self.seen = self.transcript.stat().st_size
        script = self.folder.parent / "block"
        script.write_text(commands)
        self._say(f'__failed=; . "{script}"; printf "%s %s\\n" "$?" "$__failed" >&{self.control_in}\n')
        code, failed = self._answer()
        if exit_code is not None and (code != exit_code or (failed and not exit_code)):
            raise Failure(f"exit code {code} instead of {exit_code}: {failed}\n{self._fresh()}")

    def prints(self, expected: str, timeout_s: float = PRINTS_TIMEOUT_S) -> None:
        """Waits until every expected line has been printed since the last block started; `…` matches anything."""
        wanted = [line.rstrip() for line in expected.splitlines() if line.strip() not in ("", "…")]
        deadline = time.monotonic() + timeout_s
        while missing := self._missing(wanted):
            if time.monotonic() > deadline:
                raise Failure(f"not printed: {missing[0]!r}\n{self._fresh()}")
            time.sleep(0.02)

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        if self.shell.stdin:
            self.shell.stdin.close()
        self.output.close()
        os.close(self.control_in)
        os.close(self.control_out)

    def _missing(self, wanted: list[str]) -> list[str]:
        there = [line.rstrip() for line in self._fresh().splitlines()]
        missing = []
        for line in wanted:
            pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
            hit = next((index for index, printed in enumerate(there) if pattern.fullmatch(printed)), None)
            if hit is None:
                missing.append(line)
            else:
                del there[hit]
        return missing

    def _fresh(self) -> str:
        with self.transcript.open("rb") as file:
            file.seek(self.seen)
            return file.read().decode(errors="replace")

    def _say(self, text: str) -> None:
        assert self.shell.stdin
        self.shell.stdin.write(text.encode())
        self.shell.stdin.flush()

    def _answer(self) -> tuple[int, str]:
        os.set_blocking(self.control_out, False)
        deadline, said = time.monotonic() + BLOCK_TIMEOUT_S, b""
        while not said.endswith(b"\n"):
            if time.monotonic() > deadline:
                raise Failure(f"not finished after {BLOCK_TIMEOUT_S} s\n{self._fresh()}")
            if self.shell.poll() is not None:
                raise Failure(f"the shell has ended\n{self._fresh()}")
            try:
                said += os.read(self.control_out, 4096)
            except BlockingIOError:
                time.sleep(0.01)
        code, _, failed = said.decode().strip().partition(" ")
        return int(code), failed


def loopback_up() -> None:
    """Brings up the loopback interface, which is down in a new network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
