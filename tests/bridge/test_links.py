"""Bad links between a bridge and the other broker: cut, slow, half open, reset, and full in both directions."""

from __future__ import annotations

import threading
import unittest

from brokers import Mosquitto, Tautwire, until
from stage import Stage, by_topic, received

RULES = '{ filter = "up/#", direction = "out", qos = 2 }, { filter = "down/#", direction = "in", qos = 2 }'
# The shortest keep alive, and the shortest time for an answer.
IMPATIENT = "keep_alive_s = 5\nconnect_timeout_s = 1\n"
# A test takes some seconds at this rate, which is longer than the keep alive.
SLOW_BYTES_PER_S, SLOW_COUNT, SLOW_BYTES = 60_000, 400, 1_000
LARGE_BYTES, LARGE_COUNT = 200_000, 150
ROOM = "[limits]\nsession_queue_messages = 100000\nsession_queue_bytes = 1073741824\nmemory_bytes = 2147483648\nmemory_bytes_per_client = 1073741824\n"
RESETS = 12


class Links(Stage):
    def pair(self, more: str = "", settings: str = ""):
        other = self.started(Tautwire(self.folder / "other", settings=settings))
        ours = self.ours(RULES, other, more=more, settings=settings)
        return ours, other

    def publish(self, broker, topic: str, count: int, size: int = 0, qos: int = 2) -> None:
        """Publishes numbered messages without waiting for each of them."""
        publisher = self.client(broker, f"publisher of {topic}")
        for number in range(count):
            publisher.publish(topic, b"%06d" % number + bytes(size), qos=qos, packet_id=number + 1)
        publisher.ping()

    def expect(self, observer, topic: str, count: int) -> None:
        numbers = [int(payload[:6]) for payload in by_topic(received(observer, count))[topic]]
        self.assertEqual(numbers, list(range(count)))

    def test_a_cut_connection_is_restored(self) -> None:
        ours, other = self.pair()
        here, there = self.observer(ours, "down/#"), self.observer(other, "up/#")
        for times in (2, 3):
            other.relay.refuse()
            until("the bridge has not noticed", lambda: ours.log().count("the bridge is not connected") >= times - 1)
            self.publish(ours, f"up/{times}", 10)
            self.publish(other, f"down/{times}", 10)
            other.relay.forward(other.port)
            ours.await_connected(times=times)
            self.expect(there, f"up/{times}", 10)
            self.expect(here, f"down/{times}", 10)

    def test_a_slow_connection_is_not_taken_for_a_dead_one(self) -> None:
        ours, other = self.pair(IMPATIENT)
        here, there = self.observer(ours, "down/#"), self.observer(other, "up/#")
        other.relay.rate = SLOW_BYTES_PER_S
        self.publish(ours, "up/slow", SLOW_COUNT, SLOW_BYTES)
        self.publish(other, "down/slow", SLOW_COUNT, SLOW_BYTES)
        self.expect(there, "up/slow", SLOW_COUNT)
        self.expect(here, "down/slow", SLOW_COUNT)
        self.assertEqual(ours.connections(), 1, ours.log())

    def test_a_half_open_connection_is_noticed(self) -> None:
        ours, other = self.pair(IMPATIENT)
        here, there = self.observer(ours, "down/#"), self.observer(other, "up/#")
        other.relay.freeze()
        self.publish(ours, "up/x", 5)
        self.publish(other, "down/x", 5)
        line = ours.await_log("the bridge is not connected")
        self.assertIn("code=timeout", line)
        other.relay.cut()
        other.relay.thaw()
        ours.await_connected(times=2)
        self.expect(there, "up/x", 5)
        self.expect(here, "down/x", 5)

    def test_resets_in_the_middle_of_packets_lose_and_repeat_nothing(self) -> None:
        ours, other = self.pair()
        here, there = self.observer(ours, "down/#"), self.observer(other, "up/#")
        for number in range(RESETS):
            # Each time at another byte of the exchange.
            other.relay.reset_after(7 + 61 * number)
            self.publish(ours, f"up/{number}", 10)
            self.publish(other, f"down/{number}", 10)
            other.relay.await_reset()
            ours.await_connected(times=number + 2)
            for observer, topic in ((there, f"up/{number}"), (here, f"down/{number}")):
                self.expect(observer, topic, 10)

    def test_both_directions_full_at_once(self) -> None:
        for peer in (Tautwire, Mosquitto):
            with self.subTest(peer.name):
                other = Tautwire(self.folder / "full", settings=ROOM) if peer is Tautwire else Mosquitto(self.folder / "full-mosquitto")
                self.started(other)
                ours = self.ours(RULES, other, name=f"ours-{peer.name}", settings=ROOM)
                here, there = self.observer(ours, "down/#"), self.observer(other, "up/#")
                other.relay.freeze()
                for broker, topic in ((ours, "up/full"), (other, "down/full")):
                    # Mosquitto forwards a message of QoS 2 when it is released.
                    self.publish(broker, topic, LARGE_COUNT, LARGE_BYTES, qos=1)
                other.relay.thaw()
                reader = threading.Thread(target=self.expect, args=(there, "up/full", LARGE_COUNT))
                reader.start()
                self.expect(here, "down/full", LARGE_COUNT)
                reader.join()
                self.assertEqual(ours.connections(), 1, ours.log())


if __name__ == "__main__":
    unittest.main()
