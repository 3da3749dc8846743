"""What operators ask of many clients."""

from __future__ import annotations

import http.client
import json
import urllib.parse

import peer
import wire
from arena import TOKEN, Arena, Failed, case
from peer import Peer, drive

SESSIONS = 100_000
TOGETHER = 500
PAGE = 1_000
# The whole list, page by page, so often.
TIMES = 3
# 300 bytes and more for each session, its name among them.
SESSIONS_MIB = 128


def make_sessions(arena: Arena) -> None:
    """Sessions of clients that are away."""
    for first in range(0, SESSIONS, TOGETHER):
        clients = [Peer(arena.port, 5) for _ in range(TOGETHER)]
        for number, client in enumerate(clients, first):
            client.send(wire.connect(f"client-{number:06}", clean=False, expiry_s=86_400))
        drive(clients, lambda: all(client.packets or client.closed for client in clients), peer.ANSWER_TIMEOUT_S)
        for client in clients:
            if client.closed:
                raise Failed("a client with a session was not let in")
            client.send(wire.BYE)
            client.discarding = True
        drive(clients, lambda: all(client.closed for client in clients), peer.ANSWER_TIMEOUT_S)
        for client in clients:
            client.close()


def listed(arena: Arena) -> int:
    """How many sessions the admin API lists, page by page."""
    connection = http.client.HTTPConnection("127.0.0.1", arena.broker.ports["http"], timeout=peer.ANSWER_TIMEOUT_S)
    count, after = 0, ""
    while True:
        connection.request("GET", f"/v1/clients?limit={PAGE}{after}", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise Failed(f"the admin API answers {answer.status}: {body[:200]!r}")
        page = json.loads(body)
        count += len(page["clients"])
        if page["next"] is None:
            return count
        after = "&after=" + urllib.parse.quote(page["next"], safe="")


@case("100,000 sessions are listed by the admin API, 1,000 on a page", limit_mib=SESSIONS_MIB, timed=True, weighed=False, admin=True, p99_max_ms=5.0)
def sessions_listed(arena: Arena) -> None:
    make_sessions(arena)
    arena.begin()
    for _ in range(TIMES):
        count = listed(arena)
        arena.expect(SESSIONS <= count <= SESSIONS + 1, f"{count} sessions are listed of {SESSIONS} and the bystander's")
