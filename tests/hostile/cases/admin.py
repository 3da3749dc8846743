"""Connections to the admin API that are silent or slow: health and metrics are answered all the same."""

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
# Answers of a megabyte, of which nothing is read.
NEVER_READ = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 20
# A handshake that goes no further than its first byte.
HALF_A_HANDSHAKE = b"\x16"


def probe(arena: Arena, path: str) -> None:
    """What the probe of an orchestrator does: a connection of its own, a request, an answer."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", arena.broker.ports["http"], timeout=peer.ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        answer.read()
        arena.expect(answer.status == http.client.OK, f"{path} is answered with {answer.status}")
    except OSError as error:
        arena.expect(False, f"{path} is not answered: {error!r}")
    finally:
        connection.close()
    took_s = time.monotonic() - began
    arena.expect(took_s < PROBE_MAX_S, f"{path} took {took_s:.1f} s")


@case("1,000 connections to the admin API that are silent, or send or read slowly; health and metrics are asked meanwhile", limit_mib=64, short=True, timed=True, admin=True)
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
        # Those that are slow go on a little.
        for connection in connections[-100:]:
            try:
                connection.send(b"x")
            except OSError:
                # It has been closed for others, or takes nothing.
                pass
        for path in PROBES:
            probe(arena, path)
        close_all(connections)
