"""Connections of attackers and of well-behaved clients: many at once, driven by one loop, none of which ever blocks."""

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
# For one answer of a broker that has much to do.
ANSWER_TIMEOUT_S = 30
# What is waited for may come true by time alone, such as by a counter of the broker.
LOOK_AGAIN_S = 0.2
PIECES_PER_WRITE = 64


_everyone: weakref.WeakSet[Peer] = weakref.WeakSet()


class Unanswered(Exception):
    """What was waited for did not come in time, or the connection ended before."""


class Peer:
    """One connection, with what is still to be sent and what has come.

    `handler` is given each packet; without one they wait in `packets`. With `reading` off nothing is read from the socket;
    with `discarding` on, what comes is counted in `received_bytes` and thrown away.
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
        """Puts bytes in line; `drive` sends them."""
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
        """Writes what the socket takes; whether it took something."""
        moved = False
        while self._outgoing:
            try:
                sent = self.socket.sendmsg(itertools.islice(self._outgoing, PIECES_PER_WRITE))
            except BlockingIOError:
                return moved
            except OSError:
                # The broker has gone; what it said before is still to be read.
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
        """Reads what is there, once; whether there was something."""
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
        """The MQTT in what has come."""
        return data

    def _handle(self, taken: Packet) -> None:
        if self.handler:
            self.handler(taken)
        else:
            self.packets.append(taken)

    def expect(self, packet_type: int, within_s: float = ANSWER_TIMEOUT_S) -> Packet:
        """The next packet of this type; others that come before it are passed over."""
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
        """Returns when the broker has done with all that was sent before."""
        self.ask(wire.PING, wire.PINGRESP, within_s)


def drive(peers: Iterable[Peer], until: Callable[[], bool], within_s: float, idle_s: float | None = None) -> bool:
    """Reads and writes until `until` holds; `False` where it did not within the time, or after `idle_s` without a byte."""
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
                # Closing the socket has taken it out of the kernel's set.
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
    """Sends all that is in line, or as much as the broker takes."""
    everyone = list(peers)
    return drive(everyone, lambda: all(peer.has_sent() or peer.closed for peer in everyone), within_s, idle_s)


def connected(
    port: int, client_id: str, *, version: int = 5, clean: bool = True, expiry_s: int = 0,
    receive_maximum: int | None = None,
) -> Peer:
    """A client that the broker has let in."""
    peer = Peer(port, version)
    connack = peer.ask(
        wire.connect(client_id, version=version, clean=clean, expiry_s=expiry_s, receive_maximum=receive_maximum),
        wire.CONNACK,
    )
    if connack.body[1] != wire.SUCCESS:
        raise Unanswered(f"{client_id} was refused with {connack.body[1]:#04x}")
    return peer


def subscribed(peer: Peer, filters: list[str], qos: int = 1) -> Peer:
    """The same client, with subscriptions that the broker has granted."""
    suback = peer.ask(wire.subscribe(filters, version=peer.version, qos=qos), wire.SUBACK)
    if any(code >= wire.FIRST_ERROR for code in wire.suback_codes(suback, peer.version)):
        raise Unanswered("a subscription that fits was refused")
    return peer


def goodbye(peer: Peer) -> None:
    """Leaves with DISCONNECT, and waits until the broker has closed the connection."""
    peer.send(wire.BYE)
    peer.discarding = True
    drive([peer], lambda: peer.closed, ANSWER_TIMEOUT_S)
    peer.close()


def close_all() -> None:
    """Cuts all connections that there still are: a broker that ends waits a while for those who do not go."""
    for peer in list(_everyone):
        peer.close()


def absent_session(port: int, client_id: str, filters: list[str], qos: int = 1, version: int = 5) -> None:
    """Leaves a session behind that subscribes to `filters` and outlives its connection."""
    # In 3.1.1 a session without Clean Session stays; in 5.0 its expiry says so.
    peer = connected(port, client_id, version=version, clean=False, expiry_s=wire.FOR_EVER_S if version == 5 else 0)
    goodbye(subscribed(peer, filters, qos))
