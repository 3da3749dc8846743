"""Many connections at once, and slow or silent ones: the memory they take, and the delay for others."""

from __future__ import annotations

import itertools
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator

import messages
import peer
import tls
import wire
from arena import MIB, Arena, Failed, case
from peer import Peer, Unanswered, drive

KIB = 1 << 10
# The number of clients before memory is measured: tables have grown, and code is loaded.
WARM = 50
# How soon memory must return to its old value, and the tolerance.
BACK_WITHIN_S = 10.0
BACK_MAX = 1.10
STRANGER_WITHIN_S = 4.0
AT_REST_S = 2.0
LOOK_S = 0.05
# Short-lived connections besides the counted ones.
FEW = 16


def opened(port: int, first: bytes = b"") -> socket.socket:
    """Opens a connection that sends `first`, and is not read from."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=peer.CONNECT_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if first:
            connection.send(first)
    except OSError:
        # It was closed on arrival, which is an answer, too.
        pass
    connection.setblocking(False)
    return connection


def close_all(connections: list[socket.socket]) -> None:
    for connection in connections:
        connection.close()


def cut_off(connections: list[socket.socket], within_s: float) -> int:
    """Returns how many of them the broker has closed, when all are or on timeout. Their data is ignored."""
    left = {connection.fileno(): connection for connection in connections}
    deadline = time.monotonic() + within_s
    with select.epoll() as poll:
        for descriptor in left:
            poll.register(descriptor, select.EPOLLIN)
        while left and time.monotonic() < deadline:
            for descriptor, _ in poll.poll(LOOK_S):
                try:
                    ended = not left[descriptor].recv(1 << 16)
                except BlockingIOError:
                    continue
                except OSError:
                    ended = True
                if ended:
                    poll.unregister(descriptor)
                    del left[descriptor]
    return len(connections) - len(left)


def served_by_tls(arena: Arena, trusting: ssl.SSLContext, name: str, within_s: float = STRANGER_WITHIN_S) -> bool:
    """Whether a well-behaved client is accepted. It retries after a refusal, as clients do."""
    deadline = time.monotonic() + within_s
    while (left := deadline - time.monotonic()) > 0:
        try:
            tls.connected(arena.broker.ports["mqtts"], trusting, name, left).close()
            return True
        except (Unanswered, OSError):
            time.sleep(LOOK_S)
    return False


# Handshake storms.


def tls_storm(arena: Arena, whole: int, begun: int, at_once: int) -> None:
    """`whole` clients connect and stay; besides them, `begun` clients never continue the handshake."""
    port, trusting = arena.broker.ports["mqtts"], tls.context(arena.authority)
    hello = tls.client_hello(trusting)
    half: list[socket.socket] = []
    clients: list[Peer] = []
    served = 0
    refused = 0
    started = time.monotonic()
    while served + refused < whole:
        some: list[Peer] = []
        for _ in range(min(at_once, whole - served - refused)):
            client = tls.TlsPeer(port, trusting)
            client.send(wire.connect(f"storm-{len(clients) + len(some)}"))
            some.append(client)
            for _ in range(min(begun * len(some) // at_once, begun) - len(half) if not clients else 0):
                half.append(opened(port, hello))
        drive(some, lambda: all(client.packets or client.closed for client in some), peer.ANSWER_TIMEOUT_S)
        served += sum(1 for client in some if client.packets)
        refused += sum(1 for client in some if not client.packets)
        clients += some
    arena.note(f"{served} of {whole} clients were accepted within {time.monotonic() - started:.1f} s, "
               f"beside {len(half)} incomplete handshakes")
    arena.expect(served > 0, "no client was accepted")
    arena.expect(served_by_tls(arena, trusting, "stranger"), "a client after the storm was not accepted")
    close_all(half)


@case("500 clients connect over TLS, and 500 more start a handshake and stop", limit_mib=64, timed=True, short=True, schemes=("mqtts",))
def tls_storm_short(arena: Arena) -> None:
    tls_storm(arena, 500, 500, at_once=250)


@case("10,000 clients connect over TLS, and 5,000 more start a handshake and stop", limit_mib=256, timed=True, schemes=("mqtts",))
def tls_storm_long(arena: Arena) -> None:
    tls_storm(arena, 10_000, 5_000, at_once=500)


# Slow connections.


def slow_loris(arena: Arena, port: int, count: int, said: bytes, timeout_s: float, is_served: Callable[[str], bool]) -> None:
    """`count` connections send their bytes one by one, more slowly than allowed."""
    begun = time.monotonic()
    attackers = [opened(port, said[:1]) for _ in range(count)]
    sent = 1
    while time.monotonic() < begun + timeout_s - 1:
        arena.expect(is_served(f"stranger-{sent}"), f"no other client is served beside {count} slow clients")
        for attacker in attackers:
            try:
                attacker.send(said[sent : sent + 1])
            except OSError:
                # It has already been closed.
                pass
        sent += 1
        time.sleep(0.5)
    ended = cut_off(attackers, timeout_s + 5)
    arena.note(f"{count} connections sent {sent} bytes each; all were closed {time.monotonic() - begun:.1f} s after the first connected")
    arena.expect(ended == count, f"{count - ended} of {count} slow connections are still open {timeout_s + 5:.0f} s later")
    close_all(attackers)
    arena.expect(is_served("last"), "no client is served after they were closed")


@case("6,000 connections send their ClientHello byte by byte", limit_mib=64, timed=True, schemes=("mqtts",), settings={
    "mqtt.connect_timeout_s": 5,
})
def tls_slow_loris(arena: Arena) -> None:
    trusting = tls.context(arena.authority)
    slow_loris(arena, arena.broker.ports["mqtts"], 6_000, tls.client_hello(trusting), 5,
               lambda name: served_by_tls(arena, trusting, name))


UPGRADE = b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"


def served_plainly(arena: Arena, name: str) -> bool:
    try:
        peer.connected(arena.port, name).close()
        return True
    except (Unanswered, OSError):
        return False


@case("6,000 connections send a WebSocket handshake byte by byte", limit_mib=64, timed=True, schemes=("ws",), settings={
    "mqtt.connect_timeout_s": 5,
})
def websocket_slow_loris(arena: Arena) -> None:
    slow_loris(arena, arena.broker.ports["ws"], 6_000, UPGRADE, 5, lambda name: served_plainly(arena, name))


@case("6,000 connections send a CONNECT byte by byte over WebSocket, and 6,000 over TCP", limit_mib=64, timed=True, schemes=("ws",),
      settings={"mqtt.connect_timeout_s": 5})
def connect_slow_loris(arena: Arena) -> None:
    connect = wire.connect("slow-" + "x" * 100)
    # One frame, masked with zeros.
    frame = bytes([0x82, 0x80 | len(connect)]) + bytes(4) + connect
    slow_loris(arena, arena.port, 6_000, connect, 5, lambda name: served_plainly(arena, name))
    upgraded = [opened(arena.broker.ports["ws"], UPGRADE + frame[:20]) for _ in range(6_000)]
    ended = cut_off(upgraded, 10)
    arena.expect(ended == len(upgraded), f"{len(upgraded) - ended} connections with half a CONNECT are still open after 10 s")
    close_all(upgraded)


# Memory after a storm.


def bad_and_good(arena: Arena) -> Iterator[Callable[[int], socket.socket]]:
    """Yields ways to connect, repeatedly: every other one is valid."""
    plain, secured = arena.broker.ports["mqtt"], arena.broker.ports["mqtts"]
    trusting = tls.context(arena.authority)
    hello = tls.client_hello(trusting)
    whole = wire.connect("cut-in-the-middle")

    def good(number: int) -> socket.socket:
        return opened(plain, wire.connect(f"good-{number}"))

    def wrong_password(number: int) -> socket.socket:
        return opened(plain, wire.connect(f"wrong-{number}", login=("user", "wrong")))

    bad = (
        wrong_password,
        lambda _: opened(plain, b"GET / HTTP/1.1\r\n\r\n"),
        lambda _: opened(plain),
        lambda _: opened(plain, whole[: len(whole) // 2]),
        lambda _: opened(secured, b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00"),
        lambda _: opened(secured, hello[: len(hello) // 2]),
        lambda _: opened(secured, hello),
    )
    for each in itertools.cycle(bad):
        yield good
        yield each


def storm(arena: Arena, count: int, at_once: int) -> None:
    ways, others = bad_and_good(arena), arena.broker.descriptors()
    for first in range(0, count, at_once):
        some = [next(ways)(number) for number in range(first, min(first + at_once, count))]
        # The first ones have been answered when a later one is.
        messages.stranger_is_served(arena, "in the storm")
        close_all(some)
    settle(arena, others)


def settle(arena: Arena, others: int) -> None:
    """Returns when the broker has noticed the closed connections, and has closed its own sockets."""
    deadline = time.monotonic() + peer.ANSWER_TIMEOUT_S
    while arena.broker.descriptors() > others + FEW and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    messages.stranger_is_served(arena, "after the storm")


def at_rest(arena: Arena) -> int:
    """Returns the minimum resident memory over a while, in which pending work, such as the hash of a password, ends."""
    ends = time.monotonic() + AT_REST_S
    least = arena.broker.resident_bytes()
    while time.monotonic() < ends:
        least = min(least, arena.broker.resident_bytes())
        time.sleep(LOOK_S)
    return least


def memory_is_back(arena: Arena, before: int) -> None:
    most = int(before * BACK_MAX)
    began = time.monotonic()
    while (now := arena.broker.resident_bytes()) > most and time.monotonic() < began + BACK_WITHIN_S:
        time.sleep(LOOK_S)
    arena.note(f"{before / MIB:.1f} MiB before, {arena.broker.peak_bytes() / MIB:.1f} MiB at most, "
               f"{now / MIB:.1f} MiB {time.monotonic() - began:.1f} s after the storm")
    arena.expect(now <= most, f"{now / MIB:.1f} MiB resident {BACK_WITHIN_S:.0f} s after the storm, {before / MIB:.1f} MiB before")


def connect_storm_of(arena: Arena, count: int, at_once: int) -> None:
    storm(arena, WARM, WARM)
    before = at_rest(arena)
    arena.begin()
    storm(arena, count, at_once)
    memory_is_back(arena, before)


STORM = {"auth.anonymous": "true"}
USERS = {"user": "right"}


@case("700 connections, every other one invalid", limit_mib=64, short=True, schemes=("mqtts",), settings=STORM, users=USERS)
def connect_storm_short(arena: Arena) -> None:
    connect_storm_of(arena, 700, 700)


@case("20,000 connections, every other one invalid: memory is freed within 10 s", limit_mib=128, timed=True, schemes=("mqtts",), settings=STORM,
      users=USERS)
def connect_storm_long(arena: Arena) -> None:
    connect_storm_of(arena, 20_000, 1_000)


# Memory of unauthenticated connections.


STRANGERS = 10_000
PLAIN_MAX_BYTES = 2 * KIB
# The limits for the TLS state itself: silent, and with the server's part of the handshake.
TLS_SILENT_BYTES = 2 * KIB
TLS_SHAKING_BYTES = 6 * KIB


def weigh(arena: Arena, port: int, said: bytes, most: int) -> None:
    """Measures the resident bytes of each connection that has sent `said`, besides the rest of the broker."""
    others = arena.broker.descriptors()
    close_all([opened(port, said) for _ in range(WARM)])
    settle(arena, others)
    before, others = arena.broker.resident_bytes(), arena.broker.descriptors()
    some = [opened(port, said) for _ in range(STRANGERS)]
    deadline = time.monotonic() + peer.ANSWER_TIMEOUT_S
    while arena.broker.descriptors() < others + STRANGERS - FEW:
        if time.monotonic() > deadline:
            raise Failed(f"only {arena.broker.descriptors() - others} of {STRANGERS} were accepted")
        time.sleep(LOOK_S)
    # Their data has been handled when later clients are answered.
    messages.stranger_is_served(arena, "beside the strangers")
    if said:
        still_at_work(arena)
    each = (arena.broker.resident_bytes() - before) / STRANGERS
    arena.note(f"{each:.0f} bytes each")
    arena.expect(each <= most, f"{each:.0f} bytes for each connection, at most {most}")
    close_all(some)


def still_at_work(arena: Arena) -> None:
    """Returns when the broker has been idle: handshakes have the lowest priority."""
    thread = arena.broker.thread("shard-0")
    slept = arena.broker.switches(thread)
    deadline = time.monotonic() + peer.ANSWER_TIMEOUT_S
    while arena.broker.switches(thread) < slept + 2 and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def unauthenticated(name: str, what: str, scheme: str, said: Callable[[Arena], bytes], most: int) -> None:
    @case(f"10,000 connections by {what}", limit_mib=256, schemes=(scheme,) if scheme != "mqtt" else (),
          settings={"mqtt.connect_timeout_s": 60, "limits.tls_handshakes": 20_000}, name=f"unauthenticated_{name}")
    def weighed(arena: Arena) -> None:
        weigh(arena, arena.broker.ports[scheme], said(arena), most)


def hello_of(arena: Arena) -> bytes:
    return tls.client_hello(tls.context(arena.authority))


unauthenticated("tcp", "TCP that send nothing", "mqtt", lambda _: b"", PLAIN_MAX_BYTES)
unauthenticated("connect", "TCP that send half a CONNECT", "mqtt", lambda _: wire.connect("half" * 50)[:120], PLAIN_MAX_BYTES)
unauthenticated("websocket", "WebSocket that send half a handshake", "ws", lambda _: UPGRADE[: len(UPGRADE) // 2], PLAIN_MAX_BYTES)
unauthenticated("tls", "TLS that send nothing", "mqtts", lambda _: b"", PLAIN_MAX_BYTES + TLS_SILENT_BYTES)
unauthenticated("hello_part", "TLS that send half a ClientHello", "mqtts", lambda arena: hello_of(arena)[:200],
                PLAIN_MAX_BYTES + TLS_SILENT_BYTES)
unauthenticated("hello", "TLS that stop after a ClientHello", "mqtts", hello_of, PLAIN_MAX_BYTES + TLS_SHAKING_BYTES)
