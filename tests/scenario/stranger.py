"""A port with a listener other than the broker."""

from __future__ import annotations

import contextlib
import socket
import threading


class Stranger:
    """Sends the same to every client that has sent something, and keeps the connection open until the client closes it. With
    `then`, only to the first, and the next of `then` each time that client has sent more."""

    def __init__(self, says: bytes, then: tuple[bytes, ...]) -> None:
        self._says, self._then = says, then
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # Closing the listener does not wake up accept().
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
                answers = () if self._then and len(self._clients) > 1 else (self._says, *self._then)
                threading.Thread(target=self._answer, args=(client, answers), daemon=True).start()

    def _answer(self, client: socket.socket, answers: tuple[bytes, ...]) -> None:
        with client, contextlib.suppress(OSError):
            for answer in answers:
                if client.recv(4096):
                    client.sendall(answer)
            while client.recv(4096):
                pass
