"""Connections of attackers and of well-behaved clients: many at once, driven by one non-blocking loop."""

from __future__ import annotations

import itertools
import select
import socket
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable

import wire
from wire import Packet

READ_BYTES = 1 << 18
CONNECT_TIMEOUT_S = 20
# The time limit for one answer of a busy broker.
ANSWER_TIMEOUT_S = 30
# Some conditions become true without any packet, such as a counter of the broker.
LOOK_AGAIN_S = 0.2
PIECES_PER_WRITE = 64


_everyone: weakref.WeakSet[Peer] = weakref.WeakSet()


class Unanswered(Exception):
    """A packet did not arrive in time, or the connection ended before."""


class Peer:
    """One connection, with its pending output and received packets.

    `handler` gets each packet; without one they are stored in `packets`. With `reading` off nothing is read from the socket; with
    `discarding` on, received bytes are only counted in `received_bytes`.
    """

    def __init__(self, port: int, version: int = 5) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_TIMEOUT_S)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.descriptor = self.socket.fileno()
        self.version = version
        self.handler: Callable[[Packet], None] | None = None
        self.packets: deque[Packet] = deque()
        self.reading = True
        self.discarding = False
        self.received_bytes = 0
        self.closed = False
        _everyone.add(self)
        self._outgoing: deque[memoryview] = deque()
        self._incoming = bytearray()

    def send(self, *pieces: bytes | memoryview) -> None:
        """Queues bytes; `drive` sends them."""
        self._outgoing.extend(memoryview(piece) for piece in pieces if piece)

    def has_sent(self) -> bool:
        return not self._outgoing

    def close(self) -> None:
        """Cuts the connection, without DISCONNECT."""
        self.closed = True
        self._outgoing.clear()
        self.socket.close()

    def wanted_events(self) -> int:
        if self.closed:
            return 0
        return (select.EPOLLIN if self.reading else 0) | (select.EPOLLOUT if self._outgoing else 0)

    def write(self) -> bool:
        """Writes as much as the socket accepts; returns whether it accepted any."""
        moved = False
        while self._outgoing:
            try:
                sent = self.socket.sendmsg(itertools.islice(self._outgoing, PIECES_PER_WRITE))
            except BlockingIOError:
                return moved
            except OSError:
                # The broker has closed; its last data is still to be read.
                self._outgoing.clear()
                return moved
            moved = True
            while sent:
                first = self._outgoing[0]
                if sent < len(first):
                    self._outgoing[0] = first[sent:]
                    break
                sent -= len(first)
                self._outgoing.popleft()
        return moved

    def read(self) -> bool:
        """Reads once; returns whether there was data."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return True
        self.received_bytes += len(data)
        if not self.discarding:
            self._incoming += self._opened(data)
            while taken := wire.take(self._incoming):
                self._handle(taken)
        return True

    def _opened(self, data: bytes) -> bytes:
        """Returns the MQTT bytes in the received data."""
        return data

    def _handle(self, taken: Packet) -> None:
        if self.handler:
            self.handler(taken)
        else:
            self.packets.append(taken)

    def expect(self, packet_type: int, within_s: float = ANSWER_TIMEOUT_S) -> Packet:
        """Returns the next packet of this type; earlier others are ignored."""
        found: list[Packet] = []

        def has_come() -> bool:
            while self.packets and not found:
                taken = self.packets.popleft()
                if taken.type == packet_type:
                    found.append(taken)
            return bool(found) or self.closed

        drive([self], has_come, within_s)
        if not found:
            what = "the connection ended" if self.closed else f"{within_s:.0f} s passed"
            raise Unanswered(f"{what} before a packet of type {packet_type}")
        return found[0]

    def ask(self, data: bytes, answer: int, within_s: float = ANSWER_TIMEOUT_S) -> Packet:
        self.send(data)
        return self.expect(answer, within_s)

    def settle(self, within_s: float = ANSWER_TIMEOUT_S) -> None:
        """Returns when the broker has handled all earlier packets."""
        self.ask(wire.PING, wire.PINGRESP, within_s)


def drive(peers: Iterable[Peer], until: Callable[[], bool], within_s: float, idle_s: float | None = None) -> bool:
    """Reads and writes until `until` returns true; returns `False` on timeout, or after `idle_s` without a byte."""
    everyone = [peer for peer in peers if not peer.closed]
    by_descriptor = {peer.descriptor: peer for peer in everyone}
    watched = {peer.descriptor: 0 for peer in everyone}
    deadline = time.monotonic() + within_s
    last_moved = time.monotonic()
    with select.epoll() as poll:

        def watch(peer: Peer) -> None:
            wanted, before = peer.wanted_events(), watched[peer.descriptor]
            if wanted == before:
                return
            watched[peer.descriptor] = wanted
            if peer.closed:
                # Closing the socket has removed it from the kernel's set.
                return
            if not before:
                poll.register(peer.descriptor, wanted)
            elif wanted:
                poll.modify(peer.descriptor, wanted)
            else:
                poll.unregister(peer.descriptor)

        while not until():
            for peer in everyone:
                watch(peer)
            now = time.monotonic()
            ends = min(deadline, last_moved + idle_s) if idle_s is not None else deadline
            if now >= ends:
                return False
            for descriptor, events in poll.poll(min(ends - now, LOOK_AGAIN_S)):
                peer = by_descriptor[descriptor]
                moved = False
                if events & select.EPOLLOUT and not peer.closed:
                    moved |= peer.write()
                if events & ~select.EPOLLOUT and not peer.closed:
                    moved |= peer.read()
                if moved:
                    last_moved = time.monotonic()
        return True


def send_all(peers: Iterable[Peer], within_s: float = ANSWER_TIMEOUT_S, idle_s: float | None = None) -> bool:
    """Sends all queued bytes, or as many as the broker accepts."""
    everyone = list(peers)
    return drive(everyone, lambda: all(peer.has_sent() or peer.closed for peer in everyone), within_s, idle_s)


def connected(
    port: int, client_id: str, *, version: int = 5, clean: bool = True, expiry_s: int = 0,
    receive_maximum: int | None = None,
) -> Peer:
    """Returns a client that the broker has accepted."""
    peer = Peer(port, version)
    connack = peer.ask(
        wire.connect(client_id, version=version, clean=clean, expiry_s=expiry_s, receive_maximum=receive_maximum),
        wire.CONNACK,
    )
    if connack.body[1] != wire.SUCCESS:
        raise Unanswered(f"{client_id} was refused with {connack.body[1]:#04x}")
    return peer


def subscribed(peer: Peer, filters: list[str], qos: int = 1) -> Peer:
    """Returns the same client, with granted subscriptions."""
    suback = peer.ask(wire.subscribe(filters, version=peer.version, qos=qos), wire.SUBACK)
    if any(code >= wire.FIRST_ERROR for code in wire.suback_codes(suback, peer.version)):
        raise Unanswered("a valid subscription was refused")
    return peer


def goodbye(peer: Peer) -> None:
    """Sends DISCONNECT, and waits until the broker has closed the connection."""
    peer.send(wire.BYE)
    peer.discarding = True
    drive([peer], lambda: peer.closed, ANSWER_TIMEOUT_S)
    peer.close()


def close_all() -> None:
    """Closes all open connections: a broker that is stopped would wait for them."""
    for peer in list(_everyone):
        peer.close()


def absent_session(port: int, client_id: str, filters: list[str], qos: int = 1, version: int = 5) -> None:
    """Leaves an offline session that subscribes to `filters`."""
    # In 3.1.1 a session without Clean Session persists; in 5.0 its expiry interval determines that.
    peer = connected(port, client_id, version=version, clean=False, expiry_s=wire.FOR_EVER_S if version == 5 else 0)
    goodbye(subscribed(peer, filters, qos))
