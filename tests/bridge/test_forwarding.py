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
# For brokers that return messages to their sender: MQTT 3.1.1 without the bridge bit.
ONE_WAY_RULES = "".join(
    line if "both" not in line else "".join(
        line.replace("/#", f"/{place}/#").replace('direction = "both"', f'direction = "{direction}"')
        for place, direction in (("ours", "out"), ("theirs", "in"))
    ) for line in RULES.splitlines()
)
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
    rules = RULES
    # Before MQTT 5.0, only subscribers with the bridge bit see RETAIN of messages that are published after they have subscribed.
    keeps_retain_of_changes = True

    def peer(self):
        raise NotImplementedError

    def setUp(self) -> None:
        super().setUp()
        self.other = self.peer()
        self.started(self.other)

    def pair(self):
        """Our broker, with the bridge connected, and an observer of all topics at each broker."""
        ours = self.ours(self.rules, self.other, more=self.more)
        return ours, self.observer(ours, *FILTERS), self.observer(self.other, *FILTERS)

    def test_every_message_arrives_once_and_in_order(self) -> None:
        ours, here, there = self.pair()
        for sender, observer, sent, expected in [
            (ours, there, "here/up", "there/up"), (self.other, here, "there/down", "here/down"), (ours, there, "both/ours", "both/ours"),
            (self.other, here, "both/theirs", "both/theirs"),
        ]:
            publisher = self.client(sender, f"publisher-{next(NUMBERS)}")
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
            self.client(sender, f"publisher-{next(NUMBERS)}").deliver(topic, qos=2)
        self.assertEqual({message.topic for message in received(here, 2)}, {"here/up/end", "here/down/end"})
        self.assertEqual({message.topic for message in received(there, 2)}, {"there/up/end", "there/down/end"})

    def test_the_qos_of_a_rule_is_the_highest(self) -> None:
        ours, here, there = self.pair()
        for sender, observer, place in ((ours, there, "ours"), (self.other, here, "theirs")):
            publisher = self.client(sender, "publisher")
            for topic in (f"low/{place}/x", f"bare/{place}/x"):
                publisher.deliver(topic, b"at qos 2", qos=2)
            # QoS 0 and 1 have no common order.
            messages = {(each.topic, each.qos) for each in received(observer, 2)}
            self.assertEqual(messages, {(f"low/{place}/x", 0), (f"bare/{place}/x", 1)})
            received(here if observer is there else there, 2)
            publisher.close()

    def test_retained_messages_are_synchronised_at_the_first_connection(self) -> None:
        self.other.relay.refuse()
        ours = self.ours(self.rules, self.other, more=self.more, is_started=False)
        ours.start()
        for broker, topic in ((ours, "here/up/r"), (ours, "both/ours/r"), (ours, "bare/ours/r"), (self.other, "there/down/r"), (self.other, "both/theirs/r")):
            self.client(broker, f"keeper-{next(NUMBERS)}").deliver(topic, topic.encode(), qos=1, retain=True)
        self.other.relay.forward(self.other.port)
        ours.await_connected()
        expected = [(ours, "here/down/r", b"there/down/r"), (ours, "both/theirs/r", b"both/theirs/r"),
                    (self.other, "there/up/r", b"here/up/r"), (self.other, "both/ours/r", b"both/ours/r")]
        for broker, topic, payload in expected:
            message = until(f"{topic} is not retained", lambda: retained(self, broker, topic))
            self.assertEqual((message.payload, message.retain), (payload, True))
        # With retain = "clear", it arrived before the messages above were seen, but is not retained.
        self.assertIsNone(retained(self, self.other, "bare/ours/r"))

    def test_retained_messages_change_and_end(self) -> None:
        ours, here, there = self.pair()
        for sender, observer, receiver, place in ((ours, there, self.other, "ours"), (self.other, here, ours, "theirs")):
            state, bare = f"both/{place}/state", f"bare/{place}/state"
            publisher = self.client(sender, "publisher")
            if receiver is ours and not self.keeps_retain_of_changes:
                continue
            for payload in (b"1", b"2"):
                publisher.deliver(state, payload, qos=1, retain=True)
                self.assertEqual(observer.receive().payload, payload)
            until(f"{state} is not retained", lambda: getattr(retained(self, receiver, state), "payload", b"") == b"2")
            publisher.deliver(state, b"", qos=1, retain=True)
            self.assertEqual(observer.receive().payload, b"")
            until(f"{state} is retained", lambda: retained(self, receiver, state) is None)
            publisher.deliver(bare, b"3", qos=1, retain=True)
            self.assertEqual(observer.receive().topic, bare)
            self.assertIsNone(retained(self, receiver, bare))
            publisher.deliver(bare, b"", qos=1, retain=True)
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
    client = stage.client(broker, f"reader-{next(NUMBERS)}")
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
    # Tautwire does not know the bridge bit.
    more = 'protocol = "3.1.1"\nbridge_bit = false\n'
    rules = ONE_WAY_RULES
    keeps_retain_of_changes = False

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
    rules = ONE_WAY_RULES
    keeps_retain_of_changes = False

    def peer(self):
        return Nats(self.folder / "peer")


class WithMochi(Forwarding, Stage):
    """With MQTT 5.0, version 2.7.9 acknowledges messages with user properties, such as the hops, with an invalid reason code."""

    rules = ONE_WAY_RULES
    keeps_retain_of_changes = False

    def peer(self):
        mochi = Mochi(self.folder / "peer")
        mochi.version = 4
        return mochi


@unittest.skipUnless(os.environ.get("TAUTWIRE_BRIDGE_LONG"), "it takes a minute to start: part of soak-bridge")
class WithHiveMq(Version5, Stage):
    def peer(self):
        return HiveMq(self.folder / "peer")


if __name__ == "__main__":
    unittest.main()
