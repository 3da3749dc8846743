"""Messages do not return to where they were, whatever the bridges of several brokers look like."""

from __future__ import annotations

import unittest

from brokers import Bridge, Mosquitto, Tautwire, until
from stage import Stage, nothing_more, received

BOTH = '{ filter = "a/#", direction = "both", qos = 2 }'
OUT = BOTH.replace("both", "out")
IN = BOTH.replace("both", "in")
COUNT = 5
QUIET_ROUNDS = 20


class Loops(Stage):
    def brokers(self, count: int) -> list[Tautwire]:
        return [self.use(Tautwire(self.folder / f"broker-{number}")) for number in range(count)]

    def start(self, brokers: list[Tautwire]) -> None:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            for bridge in broker.bridges:
                broker.await_connected(bridge.name)

    def expect_each_once(self, brokers: list, settled=lambda: True) -> None:
        """Publishes at each broker; each message arrives exactly once at each of them."""
        observers = [self.observer(broker, "a/#", name=f"observer-{at}") for at, broker in enumerate(brokers)]
        expected = set()
        for at, broker in enumerate(brokers):
            publisher = self.client(broker, f"publisher-{at}")
            for number in range(COUNT):
                for qos in (0, 1, 2):
                    payload = f"{at} {number} {qos}".encode()
                    publisher.deliver("a/x", payload, qos=qos)
                    expected.add(payload)
        first = [[message.payload for message in received(observer, len(expected))] for observer in observers]
        for messages in first:
            self.assertEqual(sorted(messages), sorted(expected))
        until("the traffic has not ended", settled)
        # What would still circulate arrives before the last messages, which take the same ways.
        for at, (broker, observer) in enumerate(zip(brokers, observers)):
            self.client(broker, f"last-{at}").deliver("a/last", b"%d" % at, qos=2)
        for observer in observers:
            self.assertEqual({(message.topic, message.payload) for message in received(observer, len(brokers))},
                             {("a/last", b"%d" % at) for at in range(len(brokers))})

    def test_a_bridge_returns_nothing(self) -> None:
        first, second = self.brokers(2)
        first.bridges = [Bridge([second.address], BOTH)]
        self.start([second, first])
        self.expect_each_once([first, second])

    def test_mosquitto_returns_nothing_because_of_the_bridge_bit(self) -> None:
        mosquitto = Mosquitto(self.folder / "peer")
        mosquitto.version = 4
        self.started(mosquitto)
        ours = self.ours(BOTH, mosquitto)
        self.expect_each_once([ours, mosquitto])

    def test_mosquitto_returns_nothing_with_no_local(self) -> None:
        mosquitto = self.started(Mosquitto(self.folder / "peer"))
        ours = self.ours(BOTH, mosquitto)
        self.expect_each_once([ours, mosquitto])

    def test_two_brokers_with_a_bridge_to_each_other(self) -> None:
        # Each message takes both bridges, or returns by the other one: the operator's mistake must not make it circulate.
        first, second = self.brokers(2)
        first.bridges, second.bridges = [Bridge([second.address], BOTH)], [Bridge([first.address], BOTH)]
        self.start([first, second])
        self.client(first, "publisher").deliver("a/x", b"1", qos=1)
        self.expect_end([first, second])

    def test_a_ring_in_one_direction_ends(self) -> None:
        for direction, rule in (("out", OUT), ("in", IN)):
            with self.subTest(direction):
                brokers = self.brokers(3)
                for at, broker in enumerate(brokers):
                    broker.bridges = [Bridge([brokers[(at + 1) % 3].address], rule)]
                self.start(brokers)
                for at, broker in enumerate(brokers):
                    self.client(broker, f"publisher-{at}").deliver("a/x", b"%d" % at, qos=1)
                self.expect_end(brokers)
                for broker in brokers:
                    broker.close()
                self.folder = self.folder / "next"

    def test_a_ring_in_one_direction_with_its_number_of_hops(self) -> None:
        brokers = self.brokers(3)
        for at, broker in enumerate(brokers):
            broker.bridges = [Bridge([brokers[(at + 1) % 3].address], OUT, more="hops_max = 2")]
        self.start(brokers)
        self.expect_each_once(brokers, lambda: sum(broker.not_forwarded("looped") for broker in brokers) >= 9 * COUNT)

    def test_a_ring_of_three_in_both_directions(self) -> None:
        brokers = self.brokers(3)
        for at, broker in enumerate(brokers):
            # Each broker has a bridge to each other one, so one hop is enough.
            broker.bridges = [Bridge([brokers[(at + 1) % 3].address], BOTH, more="hops_max = 1")]
        self.start(brokers)
        self.expect_each_once(brokers, lambda: sum(broker.not_forwarded("looped") for broker in brokers) >= 9 * COUNT)

    def expect_end(self, brokers: list[Tautwire]) -> None:
        """The traffic ends: nothing arrives between many messages, one after the other, that do not leave their broker."""
        until("no message has looped", lambda: any(broker.not_forwarded("looped") for broker in brokers))
        for at, broker in enumerate(brokers):
            observer = self.observer(broker, "a/#", "marker", name=f"observer-{at}")
            publisher = self.client(broker, f"marker-{at}")
            quiet = lambda: not any([nothing_more(observer, publisher, "marker") for _ in range(QUIET_ROUNDS)])  # noqa: E731
            until("the traffic does not end", quiet)


if __name__ == "__main__":
    unittest.main()
