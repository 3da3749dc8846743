"""What arrives at the other broker, and what arrives from it: every message once, in order, with everything that the protocol can carry."""

from __future__ import annotations

import itertools
import os
import unittest

from brokers import HiveMq, Mochi, Mosquitto, Nats, Tautwire, until
from stage import Stage, by_topic, received, wire

RULES = """
    { filter = "up/#", direction = "out", qos = 2, local_prefix = "here/", remote_prefix = "there/" },
    { filter = "down/#", direction = "in", qos = 2, local_prefix = "here/", remote_prefix = "there/" },
    { filter = "both/#", direction = "both", qos = 2 },
    { filter = "bare/#", direction = "both", qos = 1, retain = "clear" },
    { filter = "low/#", direction = "both", qos = 0 },
"""
FILTERS = ["here/#", "there/#", "both/#", "bare/#", "low/#"]
NUMBERS = itertools.count()
COUNT = 10
EXPIRY_S = 1000
# Payload Format Indicator, Content Type, Response Topic, Correlation Data, and two User Properties with the same name.
PROPERTIES = (
    b"\x01\x01" b"\x03" + wire.text("text/plain") + b"\x08" + wire.text("an/answer") + b"\x09" + wire.text(b"\x00\xff")
    + wire.user_property("k", "1") + wire.user_property("k", "2")
)


def expiry(seconds: int) -> bytes:
    return b"\x02" + seconds.to_bytes(4)


def split(properties: bytes) -> tuple[int | None, list[tuple[int, bytes]]]:
    """The Message Expiry Interval, and the other properties, sorted, without the hops."""
    left, others, rest = None, [], properties
    while rest:
        kind = rest[0]
        if kind == 0x01:
            value, rest = rest[1:2], rest[2:]
        elif kind == 0x02:
            left, rest = int.from_bytes(rest[1:5]), rest[5:]
            continue
        else:
            end = 3 + int.from_bytes(rest[1:3])
            if kind == 0x26:
                end += 2 + int.from_bytes(rest[end : end + 2])
            value, rest = rest[1:end], rest[end:]
        if not (kind == 0x26 and value.startswith(wire.text("tautwire-hops"))):
            others.append((kind, value))
    return left, sorted(others)


class Forwarding:
    """The cases for one peer."""

    more = ""

    def peer(self):
        raise NotImplementedError

    def setUp(self) -> None:
        super().setUp()
        self.other = self.peer()
        self.started(self.other)

    def pair(self):
        """Our broker, with the bridge connected, and an observer of all topics at each broker."""
        ours = self.ours(RULES, self.other, more=self.more)
        return ours, self.observer(ours, *FILTERS), self.observer(self.other, *FILTERS)

    def test_every_message_arrives_once_and_in_order(self) -> None:
        ours, here, there = self.pair()
        for sender, observer, sent, expected in [
            (ours, there, "here/up", "there/up"), (self.other, here, "there/down", "here/down"), (ours, there, "both/x", "both/x"),
            (self.other, here, "both/y", "both/y"),
        ]:
            publisher = self.client(sender, f"publisher of {sent}")
            for number in range(COUNT):
                for qos in (0, 1, 2):
                    publisher.deliver(f"{sent}/{qos}", b"%d" % number, qos=qos)
            messages = [message for message in received(observer, 3 * COUNT) if message.topic.startswith(expected)]
            own = [message for message in received(here if observer is there else there, 3 * COUNT) if message.topic.startswith(sent)]
            self.assertEqual((len(messages), len(own)), (3 * COUNT, 3 * COUNT))
            for qos in (0, 1, 2):
                self.assertEqual(by_topic(messages)[f"{expected}/{qos}"], [b"%d" % number for number in range(COUNT)])
            self.assertEqual({(message.topic[-1], message.qos) for message in messages}, {("0", 0), ("1", 1), ("2", 2)})
        # The last messages of each rule prove that nothing else is on its way.
        for sender, topic in ((ours, "here/up/end"), (self.other, "there/down/end")):
            self.client(sender, f"publisher of {topic}").deliver(topic, qos=2)
        self.assertEqual({message.topic for message in received(here, 2)}, {"here/up/end", "here/down/end"})
        self.assertEqual({message.topic for message in received(there, 2)}, {"there/up/end", "there/down/end"})

    def test_the_qos_of_a_rule_is_the_highest(self) -> None:
        ours, here, there = self.pair()
        for sender, observer in ((ours, there), (self.other, here)):
            publisher = self.client(sender, "publisher")
            for topic in ("low/x", "bare/x"):
                publisher.deliver(topic, b"at qos 2", qos=2)
            # QoS 0 and 1 have no common order.
            self.assertEqual({(each.topic, each.qos) for each in received(observer, 2)}, {("low/x", 0), ("bare/x", 1)})
            received(here if observer is there else there, 2)
            publisher.close()

    def test_retained_messages_are_synchronised_at_the_first_connection(self) -> None:
        self.other.relay.refuse()
        ours = self.ours(RULES, self.other, more=self.more, is_started=False)
        ours.start()
        for broker, topic in ((ours, "here/up/r"), (ours, "both/ours"), (ours, "bare/ours"), (self.other, "there/down/r"), (self.other, "both/theirs")):
            self.client(broker, f"keeper of {topic}").deliver(topic, topic.encode(), qos=1, retain=True)
        self.other.relay.forward(self.other.port)
        ours.await_connected()
        expected = [(ours, "here/down/r", b"there/down/r"), (ours, "both/theirs", b"both/theirs"),
                    (self.other, "there/up/r", b"here/up/r"), (self.other, "both/ours", b"both/ours")]
        for broker, topic, payload in expected:
            message = until(f"{topic} is not retained", lambda: retained(self, broker, topic))
            self.assertEqual((message.payload, message.retain), (payload, True))
        # With retain = "clear", it arrived before the messages above were seen, but is not retained.
        self.assertIsNone(retained(self, self.other, "bare/ours"))

    def test_retained_messages_change_and_end(self) -> None:
        ours, here, there = self.pair()
        for sender, observer, receiver in ((ours, there, self.other), (self.other, here, ours)):
            publisher = self.client(sender, "publisher")
            for payload in (b"1", b"2"):
                publisher.deliver("both/state", payload, qos=1, retain=True)
                self.assertEqual(observer.receive().payload, payload)
            self.assertEqual(retained(self, receiver, "both/state").payload, b"2")
            publisher.deliver("both/state", b"", qos=1, retain=True)
            self.assertEqual(observer.receive().payload, b"")
            self.assertIsNone(retained(self, receiver, "both/state"))
            publisher.deliver("bare/state", b"3", qos=1, retain=True)
            self.assertEqual(observer.receive().topic, "bare/state")
            self.assertIsNone(retained(self, receiver, "bare/state"))
            publisher.deliver("bare/state", b"", qos=1, retain=True)
            observer.receive()
            received(here if observer is there else there, 5)
            publisher.close()


class Version5(Forwarding):
    """What only MQTT 5.0 can carry."""

    def test_properties_arrive_and_the_expiry_counts_down(self) -> None:
        ours, here, there = self.pair()
        self.other.relay.refuse()
        ours.await_log("the bridge is not connected")
        for sender, topic in ((ours, "here/up/p"), (self.other, "there/down/p")):
            self.client(sender, "publisher").deliver(topic, b"p", qos=2, properties=PROPERTIES + expiry(EXPIRY_S))
        # They wait for longer than a second, which is the unit of the interval.
        clock = self.client(ours, "clock")
        clock.deliver("clock", b"tick", qos=1, retain=True, properties=expiry(EXPIRY_S))
        until("no second has passed", lambda: split(retained(self, ours, "clock").properties)[0] < EXPIRY_S - 1)
        self.other.relay.forward(self.other.port)
        for observer, topic in ((there, "there/up/p"), (here, "here/down/p")):
            message = next(message for message in iter(observer.receive, None) if message.topic == topic)
            left, others = split(message.properties)
            self.assertEqual(others, split(PROPERTIES)[1])
            self.assertTrue(left is not None and EXPIRY_S - 100 < left < EXPIRY_S, left)


def retained(stage, broker, topic: str) -> wire.Publish | None:
    """What a new subscriber gets first: the retained message, or one on a topic of its own that is published after it has subscribed."""
    client = stage.client(broker, f"reader {next(NUMBERS)}")
    client.subscribe(topic, 1)
    client.subscribe("marker", 1)
    client.deliver("marker", qos=1)
    message = client.receive()
    client.close()
    return None if message.topic == "marker" else message


class WithTautwire(Version5, Stage):
    def peer(self):
        return Tautwire(self.folder / "peer")


class WithTautwire311(Forwarding, Stage):
    more = 'protocol = "3.1.1"\n'

    def peer(self):
        return Tautwire(self.folder / "peer")


class WithMosquitto(Version5, Stage):
    def peer(self):
        return Mosquitto(self.folder / "peer")


class WithMosquitto311(Forwarding, Stage):
    def peer(self):
        mosquitto = Mosquitto(self.folder / "peer")
        mosquitto.version = 4
        return mosquitto


class WithNats(Forwarding, Stage):
    def peer(self):
        return Nats(self.folder / "peer")


class WithMochi(Version5, Stage):
    def peer(self):
        return Mochi(self.folder / "peer")


@unittest.skipUnless(os.environ.get("TAUTWIRE_BRIDGE_LONG"), "it takes a minute to start: part of soak-bridge")
class WithHiveMq(Version5, Stage):
    def peer(self):
        return HiveMq(self.folder / "peer")


if __name__ == "__main__":
    unittest.main()
