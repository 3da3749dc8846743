"""A broker that sends telemetry."""

from __future__ import annotations

import json
import re
import socket
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "mqtt"))

import wire  # noqa: E402
from served import TIMEOUT_S, Served  # noqa: E402

TOKEN = "a-token-for-tests-0123456789"


class Broker(Served):
    """`settings` are lines of the table `[telemetry]`, `more` are other lines of the file."""

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
        state = ["--set", f"data.path={self.folder / 'state'}"] if on_disk else ["--memory"]
        super().__init__(self.write(settings), 2, *state)

    def write(self, settings: str) -> Path:
        file = self.folder / "tautwire.toml"
        file.write_text(
            f'listen = "127.0.0.1:0"\nthreads = {self._threads}\n{self._more}\n'
            f'[admin]\nlisten = "127.0.0.1:0"\ntoken_file = "token"\n[telemetry]\n{settings}\n'
        )
        return file

    def close(self) -> None:
        super().close()
        self._folder.cleanup()

    def threads(self) -> list[Path]:
        """Returns the files with their names."""
        return list(Path(f"/proc/{self.process.pid}/task").glob("*/comm"))

    def told(self, method: str, path: str) -> str:
        """Returns the answer of the admin API."""
        accepted = "application/json" if method == "POST" else "text/plain"
        answer = self.ask(method, path, fields={"Authorization": f"Bearer {TOKEN}", "Accept": accepted})
        if answer.status != 200:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.body!r}")
        return answer.body.decode()

    def reload(self, settings: str) -> dict[str, object]:
        self.write(settings)
        return json.loads(self.told("POST", "/config/reload"))

    def metric(self, name: str) -> int:
        found = re.search(rf"^tautwire_{name} (\d+)$", self.told("GET", "/metrics"), re.M)
        assert found, name
        return int(found[1])

    def refuse_connects(self, count: int) -> None:
        """Each has a line in the log: an invalid client identifier."""
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S) as client:
                client.sendall(wire.connect("", version=4, clean=False))
                client.recv(16)
