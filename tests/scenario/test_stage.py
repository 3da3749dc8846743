"""Tests of the relay, and of a player's checks."""

from __future__ import annotations

import socket
import unittest
from collections.abc import Callable
from typing import cast

from agents import Agent, plain
from relay import Relay
from stage import Broken, Player


class Echo:
    """A server that echoes its input."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])

    def take(self) -> socket.socket:
        return self.socket.accept()[0]


class RelayTest(unittest.TestCase):
    def setUp(self) -> None:
        self.relay, self.echo = Relay(), Echo()
        self.addCleanup(self.relay.close)
        self.addCleanup(self.echo.socket.close)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.relay.port), timeout=10)
        self.addCleanup(client.close)
        return client

    def test_it_refuses_forwards_and_refuses_again(self) -> None:
        for _ in range(3):
            with self.assertRaises(ConnectionRefusedError):
                self.connect()
            self.relay.forward(self.echo.port)
            client = self.connect()
            with self.echo.take() as server:
                client.sendall(b"there")
                self.assertEqual(server.recv(10), b"there")
                server.sendall(b"back")
                self.assertEqual(client.recv(10), b"back")
                self.relay.refuse()
                self.assertEqual(client.recv(10), b"")

    def test_it_delays_responses(self) -> None:
        self.relay.forward(self.echo.port)
        client = self.connect()
        with self.echo.take() as server:
            self.relay.hold_answers()
            client.sendall(b"question")
            self.relay.await_sent(b"question")
            self.assertEqual(server.recv(10), b"question")
            server.sendall(b"answer")
            client.settimeout(0.05)
            with self.assertRaises(TimeoutError):
                client.recv(10)
            client.settimeout(10)
            self.relay.forward(self.echo.port)
            self.assertEqual(client.recv(10), b"answer")


class Script:
    """An agent with fixed output."""

    language, label = "go", "go 1"

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    def next(self, wanted: Callable[[str], bool]) -> str | None:
        while self.lines:
            if wanted(line := self.lines.pop(0)):
                return line
        return None


def player(*lines: str) -> Player:
    return Player(cast(Agent, Script(*lines)))


class PlayerTest(unittest.TestCase):
    def test_it_accepts_expected_packets(self) -> None:
        one = player("attempt unreachable", "connected 0", "b", "a", "1", "c", "2", "subscribed x 2")
        one.sees("connected 0")
        one.sees_in_any_order("a", "b")
        one.sees_in_any_order("c", ordered=["1", "2"])
        self.assertEqual(one.sees_like("subscribed x [012]"), "subscribed x 2")

    def test_it_reports_unexpected_packets(self) -> None:
        for wrong in (
            lambda: player("connected 1").sees("connected 0"),
            lambda: player().sees("connected 0"),
            lambda: player("connected 0", "attempt tls_expired").sees("attempt unreachable"),
            lambda: player("a", "a").sees_in_any_order("a", "b"),
            lambda: player("2", "1").sees_in_any_order(ordered=["1", "2"]),
            lambda: player("subscribed x 128").sees_like("subscribed x [012]"),
        ):
            with self.assertRaises(Broken):
                wrong()

    def test_it_shows_the_difference(self) -> None:
        one = player("connected 0", "message a 1 0 x")
        one.sees("connected 0")
        with self.assertRaisesRegex(Broken, r"(?s)go 1 says.* connected 0\n-message a 2 0 x\n\+message a 1 0 x"):
            one.sees("message a 2 0 x")

    def test_reason_codes_are_normalized(self) -> None:
        self.assertEqual(plain("ended session_taken_over 0x8E"), "ended session_taken_over 0x8e")
        self.assertEqual(plain("failed request no_responder 0x10"), "failed request no_responder")


if __name__ == "__main__":
    unittest.main()
