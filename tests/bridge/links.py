"""Bad links: a relay that is slow, half open, or resets connections in the middle of a packet."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time

import relay

STEP_S = 0.05
# Linux closes such a socket with RST.
LINGER_0 = struct.pack("ii", 1, 0)
BUFFER_BYTES = 32_768


class Link(relay.Relay):
    """A relay between a bridge and a broker."""

    def __init__(self) -> None:
        super().__init__()
        # Bytes per second in each direction; None for no limit.
        self.rate: int | None = None
        # Cleared while nothing passes, not even the end of a connection.
        self._open = threading.Event()
        self._open.set()
        # Bytes after which connections are reset.
        self._reset_after: int | None = None
        self._passed = 0
        self._count = threading.Condition()
        self.accepted = 0
        # Cleared while the data of bridges does not pass.
        self._client_open = threading.Event()
        self._client_open.set()

    def freeze(self) -> None:
        """Nothing passes any longer, and the sockets stay open."""
        self._open.clear()

    def freeze_answers(self) -> None:
        """Nothing passes from the bridge to the broker any longer."""
        self._client_open.clear()

    def thaw(self) -> None:
        self._open.set()
        self._client_open.set()

    def reset_after(self, count: int) -> None:
        """Resets all connections once so many more bytes have passed."""
        with self._count:
            self._reset_after = self._passed + count

    def await_reset(self, timeout_s: float = 60) -> None:
        with self._count:
            if not self._count.wait_for(lambda: self._reset_after is None, timeout_s):
                raise AssertionError("so many bytes did not pass")

    def passed(self) -> int:
        """How many bytes have passed in both directions."""
        return self._passed

    def close(self) -> None:
        self.thaw()
        super().close()

    def _pump(self, source: socket.socket, target: socket.socket, gate: threading.Event | None) -> None:
        if gate is None:
            self.accepted += 1
        with contextlib.suppress(OSError, ValueError):
            while chunk := self._read(source):
                self._open.wait()
                if gate is None:
                    self._client_open.wait()
                target.sendall(self._counted(chunk))
        self._open.wait()
        relay._end(source)
        relay._end(target)

    def _read(self, source: socket.socket) -> bytes:
        # A socket that is closed while a thread reads from it stays open until then, so no thread reads for long.
        while not select.select([source], [], [], STEP_S)[0]:
            pass
        if self.rate is None:
            return source.recv(relay.CHUNK_BYTES)
        source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        chunk = source.recv(max(1, int(self.rate * STEP_S)))
        time.sleep(len(chunk) / self.rate)
        return chunk

    def _counted(self, chunk: bytes) -> bytes:
        """Counts bytes, and resets the connections when there are enough."""
        with self._count:
            if self._reset_after is not None and self._passed + len(chunk) >= self._reset_after:
                part = chunk[: self._reset_after - self._passed]
                self._passed += len(part)
                self._reset_after = None
                self._reset_all()
                self._count.notify_all()
                return part
            self._passed += len(chunk)
        return chunk

    def _reset_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
                    each.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
