"""Kills our broker, the other one, or both, at random while messages are forwarded in both directions, and counts what arrives.

The publishers and subscribers are those of tests/soak: they keep their session state, send again what was not acknowledged, and drop
repetitions as the protocol tells them. What they still see twice, or not at all, the bridge has repeated or lost.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

for folder in ("mqtt", "scenario", "soak"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / folder))

import wire  # noqa: E402
from clients import Client, Publisher, Receiver  # noqa: E402
from judge import Broken, Stream, number_of  # noqa: E402
from loop import Loop  # noqa: E402

from brokers import Bridge, Broker, Mosquitto, Tautwire, until  # noqa: E402

RULES = '{ filter = "up/#", direction = "out", qos = 2 }, { filter = "down/#", direction = "in", qos = 2 }'
# Nothing is dropped because there is no space, and no client is refused because it connects too often.
ROOM = (
    "[limits]\nsession_queue_messages = 1000000\nsession_queue_bytes = 1073741824\nmemory_bytes = 2147483648\n"
    "memory_bytes_per_client = 1073741824\nflapping_disconnects = 0\n[sys]\ninterval_s = 0\n"
)
SILENCE_S = 60.0
LOOK_AGAIN_S = 0.1
# The most acknowledgements between two kills. Small numbers are as likely as large ones.
KILL_WITHIN = 2_000
# Acknowledgements between the last byte that passes the relay and the kill.
ON_THE_WAY = 60
# Published after the last kill of a broker that may lose what it has acknowledged.
EXTRA = 100


class Stopped(Publisher):
    """Publishes until its streams have so many messages."""

    most = 0

    def fill(self) -> None:
        self.world.is_loaded = any(stream.sent < self.most for stream in self.streams)
        super().fill()

    def next_message(self, packet_id: int):
        message = super().next_message(packet_id)
        self.world.is_loaded = any(stream.sent < self.most for stream in self.streams)
        return message


class Counting(Receiver):
    """Counts what arrives on each topic."""

    def __init__(self, world, name: str, filters: list[str], is_exact: bool) -> None:
        super().__init__(world, name, 5, filters)
        self.is_exact = is_exact
        self.arrived: dict[str, list[int]] = {}

    def on_in(self, is_present: bool) -> None:
        if not self.is_exact:
            # The broker may have forgotten that it has sent a message, and use its identifier for another one.
            self._held.clear()
            self.is_subscribed = False
        super().on_in(is_present)

    def on_message(self, message: wire.Publish) -> None:
        self.arrived.setdefault(message.topic, []).append(number_of(message.topic, message.payload))

    def judge(self, stream: Stream) -> list[str]:
        """What is wrong with a stream that has ended. The first arrivals are in order even if there are repetitions."""
        arrived = self.arrived.get(stream.topic, [])
        first = list(dict.fromkeys(arrived))
        said = []
        if self.is_exact and (lost := set(range(1, stream.sent + 1)) - set(first)):
            said.append(f"{len(lost)} of {stream.sent} messages on {stream.topic} were lost, such as {sorted(lost)[:5]}")
        if self.is_exact and stream.qos == 2 and (again := [number for number, count in Counter(arrived).items() if count > 1]):
            said.append(f"{len(again)} messages of QoS 2 on {stream.topic} arrived again, such as {again[:5]}")
        if self.is_exact and first != sorted(first):
            said.append(f"messages on {stream.topic} arrived in another order")
        return said

    def lacks(self, stream: Stream) -> bool:
        return len(set(self.arrived.get(stream.topic, []))) < stream.sent


class Site:
    """One broker with a publisher and a subscriber: the world of tests/soak/clients.py."""

    def __init__(self, broker: Broker, streams: list[Stream], arriving: str, rng: random.Random, loop: Loop, messages: int, is_exact: bool) -> None:
        self.broker, self.rng, self.loop = broker, rng, loop
        self.counts: Counter[str] = Counter()
        self.streams = {stream.topic: stream for stream in streams}
        self.is_loaded, self.is_killed, self.life, self.port = True, False, 0, 0
        self.acks = 0
        self.publisher = Stopped(self, "publisher", 5, streams)
        self.publisher.most = messages
        self.subscriber = Counting(self, "subscriber", [arriving], is_exact)
        self.is_exact = is_exact

    def acknowledged(self) -> None:
        self.acks += 1

    def start(self) -> None:
        self.broker.start()
        self.begin_life([self.subscriber, self.publisher])

    def begin_life(self, clients: list[Client]) -> None:
        """Clients connect to a broker that has started."""
        self.life, self.port, self.is_killed = self.life + 1, self.broker.port, False
        for each in clients:
            if not self.is_exact:
                # A broker that syncs nothing may forget sessions.
                each.known = None
            each.connect()

    def kill(self) -> None:
        self.is_killed = True
        self.broker.kill()
        for each in (self.subscriber, self.publisher):
            if each.connection:
                each.connection.read_to_end()
            each.cut()


class Trial:
    """Two sites, and kills of their brokers."""

    def __init__(self, folder: Path, peer: str, messages: int, seed: int) -> None:
        self.rng, self.loop = random.Random(seed), Loop()
        is_exact = peer == "tautwire"
        other: Broker = Tautwire(folder / "other", settings=ROOM) if is_exact else Mosquitto(folder / "other", autosaves=True)
        ours = Tautwire(folder / "ours", [Bridge([other.address], RULES)], settings=ROOM)
        self.up = [Stream("up/1", 1), Stream("up/2", 2)]
        self.down = [Stream("down/1", 1), Stream("down/2", 2)]
        each = self.messages = messages // 2
        self.sites = [
            Site(ours, self.up, "down/#", self.rng, self.loop, each, is_exact),
            Site(other, self.down, "up/#", self.rng, self.loop, each, is_exact),
        ]
        self.is_exact, self.kills = is_exact, 0

    def run(self, kills: int) -> None:
        try:
            for site in self.sites[::-1]:
                site.broker.start()
            # Before that, messages are for nobody.
            self._await_sessions()
            for site in self.sites:
                site.begin_life([site.subscriber])
            self._until(lambda: all(site.subscriber.is_subscribed for site in self.sites), "the subscriptions")
            for site in self.sites:
                site.publisher.connect()
            while self.kills < kills:
                at = self._acks() + int(math.exp(self.rng.uniform(0, math.log(KILL_WITHIN))))
                self._until(lambda: self._acks() >= at or not any(site.is_loaded for site in self.sites), "acknowledgements")
                self._kill()
                if not any(site.is_loaded for site in self.sites):
                    self._publish_more(self.messages)
            if not self.is_exact:
                self._until(lambda: all(site.subscriber.is_subscribed for site in self.sites), "the subscriptions")
                self._publish_more(EXTRA)
            self._until(self._is_done, "the rest")
        finally:
            for site in self.sites:
                site.broker.close()
        if said := self._wrong():
            raise Broken("; ".join(said))

    def _publish_more(self, count: int) -> None:
        for site in self.sites:
            site.publisher.most += count
            site.publisher.fill()

    def summary(self) -> str:
        arrived = [sum(len(numbers) for numbers in site.subscriber.arrived.values()) for site in self.sites]
        sent = [sum(stream.sent for stream in streams) for streams in (self.down, self.up)]
        return f"{self.kills} kills, {sent[1]} messages out and {sent[0]} in, {arrived[1]} and {arrived[0]} arrived"

    def _await_sessions(self) -> None:
        """Waits until the sessions of the bridge have their subscriptions."""
        ours, other = (site.broker for site in self.sites)
        assert isinstance(ours, Tautwire)
        until("the bridge has not subscribed", lambda: (ours.session() or {}).get("subscriptions"))
        if isinstance(other, Tautwire):
            until("the bridge has not subscribed", lambda: any(client["subscriptions"] for client in other.ask("GET", "/v1/clients")[1]["clients"]))

    def _kill(self) -> None:
        sites = self.rng.choice([[0], [1], [0, 1]])
        relay = self.sites[1].broker.relay
        if self.rng.random() < 0.5:
            # What the bridge sends from now on is lost with the connection.
            relay.freeze()
            at = self._acks() + ON_THE_WAY
            self._until(lambda: self._acks() >= at or not any(site.is_loaded for site in self.sites), "acknowledgements")
        for at in sites:
            self.sites[at].kill()
        relay.cut()
        relay.thaw()
        for at in sites:
            self.sites[at].start()
        self.kills += 1

    def _wrong(self) -> list[str]:
        pairs = zip(self.sites, (self.down, self.up))
        return [line for site, streams in pairs for stream in streams for line in site.subscriber.judge(stream)]

    def _lacking(self) -> str:
        said = self._wrong() + [line for site in self.sites if (line := site.publisher.lacking())]
        return "; ".join(said) or "nobody lacks anything"

    def _acks(self) -> int:
        return sum(site.acks for site in self.sites)

    def _is_done(self) -> bool:
        if any(site.is_loaded or not site.publisher.is_done() for site in self.sites):
            return False
        if not self.is_exact:
            return self._have_last_arrived()
        return not any(
            site.subscriber.lacks(stream) for site, streams in zip(self.sites, (self.down, self.up)) for stream in streams
        )

    def _have_last_arrived(self) -> bool:
        """Mosquitto may lose messages, but what is sent last, after all kills, arrives."""
        return all(
            stream.sent in site.subscriber.arrived.get(stream.topic, [])
            for site, streams in zip(self.sites, (self.down, self.up)) for stream in streams
        )

    def _until(self, holds, what: str) -> None:
        moved = time.monotonic()
        while not holds():
            if self.loop.turn(LOOK_AGAIN_S):
                moved = time.monotonic()
            elif time.monotonic() - moved > SILENCE_S:
                raise Broken(f"nothing arrived for {SILENCE_S:.0f} s, waiting for {what}: {self.summary()}; {self._lacking()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--messages", type=int, default=5_000, help="in each direction")
    parser.add_argument("--peer", choices=["tautwire", "mosquitto"], default="tautwire")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="tautwire-bridge-kills-") as folder:
        trial = Trial(Path(folder), options.peer, options.messages, seed)
        began = time.monotonic()
        try:
            trial.run(options.kills)
        except Broken as error:
            print(f"seed {seed}, {options.peer}: {error}")
            return 1
    print(f"seed {seed}, {options.peer}: {trial.summary()} in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
