"""A port at which something else listens than the broker of this repository."""

from __future__ import annotations

import contextlib
import socket
import threading


class Stranger:
    """Says the same to everybody who has said something, or only to the first, and keeps the connection open."""

    def __init__(self, says: bytes, once: bool) -> None:
        self._says, self._once = says, once
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # Closing alone does not wake who accepts.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for client in self._clients:
            client.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self._clients.append(client)
                says = b"" if self._once and len(self._clients) > 1 else self._says
                threading.Thread(target=self._answer, args=(client, says), daemon=True).start()

    @staticmethod
    def _answer(client: socket.socket, says: bytes) -> None:
        with contextlib.suppress(OSError):
            if client.recv(4096):
                client.sendall(says)
