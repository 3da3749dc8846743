"""All connections in one loop: nothing blocks, and every packet is dispatched as soon as it is complete."""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Callable

import wire

READ_BYTES = 1 << 16


class Connection:
    """One connection of one client: `on_packet` for each packet, `on_end` once when it has ended, or was refused."""

    def __init__(
        self, loop: Loop, address: tuple[str, int], on_packet: Callable[[wire.Packet], None], on_end: Callable[[], None]
    ) -> None:
        self._loop, self._on_packet, self._on_end = loop, on_packet, on_end
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.descriptor = self._socket.fileno()
        if (refused := self._socket.connect_ex(address)) not in (0, errno.EINPROGRESS, errno.ECONNREFUSED):
            self._socket.close()
            raise OSError(refused, f"cannot connect to {address}")
        self.is_open = True
        self._incoming, self._outgoing = bytearray(), bytearray()
        self._waits_for_room = False
        loop.add(self)

    def send(self, data: bytes) -> None:
        if self.is_open:
            self._outgoing += data
            self._loop.fresh.add(self)

    def close(self) -> None:
        """Closes it without DISCONNECT or `on_end`."""
        if self.is_open:
            self.is_open = False
            self._loop.remove(self)
            self._socket.close()

    def flush(self) -> None:
        while self._outgoing and self.is_open:
            try:
                sent = self._socket.send(self._outgoing)
            except BlockingIOError:
                break
            except OSError:
                # The broker's last packets are still to be read.
                self._outgoing.clear()
                break
            del self._outgoing[:sent]
        waits = bool(self._outgoing) and self.is_open
        if waits != self._waits_for_room and self.is_open:
            self._waits_for_room = waits
            self._loop.watch(self, waits)

    def read(self) -> bool:
        """Reads once; returns whether there was data."""
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._incoming += data
        while self.is_open and (taken := wire.take(self._incoming)):
            self._on_packet(taken)
        if not data and self.is_open:
            self.close()
            self._on_end()
        return bool(data)

    def read_to_end(self) -> None:
        """Reads the rest of the socket after the broker has exited."""
        while self.is_open and self.read():
            pass


class Loop:
    """Connections, to one broker or several."""

    def __init__(self) -> None:
        self.fresh: set[Connection] = set()
        self._poll = select.epoll()
        self._open: dict[int, Connection] = {}

    def add(self, connection: Connection) -> None:
        self._open[connection.descriptor] = connection
        self._poll.register(connection.descriptor, select.EPOLLIN)

    def remove(self, connection: Connection) -> None:
        del self._open[connection.descriptor]
        self._poll.unregister(connection.descriptor)
        self.fresh.discard(connection)

    def watch(self, connection: Connection, for_room: bool) -> None:
        self._poll.modify(connection.descriptor, select.EPOLLIN | (select.EPOLLOUT if for_room else 0))

    def turn(self, wait_s: float) -> bool:
        """Sends queued data, then waits for the sockets once; returns whether there was data."""
        while self.fresh:
            self.fresh.pop().flush()
        moved = False
        for descriptor, events in self._poll.poll(wait_s):
            connection = self._open.get(descriptor)
            if connection and events & select.EPOLLOUT:
                connection.flush()
            if connection and connection.is_open and events & ~select.EPOLLOUT:
                moved |= connection.read()
        return moved

    def end(self) -> None:
        """Reads the rest of the data, and closes everything."""
        for connection in list(self._open.values()):
            connection.read_to_end()
        for connection in list(self._open.values()):
            connection.close()
        self._poll.close()
