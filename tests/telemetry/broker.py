"""A broker that sends telemetry, and clients of it."""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("TAUTWIRE_TEST_BINARY", ROOT / "bin" / "tautwire"))
READY_TIMEOUT_S = 60
TIMEOUT_S = 30
TOKEN = "a-token-for-tests-0123456789"


class Broker:
    """Runs until it is closed. `settings` are lines of the table `[telemetry]`, `more` other lines of the file."""

    def __init__(
        self, settings: str, more: str = "", threads: int = 1, on_disk: bool = False, files: dict[str, str] | None = None
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tautwire-telemetry-")
        self.folder = Path(self._folder.name)
        self._more, self._threads = more, threads
        (self.folder / "token").write_text(TOKEN)
        (self.folder / "token").chmod(0o600)
        for name, content in (files or {}).items():
            (self.folder / name).write_text(content)
        self.write(settings)
        self._log = open(self.folder / "log", "w")
        state = ["--set", f"data.path={self.folder / 'state'}"] if on_disk else ["--memory"]
        arguments = ["serve", *state, "--config", str(self.folder / "tautwire.toml")]
        self._process = subprocess.Popen(
            [PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=self.folder
        )
        ports = self._ports()
        self.port, self._admin_port = ports["mqtt"], ports["http"]

    def write(self, settings: str) -> None:
        (self.folder / "tautwire.toml").write_text(
            f'listen = "127.0.0.1:0"\nthreads = {self._threads}\n{self._more}\n'
            f'[admin]\nlisten = "127.0.0.1:0"\ntoken_file = "token"\n[telemetry]\n{settings}\n'
        )

    def _ports(self) -> dict[str, int]:
        """Where it listens, by scheme, once it says so of the admin API, which comes last."""
        lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(lines,))
        self._reader.start()
        ports: dict[str, int] = {}
        while "http" not in ports:
            line = lines.get(timeout=READY_TIMEOUT_S)
            found = re.match(r"listening on (\w+)://.*:(\d+)", line)
            if found:
                ports[found[1]] = int(found[2])
            elif not line:
                raise RuntimeError(f"the broker has ended before it listened: {self.log()}")
        return ports

    def _read(self, lines: queue.Queue[str]) -> None:
        """Reads to the end, so that the broker can always write; an empty line is the end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            lines.put(line)
        lines.put("")

    def threads(self) -> list[Path]:
        """Files with their names."""
        return list(Path(f"/proc/{self._process.pid}/task").glob("*/comm"))

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def end(self) -> None:
        """Ends the broker in order, and waits for that."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(TIMEOUT_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()
        self._folder.cleanup()

    def ask(self, method: str, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._admin_port, timeout=TIMEOUT_S)
        fields = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json" if method == "POST" else "text/plain"}
        connection.request(method, path, headers=fields)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        if answer.status != 200:
            raise AssertionError(f"{method} {path}: {answer.status} {body}")
        return body

    def reload(self, settings: str) -> dict[str, object]:
        self.write(settings)
        return json.loads(self.ask("POST", "/config/reload"))

    def metric(self, name: str) -> int:
        found = re.search(rf"^tautwire_{name} (\d+)$", self.ask("GET", "/metrics"), re.M)
        assert found, name
        return int(found[1])

    def refuse_connects(self, count: int) -> None:
        """Each has a line in the log: a client identifier that no client may have."""
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S) as client:
                body = b"\x00\x04MQTT\x04\x00\x00\x3c\x00\x00"
                client.sendall(bytes([0x10, len(body)]) + body)
                client.recv(16)
