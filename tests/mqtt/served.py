"""A broker that runs until it is closed, on ports that the kernel picks, and requests to its admin API."""

from __future__ import annotations

import http.client
import os
import queue
import re
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("TAUTWIRE_TEST_BINARY", ROOT / "bin" / "tautwire"))
READY_TIMEOUT_S = 120
TIMEOUT_S = 90


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def media_type(self) -> str:
        return (self.headers.get("Content-Type") or "").split(";")[0]


class Served:
    """Runs `tautwire serve` with a configuration file, in its folder. It is ready when it has so many listeners."""

    def __init__(self, configuration: Path, listens: int, *arguments: str) -> None:
        self._log = configuration.with_name("log")
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", "--config", str(configuration), *arguments], stdout=subprocess.PIPE, stderr=log, text=True,
                cwd=configuration.parent,
            )
        lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(lines,))
        self._reader.start()
        # By scheme, in the order of the configuration; that of the admin API is `http`.
        self.ports: dict[str, list[int]] = {}
        try:
            while sum(map(len, self.ports.values())) < listens:
                self._note_port(lines.get(timeout=READY_TIMEOUT_S))
        except BaseException:
            self.close()
            raise

    def _note_port(self, line: str) -> None:
        if not line:
            raise RuntimeError(f"the broker exited before it listened: {self.log()}")
        if found := re.match(r"listening on (\w+)://.*:(\d+)", line):
            self.ports.setdefault(found[1], []).append(int(found[2]))

    def _read(self, lines: queue.Queue[str]) -> None:
        """Reads to the end, so that the broker never blocks; an empty line is the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.put(line)
        lines.put("")

    @property
    def port(self) -> int:
        """The port of the first listener for MQTT over TCP."""
        return self.ports["mqtt"][0]

    def log(self) -> str:
        return self._log.read_text()

    def end(self) -> None:
        """Stops the broker cleanly, and waits for that."""
        self.process.terminate()
        self.process.wait(TIMEOUT_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(self, method: str, path: str, body: bytes | None = None, fields: dict[str, str] | None = None) -> Answer:
        """Sends a request to the admin API."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["http"][0], timeout=TIMEOUT_S)
        connection.request(method, path, body, fields or {})
        response = connection.getresponse()
        # A stream does not end: its first line is enough.
        is_stream = response.headers.get_content_type() == "text/event-stream"
        answer = Answer(response.status, response.headers, response.readline() if is_stream else response.read())
        connection.close()
        return answer
