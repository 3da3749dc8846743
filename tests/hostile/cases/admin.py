"""Silent or slow connections to the admin API: health and metrics are still answered."""

from __future__ import annotations

import http.client
import socket
import time

import peer
from arena import TOKEN, Arena, case
from cases.storms import close_all, opened

CONNECTIONS = 1_000
# A probe of Kubernetes waits 1 s by default; the machine may be busy.
PROBE_MAX_S = 5.0
PROBES = ("/health", "/health/live", "/health/ready", "/metrics")
HALF_A_HEAD = b"GET /health HTTP/1.1\r\nHost: a\r\nX-Slow: "
HALF_A_LOGIN = b"POST /session HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
# Answers of a megabyte that are never read.
NEVER_READ = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 20
# A handshake that stops after its first byte.
HALF_A_HANDSHAKE = b"\x16"


def probe(arena: Arena, path: str) -> None:
    """Acts like the probe of an orchestrator: a connection of its own, a request, an answer."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", arena.broker.ports["http"], timeout=peer.ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        answer.read()
        arena.expect(answer.status == http.client.OK, f"{path} returned {answer.status}")
    except OSError as error:
        arena.expect(False, f"{path} was not answered: {error!r}")
    finally:
        connection.close()
    took_s = time.monotonic() - began
    arena.expect(took_s < PROBE_MAX_S, f"{path} took {took_s:.1f} s")


@case("1,000 connections to the admin API that are silent, or send or read slowly; health and metrics are requested meanwhile", limit_mib=64, short=True, timed=True, admin=True)
def admin_silent(arena: Arena) -> None:
    arena.begin()
    port = arena.broker.ports["http"]
    for first in (b"", HALF_A_HEAD, HALF_A_LOGIN, NEVER_READ, HALF_A_HANDSHAKE):
        connections: list[socket.socket] = []
        for number in range(CONNECTIONS):
            connections.append(opened(port, first))
            if number % 250 == 249:
                for path in PROBES:
                    probe(arena, path)
        # Slow connections send a little more.
        for connection in connections[-100:]:
            try:
                connection.send(b"x")
            except OSError:
                # It was closed in favour of others, or accepts nothing.
                pass
        for path in PROBES:
            probe(arena, path)
        close_all(connections)
