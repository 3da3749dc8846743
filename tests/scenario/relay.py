"""A TCP relay in front of a broker: the address stays the same while the broker is killed, restarted, and made to refuse
clients."""

from __future__ import annotations

import contextlib
import socket
import threading

from ack_order import Acknowledgements

CHUNK_BYTES = 65536
CONNECT_TIMEOUT_S = 60
SENT_TIMEOUT_S = 90


class Relay:
    """Refuses connections until it has a target."""

    def __init__(self) -> None:
        self._socket = _bound(0)
        self.port = int(self._socket.getsockname()[1])
        self._target: int | None = None
        # Pairs of sockets: the client's, the broker's.
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        # Set while the broker's data is forwarded.
        self._answers = threading.Event()
        self._answers.set()
        # The clients' data since answers are held back.
        self._sent = bytearray()
        self._news = threading.Condition()
        self._watched: Acknowledgements | None = None

    def forward(self, port: int) -> None:
        """Accepts connections from now on, and forwards them to a port of this machine."""
        self._answers.set()
        if self._target is None:
            self._socket.listen()
            threading.Thread(target=self._accept, args=(self._socket,), daemon=True).start()
        self._target = port

    def refuse(self) -> None:
        """Closes all connections, and refuses new ones, like a port without a listener."""
        if self._target is not None:
            self._target = None
            # Closing the listener does not wake up accept().
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = _bound(self.port)
        self.cut()

    def hold_answers(self) -> None:
        """Holds back the broker's data until `forward`."""
        with self._news:
            self._sent.clear()
        self._answers.clear()

    def await_sent(self, text: bytes) -> None:
        """Waits until the clients have sent this, since answers are held back."""
        with self._news:
            if not self._news.wait_for(lambda: text in self._sent, SENT_TIMEOUT_S):
                raise TimeoutError(f"{text!r} was not sent within {SENT_TIMEOUT_S} s")

    def watch(self) -> Acknowledgements:
        """Returns the acknowledgements of the next connection, which must be the only one."""
        self._watched = Acknowledgements()
        return self._watched

    def cut(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for each in pair:
                _end(each)

    def close(self) -> None:
        self.refuse()
        self._answers.set()
        self._socket.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            target = self._target
            try:
                if target is None:
                    raise OSError("no target")
                broker = socket.create_connection(("127.0.0.1", target), timeout=CONNECT_TIMEOUT_S)
            except OSError:
                _end(client)
                continue
            broker.settimeout(None)
            for each in (client, broker):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.append((client, broker))
            threading.Thread(target=self._pump, args=(client, broker, None), daemon=True).start()
            threading.Thread(target=self._pump, args=(broker, client, self._answers), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, gate: threading.Event | None) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                if self._watched is not None:
                    self._watched.passes(chunk, is_of_client=gate is None)
                if gate is not None:
                    gate.wait()
                elif not self._answers.is_set():
                    with self._news:
                        self._sent += chunk
                        self._news.notify_all()
                target.sendall(chunk)
        _end(source)
        _end(target)


def _bound(port: int) -> socket.socket:
    """Returns a bound port that refuses connections until it listens."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
