"""A process whose time of day is another one than the machine's.

Programs read the clock by code that the kernel maps into them, the vDSO; neither a library in front of the system's nor a namespace reaches
that. So this file writes other code into a process's own copy of it: the clock is read by a system call, and the time of day, and no other
clock, is moved. It holds until the process ends. x86-64 alone.
"""

from __future__ import annotations

import os
import platform
import signal
import struct
import time
from pathlib import Path

# mov eax, SYS_clock_gettime; syscall; CLOCK_REALTIME or CLOCK_REALTIME_COARSE: movabs rcx, seconds; add [rsi], rcx; ret
_CODE = bytes.fromhex("b8e4000000 0f05 85ff 7405 83ff05 750d 48b9") + b"%s" + bytes.fromhex("48010e c3")
_FUNCTION = b"__vdso_clock_gettime"
STOP_S = 5


class ClockError(Exception):
    """The clock of the process cannot be moved."""


def can_move() -> bool:
    return platform.machine() == "x86_64" and os.geteuid() == 0


def move(pid: int, offset_s: int) -> None:
    """The time of day of a process is so many seconds ahead of the machine's from now on."""
    begin, end = _function(pid)
    code = _CODE.replace(b"%s", struct.pack("<q", offset_s))
    if end - begin < len(code):
        raise ClockError(f"there is no room for {len(code)} bytes")
    for _ in range(100):
        os.kill(pid, signal.SIGSTOP)
        try:
            _await_stop(pid)
            if not any(begin <= at < end for at in _where(pid)):
                with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
                    memory.seek(begin)
                    memory.write(code)
                return
        finally:
            os.kill(pid, signal.SIGCONT)
    raise ClockError("it is always within the function")


def _function(pid: int) -> tuple[int, int]:
    """Where the function lies that reads a clock."""
    line = next((line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if line.endswith("[vdso]")), None)
    if line is None:
        raise ClockError("it has no vDSO")
    begin, end = (int(part, 16) for part in line.split()[0].split("-"))
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(begin)
        image = memory.read(end - begin)
    sections_at, = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, sections_at + size * number) for number in range(count)]
    symbols = next(header for header in headers if header[1] == 11)  # SHT_DYNSYM
    names_at = headers[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, _, value, length = struct.unpack_from("<IBBHQQ", image, at)
        if image[names_at + name :].split(b"\0", 1)[0] == _FUNCTION:
            return begin + value, begin + value + length
    raise ClockError(f"its vDSO has no {_FUNCTION.decode()}")


def _await_stop(pid: int) -> None:
    until = time.monotonic() + STOP_S
    while any(state not in "Tt" for state in _states(pid)):
        if time.monotonic() > until:
            raise ClockError("it does not stand still")
        os.sched_yield()


def _states(pid: int) -> list[str]:
    return [Path(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in _tasks(pid)]


def _where(pid: int) -> list[int]:
    """The instruction that each thread goes on with, in a system call or not."""
    return [int(Path(task / "syscall").read_text().split()[-1], 16) for task in _tasks(pid)]


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())
