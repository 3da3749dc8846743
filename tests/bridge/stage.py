"""What the tests have in common: a folder, brokers that end with the test, observers, and messages to compare."""

from __future__ import annotations

import shutil
import sys
import tempfile
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

for folder in ("mqtt", "scenario"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / folder))

import wire  # noqa: E402
from client import Client  # noqa: E402

from brokers import Bridge, Broker, Tautwire  # noqa: E402

NO_LOCAL, AS_PUBLISHED = 0x04, 0x08
Some = TypeVar("Some", bound=Broker)


class Stage(unittest.TestCase):
    """A test with brokers."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tautwire-bridge-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def use(self, broker: Some) -> Some:
        """Closes the broker at the end of the test."""
        self.addCleanup(broker.close)
        return broker

    def started(self, broker: Some) -> Some:
        self.use(broker).start()
        return broker

    def ours(self, rules: str, *peers: Broker, name: str = "ours", more: str = "", is_started: bool = True, **of_broker: str) -> Tautwire:
        """Our broker with a bridge to the peers."""
        bridge = Bridge([peer.address for peer in peers], rules, more=dialect(peers[0]) + more)
        broker = self.use(Tautwire(self.folder / name, [bridge], **of_broker))
        if is_started:
            broker.start()
            broker.await_connected()
        return broker

    def client(self, broker: Broker, name: str, version: int | None = None, **more: object) -> Client:
        client = Client(broker.port, name, version=version or broker.version, **more)
        self.addCleanup(client.cut)
        return client

    def observer(self, broker: Broker, *filters: str, name: str = "observer", qos: int = 2, version: int | None = None, **more: object) -> Client:
        """A subscriber that sees RETAIN as it was published, where the protocol has that."""
        client = self.client(broker, name, version, **more)
        for each in filters:
            client.subscribe(each, qos | (AS_PUBLISHED if (version or broker.version) == 5 else 0))
        return client


def dialect(peer: Broker) -> str:
    """The keys for the version of a peer. Brokers other than Mosquitto and Tautwire do not know the bridge bit."""
    if peer.version == 5:
        return ""
    return 'protocol = "3.1.1"\n' + ("" if peer.name == "mosquitto" else "bridge_bit = false\n")


def received(client: Client, count: int) -> list[wire.Publish]:
    return [client.receive() for _ in range(count)]


def by_topic(messages: Iterable[wire.Publish]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for message in messages:
        found.setdefault(message.topic, []).append(message.payload)
    return found


def nothing_more(client: Client, publisher: Client, topic: str) -> list[wire.Publish]:
    """What the client received before a message that is published now; that one proves that nothing else is on its way in its broker."""
    publisher.deliver(topic, b"the last one", qos=1)
    found = []
    while (message := client.receive()).payload != b"the last one":
        found.append(message)
    return found
