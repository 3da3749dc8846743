"""TLS for attackers and for clients that behave."""

from __future__ import annotations

import ssl
from pathlib import Path

import peer
import wire
from peer import Peer, Unanswered

NAME = "localhost"
READ_BYTES = 1 << 16


def context(authority: Path) -> ssl.SSLContext:
    """Clients that trust this authority, and speak TLS 1.3."""
    made = ssl.create_default_context(cafile=str(authority))
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    return made


def client_hello(trusting: ssl.SSLContext) -> bytes:
    """The first message of a client. Whoever sends it to many servers has made it once; each of them has to answer."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    machine = trusting.wrap_bio(incoming, outgoing, server_hostname=NAME)
    try:
        machine.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class TlsPeer(Peer):
    """A connection by TLS. What is to be sent waits until the handshake is over."""

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
    """A client that the broker has let in."""
    client = TlsPeer(port, trusting)
    client.send(wire.connect(client_id))
    connack = client.expect(wire.CONNACK, within_s)
    if connack.body[1] != wire.SUCCESS:
        raise Unanswered(f"{client_id} was refused with {connack.body[1]:#04x}")
    return client
