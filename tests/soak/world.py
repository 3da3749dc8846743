"""All clients, and the lives of the broker: load, a kill, and load again."""

from __future__ import annotations

import math
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import broker as brokers
from clients import Client, Publisher, Receiver, Subscriber
from judge import Broken, Kept, Shared, Stream, Wills
from loop import Loop
from roles import LONG_DELAY_S, SHORT_DELAY_S, Keeper, Looker, Member, Mortal, Nomad, Watcher, Worker

# The maximum number of acknowledgements between a start and a kill. Small numbers are as likely as large ones, so that some kills
# happen while clients reconnect.
KILL_WITHIN = 4_000
# The number of acknowledgements between two clients that connect or disconnect.
RESTLESS_EVERY = 25
# One of so many starts is killed before it is complete.
KILLED_STARTS_EVERY = 20
# The maximum silence while something is due. Longer than the delays of wills, and than the stalls of a busy disk.
SILENCE_S = 60.0
LOOK_AGAIN_S = 0.1
PUBLISHERS, TOPICS_EACH, KEPT_TOPICS = 6, 2, 12
# Nothing is dropped because memory is short.
SETTINGS: dict[str, object] = {
    "limits.session_queue_messages": 1_000_000,
    "limits.session_queue_bytes": 1 << 30,
    "limits.memory_bytes": 4 << 30,
    "limits.memory_bytes_per_client": 2 << 30,
    "limits.shared_queue_bytes": 1 << 30,
    "mqtt.shared_ack_timeout_s": 1,
    "sys.interval_s": 0,
}
# Such a client acknowledges nothing under load.
NEVER = 1 << 30


class World:
    """The clients of one broker, which persists its state in `folder`."""

    def __init__(self, executable: Path, folder: Path, threads: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.streams: dict[str, Stream] = {}
        self.is_loaded, self.is_killed, self.life = False, False, 0
        self._executable, self._folder, self._threads = executable, folder, threads
        self._acknowledged, self._kill_at, self._restless_at = 0, 0, 0
        self._broker: brokers.Broker | None = None
        self._wills = Wills()
        self._kept = {name: Kept(name) for name in (f"kept/{number}" for number in range(KEPT_TOPICS))}
        self._people()

    def _people(self) -> None:
        self._publishers = [self._publisher(number) for number in range(PUBLISHERS)]
        self._subscribers: list[Receiver] = [
            Subscriber(self, "all-5", 5, ["plain/#"], lag=3),
            Subscriber(self, "all-3", 4, ["plain/#"]),
            Subscriber(self, "all-5-qos1", 5, ["plain/#"], qos=1, lag=8),
            Subscriber(self, "some-3-qos1", 4, ["plain/0/#", "plain/3/#"], qos=1),
        ]
        # The messages that each group has received, by topic.
        self._groups: dict[str, dict[str, Shared]] = {"pair": {}, "trio": {}}
        for (share, group), size in zip(self._groups.items(), (2, 3)):
            self._subscribers += [
                Member(self, f"{share}-{number}", (4, 5)[number % 2], share, group, lag=number * 2) for number in range(size)
            ]
        crew = self._groups["crew"] = {}
        self._subscribers += [
            Worker(self, "crew-prompt", "crew", crew),
            Worker(self, "crew-one", "crew", crew, receive_maximum=1),
            Worker(self, "crew-slow", "crew", crew, lag=5, receive_maximum=10),
            Worker(self, "crew-stuck", "crew", crew, lag=NEVER, receive_maximum=20),
            Worker(self, "crew-fleeting", "crew", crew, lag=3, receive_maximum=20, clean=True),
        ]
        self._nomads = [Nomad(self, f"nomad-{version}", version, ["plain/1/#"]) for version in (4, 5)]
        self._watcher = Watcher(self, "watcher", 5, self._wills)
        self._mortals = [
            Mortal(self, "mortal-3", 4, self._wills),
            Mortal(self, "mortal-3-clean", 4, self._wills, clean=True),
            Mortal(self, "mortal-5", 5, self._wills),
            Mortal(self, "mortal-5-clean", 5, self._wills, clean=True),
            Mortal(self, "mortal-5-short", 5, self._wills, delay_s=SHORT_DELAY_S),
            Mortal(self, "mortal-5-long", 5, self._wills, delay_s=LONG_DELAY_S),
        ]
        topics = list(self._kept.values())
        half = len(topics) // 2
        self._keepers = [Keeper(self, "keeper-3", 4, topics[:half]), Keeper(self, "keeper-5", 5, topics[half:])]
        self._looker = Looker(self, "looker", 5, self._kept, self._have_keepers_in)

    def _publisher(self, number: int) -> Publisher:
        streams = []
        for place in range(TOPICS_EACH):
            for kind in ("plain", "shared"):
                stream = Stream(f"{kind}/{number}/{place}", 1 + (number + place) % 2)
                self.streams[stream.topic] = stream
                streams.append(stream)
        return Publisher(self, f"publisher-{number}", (4, 5)[number % 2], streams)

    def _everyone(self) -> list[Client]:
        return [
            *self._publishers, *self._keepers, *self._subscribers, *self._nomads, self._watcher, *self._mortals, self._looker
        ]

    # Callbacks of the clients.

    def acknowledged(self) -> None:
        self.counts["acknowledgements"] += 1
        self._acknowledged += 1
        if self._acknowledged == self._kill_at:
            self._broker.process.kill()
            self.is_killed = True

    def _have_keepers_in(self) -> None:
        for keeper in self._keepers:
            if not keeper.connection and not self.is_killed:
                keeper.connect()

    # The lives of the broker.

    def settle_in(self) -> None:
        """The first life, until all permanent clients have their subscriptions. It ends with a kill like all others."""
        self._start()
        for each in [*self._subscribers, self._watcher]:
            each.connect()
        self._run_until(lambda: all(each.is_subscribed for each in [*self._subscribers, self._watcher]), "the first subscriptions")
        self.is_loaded = True
        self._kill()

    def run_until_killed(self) -> None:
        """Starts the broker, reconnects all clients under load, and kills it at some acknowledgement."""
        if self.rng.randrange(KILLED_STARTS_EVERY) == 0:
            self._kill_while_starting()
        self._kill_at = int(math.exp(self.rng.uniform(0, math.log(KILL_WITHIN))))
        self._start()
        self._all_come_back()
        self._run_until(lambda: self.is_killed, "acknowledgements")
        self._kill()

    def check(self) -> None:
        """A life that ends when nothing is pending: all published messages have arrived, and the last ones are retained."""
        self._kill_at = -1
        self._start()
        self._drain()
        self._kill()

    def end_in_order(self) -> None:
        """All clients disconnect, the broker stops and starts: nothing is lost, and nothing arrives again."""
        self._kill_at = -1
        self._start()
        self._drain()
        self.is_loaded = False
        for each in self._everyone():
            if each.connection:
                each.leave()
        self._run_until(lambda: not any(each.connection for each in self._everyone()), "the end of all connections")
        if wrong := self._broker.end():
            raise Broken(wrong)
        self.loop.end()
        delivered = self.counts["messages delivered"]
        self._start()
        self._drain()
        again = self.counts["messages delivered"] - delivered
        if again:
            raise Broken(f"{again} messages arrived again that had been acknowledged before all clients left and the broker was stopped")
        self._kill()

    def give_up(self) -> None:
        """Kills the broker process."""
        if self._broker:
            self._broker.process.kill()
            self._broker.process.wait()

    def _start(self) -> None:
        self.life += 1
        self._acknowledged, self._restless_at, self.is_killed = 0, RESTLESS_EVERY, False
        # Two logs in turn: the log of the last killed broker is preserved.
        name = f"soak-{self._threads}-{self.life % 2}"
        began = time.monotonic()
        self._broker = brokers.start(self._executable, name, SETTINGS | {"data.path": self._folder}, self._threads, False)
        self.counts["longest start in ms"] = max(self.counts["longest start in ms"], int((time.monotonic() - began) * 1000))
        self.loop, self.port = Loop(), self._broker.port

    def _kill(self) -> None:
        self.is_killed = True
        self._broker.process.kill()
        self._broker.process.wait()
        self.loop.end()
        for each in self._everyone():
            each.forget_connection()
        self.counts["kills"] += 1

    def _kill_while_starting(self) -> None:
        """Kills it after it has changed the names in its directory so many times, or later."""
        changes, left = 0, self.rng.randrange(4)
        command = [str(self._executable), "serve", "--listen", "127.0.0.1:0", "--threads", str(self._threads)]
        command += ["--set", f"data.path={self._folder}", "--set", "log.level=error"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        names = sorted(os.listdir(self._folder))
        deadline = time.monotonic() + SILENCE_S
        while changes < left and not process.stdout.read(1) and time.monotonic() < deadline:
            now = sorted(os.listdir(self._folder))
            changes, names = changes + (now != names), now
        process.kill()
        process.wait()
        process.stdout.close()
        self.counts["kills while starting"] += 1

    def _all_come_back(self) -> None:
        returning = [each for each in self._everyone() if not each.is_away or self.rng.random() < 0.5]
        self.rng.shuffle(returning)
        for each in returning:
            self._have_in(each)
        if self._looker not in returning:
            self._looker.look()

    def _have_in(self, each: Client) -> None:
        if isinstance(each, Looker):
            each.look()
        elif isinstance(each, Mortal):
            if not each.waits_for_its_will():
                each.begin()
        elif not isinstance(each, Keeper):
            # Keepers connect after the looker has seen their retained messages.
            each.connect()

    def _drain(self) -> None:
        self.is_loaded = False
        for each in self._everyone():
            self._have_in(each)
        everyone = self._everyone()
        self._run_until(lambda: all(each.is_done() for each in everyone) and self._shared_is_done(), "what is due")
        # Now the last retained version is known.
        self._looker.look()
        self._run_until(self._looker.is_done, "what is retained")
        self.is_loaded = True

    def _shared_is_done(self) -> bool:
        return not any(self._lacks_of_shares())

    def _lacks_of_shares(self) -> list[str]:
        return [
            f"{lacking} on {stream.topic} arrived at no member of {share}"
            for share, group in self._groups.items() for stream in self.streams.values()
            if stream.topic.startswith("shared/") and (lacking := group.setdefault(stream.topic, Shared()).lacks(stream))
        ]

    def _run_until(self, holds: Callable[[], bool], what: str) -> None:
        moved_at = time.monotonic()
        while not holds():
            if self.loop.turn(LOOK_AGAIN_S):
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > SILENCE_S:
                lacking = [said for each in self._everyone() if (said := each.lacking())] + self._lacks_of_shares()
                raise Broken(f"nothing arrived for {SILENCE_S:.0f} s; waiting for {what}: {'; '.join(lacking) or 'nobody lacks anything'}")
            if self.is_loaded and self._acknowledged >= self._restless_at and not self.is_killed:
                self._restless_at = self._acknowledged + RESTLESS_EVERY
                self._move_somebody()

    # Clients that connect and disconnect.

    def _move_somebody(self) -> None:
        each = self.rng.choice([*self._subscribers, *self._nomads, *self._mortals, self.rng.choice(self._publishers)])
        if not each.connection:
            self._have_in(each)
        elif each.is_away or not each.is_in:
            # It is already connecting or disconnecting.
            return
        elif isinstance(each, Publisher):
            each.cut()
            each.connect()
        elif isinstance(each, Nomad) and self.rng.random() < 0.5:
            each.end_session()
            self.counts["sessions ended"] += 1
        elif self.rng.random() < 0.5:
            each.leave()
        else:
            each.cut()
            each.is_away = True
