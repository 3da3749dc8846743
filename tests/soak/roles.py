"""Other participants besides publishers and subscribers: shared subscriptions, retained messages, wills, sessions that end."""

from __future__ import annotations

from collections.abc import Callable

import wire
from clients import Client, Publisher, Receiver, Subscriber, UnderWay, World
from judge import DUE, EITHER, FORBIDDEN, HELD, Broken, Kept, Shared, Wills, number_of
from wire import Packet

# One of so many retained messages is empty.
CLEARS_EVERY = 4
# Longer than any test.
LONG_DELAY_S = 3_600
SHORT_DELAY_S = 1


class Member(Receiver):
    """One member of a shared subscription; `group` has what all of them have received, by topic."""

    def __init__(self, world: World, name: str, version: int, share: str, group: dict[str, Shared], lag: int) -> None:
        super().__init__(world, name, version, [f"$share/{share}/shared/#"], 2, lag)
        self._group = group

    def on_message(self, message: wire.Publish) -> None:
        stream = self.world.streams.get(message.topic)
        if stream is None or message.qos != stream.qos:
            raise Broken(f"{self.name} got a message on {message.topic} with QoS {message.qos}")
        number = number_of(message.topic, message.payload)
        self._group.setdefault(message.topic, Shared()).take(self.name, stream, number, message.qos)


class Worker(Member):
    """A member at QoS 1 that is slow, stuck or offline: its unacknowledged messages go to another one, too."""

    def __init__(
        self, world: World, name: str, share: str, group: dict[str, Shared], lag: int = 0, receive_maximum: int | None = None,
        clean: bool = False,
    ) -> None:
        super().__init__(world, name, 5, share, group, lag)
        self.qos, self.receive_maximum, self._clean = 1, receive_maximum, clean

    def connect(self, clean: bool = False, will: wire.Will | None = None) -> None:
        super().connect(clean or self._clean, will)

    def on_message(self, message: wire.Publish) -> None:
        stream = self.world.streams.get(message.topic)
        if stream is None or message.qos != 1:
            raise Broken(f"{self.name} got a message on {message.topic} with QoS {message.qos}")
        number = number_of(message.topic, message.payload)
        self._group.setdefault(message.topic, Shared()).take(self.name, stream, number, message.qos)


class Keeper(Publisher):
    """Sets and clears retained messages."""

    def __init__(self, world: World, name: str, version: int, topics: list[Kept]) -> None:
        super().__init__(world, name, version, [])
        self._topics = topics

    def next_message(self, packet_id: int) -> UnderWay:
        place = self.world.rng.randrange(len(self._topics))
        kept, qos = self._topics[place], 1 + place % 2
        payload = kept.next_payload(clears=self.world.rng.randrange(CLEARS_EVERY) == 0)
        packet = wire.publish(kept.topic, payload, version=self.version, qos=qos, packet_id=packet_id, retain=True)
        return UnderWay(packet, qos, kept, kept.sent)

    def on_acknowledged(self, each: UnderWay) -> None:
        super().on_acknowledged(each)
        if isinstance(each.stream, Kept):
            each.stream.acknowledge(each.number)


class Looker(Client):
    """A new subscriber that reads retained messages. Keepers connect only after it has seen everything: `on_seen`.

    It subscribes twice. When all due messages have arrived for the second time, the first look is complete.
    """

    def __init__(self, world: World, name: str, version: int, topics: dict[str, Kept], on_seen: Callable[[], None]) -> None:
        super().__init__(world, name, version)
        self._topics, self._on_seen = topics, on_seen
        # The number of looks that were started, and that the broker has confirmed.
        self._asked, self._looks = 0, 0
        self._seen, self._missing = set[str](), set[str]()

    def look(self) -> None:
        self._looks, self._seen = 0, set()
        self.connect(clean=True)

    def is_done(self) -> bool:
        return self._looks == 2 and not self._missing

    def lacking(self) -> str:
        return "" if self.is_done() else f"{self.name} lacks retained messages: {', '.join(sorted(self._missing)) or 'no SUBACK came'}"

    def on_in(self, is_present: bool) -> None:
        self._subscribe()

    def on_packet(self, taken: Packet) -> None:
        if taken.type == wire.SUBACK:
            self._looks += 1
        elif taken.type == wire.PUBLISH:
            self._see(wire.parse_publish(taken, self.version), bool(taken.flags & 1))
        else:
            super().on_packet(taken)
        if self._looks and not self._missing and self._looks == self._asked:
            self._next()

    def _subscribe(self) -> None:
        self._asked = self._looks + 1
        self._missing = {name for name, kept in self._topics.items() if not kept.may_be_absent()}
        self.send(wire.subscribe(["kept/#"], version=self.version, qos=0, packet_id=self._asked))

    def _see(self, message: wire.Publish, is_retained: bool) -> None:
        kept = self._topics.get(message.topic)
        if kept is None or not is_retained:
            raise Broken(f"{self.name} got a message on {message.topic} that is not retained")
        kept.see(message.payload)
        self._seen.add(message.topic)
        self._missing.discard(message.topic)

    def _next(self) -> None:
        if self._looks == 1:
            self._subscribe()
            return
        for name in self._topics.keys() - self._seen:
            self._topics[name].miss()
        self.cut()
        self.is_away = True
        self.world.counts["looks at all retained messages"] += 1
        self._on_seen()


class Mortal(Client):
    """A client with a different will on each connection.

    Without a delay, the will is due whenever the connection is lost. After a short delay it is due as well: the client stays
    offline until it has arrived. With a long delay it is discarded, because the client reconnects before [MQTT-3.1.3-9].
    """

    def __init__(self, world: World, name: str, version: int, wills: Wills, clean: bool = False, delay_s: int = 0) -> None:
        super().__init__(world, name, version)
        self._wills, self._clean, self._delay_s = wills, clean, delay_s
        self._count = 0
        self._will: str | None = None
        # Wills that the next CONNACK discards.
        self._discarded: list[str] = []
        # The will of the connection that was closed cleanly, and when.
        self._left: tuple[str, int] | None = None

    def begin(self) -> None:
        self._count += 1
        if self._will and self._delay_s == LONG_DELAY_S:
            self._discarded.append(self._will)
        self._will = f"{self.name}-{self._count}"
        self._wills.decide(self._will, EITHER)
        properties = b"\x18" + self._delay_s.to_bytes(4) if self._delay_s else b""
        self.connect(self._clean, wire.Will(f"will/{self.name}", self._will.encode(), properties, qos=2))

    def waits_for_its_will(self) -> bool:
        return self._delay_s == SHORT_DELAY_S and self._will is not None and self._wills.is_due(self._will)

    def on_in(self, is_present: bool) -> None:
        assert self._will
        self._wills.decide(self._will, HELD)
        for each in self._discarded:
            self._wills.decide(each, FORBIDDEN)
        self._discarded.clear()
        if self._left and self._left[1] == self.world.life:
            # The broker has recorded the disconnect before it accepted the client again.
            self._wills.decide(self._left[0], FORBIDDEN)
        self._left = None

    def forget_connection(self) -> None:
        if self.is_in and self._will and self._wills.fate[self._will] == HELD:
            self._wills.decide(self._will, EITHER if self._delay_s == LONG_DELAY_S else DUE)
        super().forget_connection()

    def leave(self) -> None:
        super().leave()
        # DISCONNECT is not acknowledged: if the broker is killed now, the will may be published.
        if self._will:
            self._wills.decide(self._will, EITHER)

    def on_left(self) -> None:
        if self._will:
            self._left = (self._will, self.world.life)


class Watcher(Receiver):
    """Receives all wills."""

    def __init__(self, world: World, name: str, version: int, wills: Wills) -> None:
        super().__init__(world, name, version, ["will/#"], 2)
        self._wills = wills

    def on_message(self, message: wire.Publish) -> None:
        self._wills.take(message.payload.decode())

    def is_done(self) -> bool:
        return super().is_done() and not self._wills.missing()

    def lacking(self) -> str:
        missing = self._wills.missing()
        return f"{self.name} lacks the wills {', '.join(missing[:8])}" if missing else super().lacking()


class Nomad(Subscriber):
    """Has a session for a while, ends it, and starts another. A session that ended must not reappear."""

    def __init__(self, world: World, name: str, version: int, filters: list[str]) -> None:
        super().__init__(world, name, version, filters)
        self._ends = False

    def end_session(self) -> None:
        """Connects so that the session ends with this connection."""
        self._ends = True
        self.cut()
        self.connect(clean=True)

    def on_in(self, is_present: bool) -> None:
        if self._ends:
            self._ends = False
            self._held.clear()
            self.is_subscribed = False
            self.on_new_session()
            self.leave()
        else:
            super().on_in(is_present)
