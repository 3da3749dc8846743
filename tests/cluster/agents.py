"""Starts the client programs, and records their common history."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from judge import Event
from roles import CLIENTS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Path of the virtual environment in which the interop tests install paho-mqtt.
VENV_PYTHON = ROOT / ".venv" / "bin" / "python"
END_WAIT_S = 10


class AgentError(Exception):
    """A program has exited unexpectedly."""


class Record:
    """All events, in a file and in memory."""

    def __init__(self, path: Path) -> None:
        self.events: list[Event] = []
        self._file = open(path, "w")
        self._lock = threading.Lock()

    def take(self, line: str) -> None:
        event = json.loads(line)
        with self._lock:
            self._file.write(line)
            self.events.append(event)

    def note(self, who: str, what: str, **more: object) -> None:
        self.take(json.dumps({"at": time.monotonic_ns(), "who": who, "what": what, **more}) + "\n")

    def copy(self) -> list[Event]:
        with self._lock:
            return list(self.events)

    def close(self) -> None:
        with self._lock:
            self._file.close()


class Agents:
    """One process for each program. Its output goes into the record."""

    def __init__(self, folder: Path, brokers: list[dict], seed: int, record: Record) -> None:
        self._record, self._is_ending = record, False
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []
        self.errors: list[str] = []
        for program, clients in CLIENTS.items():
            config = folder / f"{program}.json"
            config.write_text(json.dumps({"seed": seed, "brokers": brokers, "clients": clients}))
            with open(folder / f"{program}.log", "wb") as log:
                self._processes[program] = subprocess.Popen(
                    [*_command(program), str(config)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
                )
        for program, process in self._processes.items():
            reader = threading.Thread(target=self._read, args=(program, process), daemon=True)
            reader.start()
            self._readers.append(reader)

    def _read(self, program: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._record.take(line)
        if not self._is_ending:
            self.errors.append(f"{program} exited with {process.wait()}")

    def tell(self, command: str) -> None:
        for program, process in self._processes.items():
            assert process.stdin is not None
            try:
                process.stdin.write(command + "\n")
                process.stdin.flush()
            except OSError:
                raise AgentError(f"{program} no longer reads commands") from None

    def end(self) -> None:
        self._is_ending = True
        for process in self._processes.values():
            process.kill()
            process.wait(END_WAIT_S)
        for reader in self._readers:
            reader.join(END_WAIT_S)


def _command(program: str) -> list[str]:
    folder = HERE / "clients"
    return {
        "ours": [sys.executable, "-B", str(folder / "own.py")],
        "paho": [str(VENV_PYTHON), "-B", str(folder / "paho_python.py")],
        "mqttjs": ["node", str(folder / "mqttjs.mjs")],
    }[program]
