"""TLS for attackers and for well-behaved clients."""

from __future__ import annotations

import ssl
from pathlib import Path

import peer
import wire
from peer import Peer, Unanswered

NAME = "localhost"
READ_BYTES = 1 << 16


def context(authority: Path) -> ssl.SSLContext:
    """Returns a context for clients that trust this authority, with TLS 1.3."""
    made = ssl.create_default_context(cafile=str(authority))
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    return made


def client_hello(trusting: ssl.SSLContext) -> bytes:
    """Returns the first message of a client. An attacker creates it once and sends it many times; the server has to answer
    each."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    machine = trusting.wrap_bio(incoming, outgoing, server_hostname=NAME)
    try:
        machine.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class TlsPeer(Peer):
    """A connection over TLS. Output waits until the handshake is complete."""

    def __init__(self, port: int, trusting: ssl.SSLContext, version: int = 5) -> None:
        super().__init__(port, version)
        self._from_network, self._to_network = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._machine = trusting.wrap_bio(self._from_network, self._to_network, server_hostname=NAME)
        self._early: list[bytes | memoryview] = []
        self.is_shaken = False
        self._shake()

    def send(self, *pieces: bytes | memoryview) -> None:
        if not self.is_shaken:
            self._early += pieces
            return
        for piece in pieces:
            self._machine.write(piece)
        self._flush()

    def _opened(self, data: bytes) -> bytes:
        self._from_network.write(data)
        if not self.is_shaken:
            self._shake()
        opened = bytearray()
        while self.is_shaken:
            try:
                opened += self._machine.read(READ_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                break
        return bytes(opened)

    def _shake(self) -> None:
        try:
            self._machine.do_handshake()
            self.is_shaken = True
        except ssl.SSLWantReadError:
            pass
        self._flush()
        if self.is_shaken and self._early:
            early, self._early = self._early, []
            self.send(*early)

    def _flush(self) -> None:
        super().send(self._to_network.read())


def connected(port: int, trusting: ssl.SSLContext, client_id: str, within_s: float = peer.ANSWER_TIMEOUT_S) -> TlsPeer:
    """Returns a client that the broker has accepted."""
    client = TlsPeer(port, trusting)
    client.send(wire.connect(client_id))
    connack = client.expect(wire.CONNACK, within_s)
    if connack.body[1] != wire.SUCCESS:
        raise Unanswered(f"{client_id} was refused with {connack.body[1]:#04x}")
    return client
