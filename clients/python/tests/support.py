"""A broker for each test class, and a relay in front of it that cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "clients/python"
BROKER = Path(os.environ.get("TAUTWIRE_BIN", ROOT / "bin/tautwire"))
PATIENCE_S = 20
"""The timeout after which a test fails."""


class Broker:
    """bin/tautwire on a port that the kernel chooses, in memory or with a data directory."""

    def __init__(self, *options: str, listen: str = "127.0.0.1:0", data: Path | None = None) -> None:
        keep = ["--memory"] if data is None else ["--set", f"data.path={data}"]
        command = [str(BROKER), "serve", *keep, "--listen", listen, *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line.startswith("listening on "):
            raise AssertionError(f"the broker did not start: {line}")
        self.address = line.removeprefix("listening on ")
        self.host, _, port = self.address.partition("://")[2].rpartition(":")
        self.port = int(port.partition("/")[0])

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Patient(unittest.IsolatedAsyncioTestCase):
    """Tests on an event loop."""

    async def asyncSetUp(self) -> None:
        # In debug mode asyncio reports slow steps, which are normal on a busy machine.
        asyncio.get_running_loop().slow_callback_duration = PATIENCE_S


class WithBroker(Patient):
    """Tests that share a broker."""

    broker: Broker
    options: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = Broker(*cls.options)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.broker.stop()

    @property
    def address(self) -> str:
        return self.broker.address

    @property
    def topic(self) -> str:
        """A unique topic for this test."""
        return f"test/{self.id()}"


class Relay:
    """Forwards bytes to the broker and back, until it cuts all connections."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pipes: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.address = ""
        self.connections = 0
        self.is_mute = False
        """Drops the bytes from the broker."""

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"mqtt://{host}:{port}"
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()

    def lead_to(self, broker: Broker) -> None:
        """Forwards new connections to this port."""
        self._broker = broker

    def cut(self) -> None:
        for writer in self._pipes:
            writer.transport.abort()
        self._pipes.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            there_reader, there = await asyncio.open_connection(self._broker.host, self._broker.port)
        except ConnectionError:
            writer.transport.abort()
            return
        self._pipes |= {writer, there}
        await asyncio.gather(self._pour(reader, there, False), self._pour(there_reader, writer, True))

    async def _pour(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_back: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if not (is_back and self.is_mute):
                    writer.write(data)
        writer.close()


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """A port with a full accept queue: connection attempts hang."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(2):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield int(listening.getsockname()[1])


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def soon(awaitable):
    """Fails after a timeout instead of waiting forever."""
    return asyncio.wait_for(awaitable, PATIENCE_S)
