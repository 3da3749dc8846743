"""Starts a broker for each case, and reads its memory and thread statistics from the system."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXECUTABLE = ROOT / "bin" / "tautwire"
LOGS = ROOT / "target" / "hostile-logs"
# It first writes and syncs a segment of its log, on a disk that may be busy.
READY_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60


class BrokerError(Exception):
    """The broker did not start, or has exited."""


@dataclass
class Broker:
    process: subprocess.Popen[bytes]
    # By the scheme of the listener, in order of configuration; that of the admin API is `http`.
    ports: dict[str, int]
    log: Path

    @property
    def port(self) -> int:
        """The port for MQTT over TCP."""
        return self.ports["mqtt"]

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_running(self) -> bool:
        return self.process.poll() is None

    def peak_bytes(self) -> int:
        return self._status_bytes("VmHWM")

    def resident_bytes(self) -> int:
        return self._status_bytes("VmRSS")

    def descriptors(self) -> int:
        """Returns how many files and sockets it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _status_bytes(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
        if found is None:
            raise BrokerError(f"no {name}: the broker has exited")
        return int(found[1]) * 1024

    def thread(self, name: str) -> int:
        """Returns the system's identifier of a thread."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == name:
                return int(task.name)
        raise BrokerError(f"no thread {name}")

    def cpu_ns(self) -> int:
        """Returns the CPU time of all its threads, according to the scheduler: see proc(5), `schedstat`."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def switches(self, thread: int) -> int:
        """Returns how often a thread has gone to sleep."""
        status = Path(f"/proc/{self.pid}/task/{thread}/status").read_text()
        found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)
        return int(found[1]) if found else 0

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> str | None:
        """Stops it; returns an error if it exited unexpectedly or did not stop."""
        try:
            if not self.is_running():
                return f"the broker exited unexpectedly with status {self.process.returncode}; see {self.log.name}"
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                return f"the broker did not exit within {STOP_TIMEOUT_S} s of SIGTERM"
            return None
        finally:
            self.process.kill()
            self.process.wait()


def start(
    executable: Path, name: str, settings: dict[str, object], threads: int, stalled_log: bool, schemes: tuple[str, ...] = ()
) -> Broker:
    """Starts a broker with listeners for MQTT over TCP and for `schemes`, and if `admin.listen` is set for its admin API, on
    ports that the kernel picks.

    With `stalled_log` its standard error is not read.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    command = [str(executable), "serve", "--memory", "--threads", str(threads)]
    for scheme in ("mqtt", *schemes):
        command += ["--listen", "127.0.0.1:0" if scheme == "mqtt" else f"{scheme}://127.0.0.1:0"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    with open(log, "wb") as file:
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE if stalled_log else file
            )
        except OSError as error:
            raise BrokerError(f"cannot start {executable} (`make build` makes it): {error}") from None
    try:
        return Broker(process, _announced_ports(process, log, 1 + len(schemes) + ("admin.listen" in settings)), log)
    except BaseException:
        process.kill()
        process.wait()
        raise


def tool(executable: Path, arguments: list[str], environment: dict[str, str] | None = None) -> None:
    """Runs another command of the executable."""
    command = [str(executable), *arguments]
    try:
        subprocess.run(command, env=os.environ | (environment or {}), stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BrokerError(f"cannot prepare the broker: {error}") from None


def _announced_ports(process: subprocess.Popen[bytes], log: Path, count: int) -> dict[str, int]:
    """Reads the ports from the broker's output; the few lines after them fit in the pipe."""
    assert process.stdout is not None
    said = b""
    deadline = time.monotonic() + READY_TIMEOUT_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and selector.select(left):
            more = process.stdout.read1(4096)
            said += more
            found = re.findall(rb"listening on (\w+)://127\.0\.0\.1:(\d+)[^\n]*\n", said)
            if len(found) == count:
                return {scheme.decode(): int(port) for scheme, port in found}
            if not more:
                break
    last = (log.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
    raise BrokerError(f"the broker did not report its listeners: {last}")
