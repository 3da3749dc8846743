"""A collector of OTLP over HTTP that accepts only valid requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.message import Message

from judge import REQUESTS, judge

# The time limit for every step.
PATIENCE_S = 60


@dataclass
class Request:
    """A received request, with its time."""

    path: str
    fields: dict[str, str]
    body: str
    message: Message
    at_s: float


@dataclass
class Answer:
    status: int = 200
    body: bytes = b"{}"
    fields: dict[str, str] = field(default_factory=dict)


class Collector:
    """Runs until it is closed. `answer` returns the answer to a request; while it blocks, the broker waits."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.wrong: list[str] = []
        self.answer: Callable[[Request], Answer] = lambda _: Answer()
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wait_for(self, is_there: Callable[[list[Request]], bool], what: str) -> None:
        """Waits until the received requests match."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.wrong or is_there(self.requests), PATIENCE_S):
                raise AssertionError(f"timed out waiting for {what}; {len(self.requests)} requests received")
            if self.wrong:
                raise AssertionError(self.wrong)

    def of(self, path: str) -> list[Request]:
        with self._changed:
            return [request for request in self.requests if request.path == path]

    def _take(self, path: str, fields: dict[str, str], body: bytes) -> Answer:
        try:
            if fields.get("content-type") != "application/json" or path not in REQUESTS:
                raise ValueError(f"{path} with {fields.get('content-type')}")
            request = Request(path, fields, body.decode(), judge(path, body.decode()), time.monotonic())
        except Exception as error:  # Every error is a finding.
            with self._changed:
                self.wrong.append(f"{type(error).__name__}: {error}: {body[:300]!r}")
                self._changed.notify_all()
            return Answer(400)
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        return self.answer(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:
                    # A broker that exits, or is killed by the test, sends nothing more.
                    pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = collector._take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                try:
                    self.send_response(answer.status)
                    for name, value in answer.fields.items():
                        self.send_header(name, value)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)
                except OSError:
                    # The broker did not wait for it.
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        return Handler
