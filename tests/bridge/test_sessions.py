"""Sessions that are lost, full, or changed by a reload, and messages that are too large."""

from __future__ import annotations

import shutil
import unittest

import brokers
from brokers import Bridge, Mosquitto, Tautwire, until
from stage import Stage, by_topic, received, wire
from client import Client

RULES = '{ filter = "up/#", direction = "out", qos = 2 }, { filter = "down/#", direction = "in", qos = 2 }'
COUNT = 20


class Sessions(Stage):
    def pair(self, other: brokers.Broker | None = None, **more: str):
        other = self.started(other or Tautwire(self.folder / "other"))
        return self.ours(RULES, other, **more), other

    def check(self, ours, other, name: str) -> None:
        """Messages of both directions arrive once."""
        for sender, receiver, topic in ((ours, other, f"up/{name}"), (other, ours, f"down/{name}")):
            observer = self.observer(receiver, topic, name=f"observer-{topic.replace('/', '-')}")
            publisher = self.client(sender, f"publisher-{topic.replace('/', '-')}")
            for number in range(COUNT):
                publisher.deliver(topic, b"%d" % number, qos=2)
            self.assertEqual(by_topic(received(observer, COUNT))[topic], [b"%d" % number for number in range(COUNT)])

    def test_the_other_broker_loses_its_session_in_the_middle_of_an_exchange(self) -> None:
        ours, other = self.pair()
        self.check(ours, other, "first")
        # Our broker receives messages that it cannot acknowledge: their identifiers are in its session.
        other.relay.freeze_answers()
        publisher = self.client(other, "publisher")
        here = self.observer(ours, "down/#")
        for number in range(5):
            publisher.deliver("down/half", b"%d" % number, qos=2)
        received(here, 5)
        other.relay.refuse()
        other.kill()
        shutil.rmtree(other.folder / "data")
        other.relay.thaw()
        other.start()
        ours.await_connected(times=2)
        # The new session uses the same identifiers for other messages. It begins with those of messages that were acknowledged.
        self.check(ours, other, "second")
        self.check(ours, other, "third")

    def test_our_broker_loses_its_data(self) -> None:
        for other in (Tautwire(self.folder / "tautwire"), Mosquitto(self.folder / "mosquitto")):
            with self.subTest(other.name):
                ours, _ = self.pair(other, name=f"ours-{other.name}")
                self.check(ours, other, "first")
                ours.kill()
                shutil.rmtree(ours.folder / "data")
                self.client(other, "publisher").deliver("down/while", b"lost with the session", qos=2)
                ours.start()
                ours.await_connected()
                self.assertIn("this broker has lost the session of the bridge", ours.log())
                self.check(ours, other, "second")

    def test_what_waits_is_limited_while_the_other_broker_is_down(self) -> None:
        ours, other = self.pair(settings="[limits]\nsession_queue_messages = 100\n")
        other.relay.refuse()
        ours.await_log("the bridge is not connected")
        publisher = self.client(ours, "publisher")
        for number in range(300):
            publisher.deliver("up/x", b"%d" % number, qos=1)
        session = ours.session()
        self.assertLessEqual(session["queued_messages"], 100)
        self.assertGreater(session["dropped_messages"], 0)
        there = self.observer(other, "up/#")
        other.relay.forward(other.port)
        ours.await_connected(times=2)
        numbers = [int(message.payload) for message in received(there, 300 - session["dropped_messages"])]
        self.assertEqual(numbers, sorted(numbers))
        self.check(ours, other, "after")

    def test_a_message_that_is_too_large_for_the_other_broker_is_dropped(self) -> None:
        other = Tautwire(self.folder / "other", settings="[mqtt]\nmaximum_packet_size = 2000\n")
        ours, _ = self.pair(other)
        there = self.observer(other, "up/#")
        publisher = self.client(ours, "publisher")
        for payload in (b"first", bytes(1900), bytes(3000), b"last"):
            publisher.deliver("up/x", payload, qos=1)
        self.assertEqual([len(message.payload) for message in received(there, 3)][::2] + [0], [5, 4, 0])
        drops = [drop["reason"] for drop in ours.session()["drops"]]
        self.assertEqual((ours.connections(), drops), (1, ["too_large"]))

    def test_a_message_that_is_too_large_for_our_broker_is_dropped(self) -> None:
        # A broker that speaks 3.1.1 does not know our limit.
        for version in (5, 4):
            with self.subTest(version):
                mosquitto = Mosquitto(self.folder / f"mosquitto-{version}")
                mosquitto.version = version
                ours, _ = self.pair(mosquitto, name=f"ours-{version}", settings="[mqtt]\nmaximum_packet_size = 2000\n")
                here = self.observer(ours, "down/#")
                publisher = self.client(mosquitto, "publisher")
                # The second one fits until the hops are added.
                for payload in (b"first", bytes(1980), bytes(3000), b"last"):
                    publisher.deliver("down/x", payload, qos=1)
                self.assertEqual([message.payload for message in received(here, 2)], [b"first", b"last"])
                self.assertEqual(ours.connections(), 1, ours.log())
                until("it is not counted", lambda: ours.not_forwarded("unmappable") >= 1)

    def test_a_broker_without_our_limit_of_messages_in_flight(self) -> None:
        mosquitto = Mosquitto(self.folder / "mosquitto")
        mosquitto.version = 4
        ours, _ = self.pair(mosquitto, settings="[mqtt]\nreceive_maximum = 3\n")
        mosquitto.relay.refuse()
        ours.await_log("the bridge is not connected")
        publisher = self.client(mosquitto, "publisher")
        for number in range(100):
            publisher.deliver("down/x", b"%d" % number, qos=2)
        here = self.observer(ours, "down/#")
        mosquitto.relay.forward(mosquitto.port)
        self.assertEqual([message.payload for message in received(here, 100)], [b"%d" % number for number in range(100)])
        self.assertEqual(ours.connections(), 2, ours.log())

    def test_clients_cannot_have_the_client_identifier_of_a_bridge(self) -> None:
        ours, _ = self.pair()
        for version, reason in ((5, 0x85), (4, 0x02)):
            for name in ("bridge/hq", "bridge/other"):
                client = self.client(ours, name, version, may_be_refused=True)
                self.assertEqual(client.reason, reason)
        self.assertEqual(ours.connections(), 1)


if __name__ == "__main__":
    unittest.main()
