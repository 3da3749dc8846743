"""Admin queries over many clients."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import socket
import time
import urllib.parse
from collections.abc import Iterator

import peer
import wire
from arena import TOKEN, Arena, Failed, case
from cases.stalls import politely
from peer import Peer, drive

SESSIONS = 100_000
TOGETHER = 500
PAGE = 1_000
# How often the whole list is read, page by page.
TIMES = 3
# At least 300 bytes for each session, including its name.
SESSIONS_MIB = 128
RETAINED = 1_000_000
# The first pages: each query scans all messages, because it returns their number.
RETAINED_PAGES = 5
# They do not wait for their pages.
ASKERS = 8
TAPS = 4
TAPPED = 200_000


def make_sessions(arena: Arena) -> None:
    """Creates offline sessions."""
    for first in range(0, SESSIONS, TOGETHER):
        clients = [Peer(arena.port, 5) for _ in range(TOGETHER)]
        for number, client in enumerate(clients, first):
            client.send(wire.connect(f"client-{number:06}", clean=False, expiry_s=86_400))
        drive(clients, lambda: all(client.packets or client.closed for client in clients), peer.ANSWER_TIMEOUT_S)
        for client in clients:
            if client.closed:
                raise Failed("a client with a session was not accepted")
            client.send(wire.BYE)
            client.discarding = True
        drive(clients, lambda: all(client.closed for client in clients), peer.ANSWER_TIMEOUT_S)
        for client in clients:
            client.close()


def pages(arena: Arena, path: str, rows: str) -> Iterator[int]:
    """Yields the number of rows on each page of a list of the admin API."""
    connection = http.client.HTTPConnection("127.0.0.1", arena.broker.ports["http"], timeout=peer.ANSWER_TIMEOUT_S)
    after = ""
    while True:
        connection.request("GET", f"{path}limit={PAGE}{after}", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise Failed(f"the admin API returned {answer.status}: {body[:200]!r}")
        page = json.loads(body)
        yield len(page[rows])
        if page["next"] is None:
            return
        after = "&after=" + urllib.parse.quote(page["next"], safe="")


def ask_and_leave(arena: Arena, path: str) -> None:
    """Sends a request, and closes the connection before the answer."""
    with socket.create_connection(("127.0.0.1", arena.broker.ports["http"]), peer.ANSWER_TIMEOUT_S) as asking:
        asking.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())


def metric(arena: Arena, name: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", arena.broker.ports["http"], timeout=peer.ANSWER_TIMEOUT_S)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    found = re.search(rf"^tautwire_{name} (\d+)$", connection.getresponse().read().decode(), re.M)
    connection.close()
    if not found:
        raise Failed(f"there is no metric {name}")
    return int(found[1])


@case("100,000 sessions are listed by the admin API, 1,000 on a page", limit_mib=SESSIONS_MIB, timed=True, weighed=False, admin=True, p99_max_ms=5.0)
def sessions_listed(arena: Arena) -> None:
    make_sessions(arena)
    arena.begin()
    for _ in range(TIMES):
        count = sum(pages(arena, "/v1/clients?", "clients"))
        arena.expect(SESSIONS <= count <= SESSIONS + 1, f"{count} sessions are listed of {SESSIONS} and the bystander's")


@case(
    "1,000,000 retained messages are browsed by the admin API, 1,000 on a page, and their tree of topics", limit_mib=256, timed=True, weighed=False, admin=True,
    settings={"limits.retained_messages": RETAINED + 1_000, "limits.retained_bytes": 1 << 30},
)
def retained_browsed(arena: Arena) -> None:
    publisher = peer.connected(arena.port, "publisher")
    politely(publisher, (wire.publish(f"d{number % 1_000}/n{number}", b"1", retain=True) for number in range(RETAINED)))
    arena.begin()
    for path, rows in (("/v1/retained?filter=%23&", "messages"), ("/v1/retained?filter=%2B/%2B&", "messages"), ("/v1/topics?", "levels")):
        first = list(itertools.islice(pages(arena, path, rows), RETAINED_PAGES))
        arena.expect(first[0] == PAGE, f"{path} gives {first[0]} rows")
    for _ in range(ASKERS):
        ask_and_leave(arena, "/v1/retained?filter=%23")
    until = time.monotonic() + peer.ANSWER_TIMEOUT_S
    while (left := metric(arena, "surveys_abandoned_total")) < ASKERS:
        if time.monotonic() > until:
            raise Failed(f"{left} of {ASKERS} abandoned searches have ended")
        time.sleep(0.05)


@case("200,000 messages beside four unread taps", limit_mib=64, timed=True, admin=True)
def taps_not_read(arena: Arena) -> None:
    taps = []
    for _ in range(TAPS):
        tap = socket.create_connection(("127.0.0.1", arena.broker.ports["http"]), peer.ANSWER_TIMEOUT_S)
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        tap.sendall(f"GET /v1/tap?rate=500 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        if not tap.recv(12).endswith(b" 200"):
            raise Failed("a tap was refused")
        taps.append(tap)
    arena.begin()
    publisher = peer.connected(arena.port, "publisher")
    politely(publisher, (wire.publish("flood", bytes(1_000)) for _ in range(TAPPED)))
    for tap in taps:
        tap.close()
