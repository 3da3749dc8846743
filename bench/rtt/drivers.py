"""Driver processes: started once, then controlled by lines of commands."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
from collections.abc import Iterator, Sequence

READY_TIMEOUT_S = 30
# Added to the time of the command itself.
ANSWER_TIMEOUT_S = 20


class DriverError(Exception):
    """A driver has exited or did not respond; the message has the reason."""


class Driver:
    """A process that prints `ready …` and, for clients, responds to each line with a line of times."""

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        self.failure: str | None = None
        self._ready_words: list[str] = []

    def await_ready(self) -> list[str]:
        """The words after `ready`."""
        line = self._line(READY_TIMEOUT_S)
        if not line.startswith("ready"):
            raise self._failed(f"said {line!r} instead of being ready")
        return line.split()[1:]

    def ask(self, server: str, count: int, limit_ms: int) -> list[int]:
        """Runs exchanges with a server, up to `count` or the time limit. Returns the nanoseconds of each."""
        if self.failure:
            raise DriverError(self.failure)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{server} {count} {limit_ms}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._failed("does not listen any more") from error
        times = [int(word) for word in self._line(limit_ms / 1000 + ANSWER_TIMEOUT_S).split()]
        if not times:
            raise self._failed("no exchange")
        return times

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()

    def _line(self, timeout_s: float) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not readable:
            raise self._failed(f"no reply within {timeout_s:.0f} s: a message is lost, or the library is stuck")
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise self._failed("ended")
        return line

    def _failed(self, what: str) -> DriverError:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        self.failure = f"{what}: {said[-1]}" if said else what
        return DriverError(self.failure)


@contextlib.contextmanager
def running(commands: dict[tuple, Sequence[str]]) -> Iterator[dict[tuple, Driver]]:
    """Starts all drivers; those that do not become ready have a failure. They are stopped at the end."""
    drivers: dict[tuple, Driver] = {}
    try:
        for key, command in commands.items():
            drivers[key] = Driver(command)
        for driver in drivers.values():
            with contextlib.suppress(DriverError):
                driver.await_ready()
        yield drivers
    finally:
        for driver in drivers.values():
            driver.stop()


@contextlib.contextmanager
def running_raw(programs: dict[tuple[str, str], Sequence[str]]) -> Iterator[dict[tuple[str, str], Driver]]:
    """Returns the clients of bare sockets, by language and protocol."""
    started: list[Driver] = []
    pings: dict[tuple[str, str], Driver] = {}
    try:
        for (language, protocol), (*command, _) in programs.items():
            echo = Driver([*command, f"{protocol}-echo"])
            started.append(echo)
            port = echo.await_ready()[0]
            pings[language, protocol] = Driver([*command, f"{protocol}-ping", "127.0.0.1", port])
            started.append(pings[language, protocol])
            pings[language, protocol].await_ready()
        yield pings
    finally:
        for driver in started:
            driver.stop()


@contextlib.contextmanager
def pinned(cpu: int | None) -> Iterator[None]:
    """Processes that are started within the block run on one CPU; `None` for any CPU."""
    before = os.sched_getaffinity(0)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
