"""Our own clients of a cluster: many in one loop. `own.py FILE` reads their roles from a file, and commands from
standard input.

Each has one client identifier and a persistent session, and keeps its session state over all connections. When a
connection is refused, ends or is silent, it connects to the next broker.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "mqtt"))

import wire  # noqa: E402
from loop import Connection, Loop  # noqa: E402
from said import number_of, payload_of, say  # noqa: E402
from wire import Packet  # noqa: E402

DUP, RETAIN = 0x08, 0x01
SESSION_PRESENT = 0x01
# CONNACK may wait for the session's previous owner.
CONNECT_WAIT_S = 5.0
# A broker is abandoned after this silence, although its socket is open.
SILENCE_S, PING_EVERY_S = 3.0, 1.0
# The delay between two attempts of one client.
AGAIN_S = 0.15
# How often and how long a mover sends PINGREQ on its old connection.
STALE_EVERY_S, STALE_S = 0.3, 15.0
STALE_IDS = range(60_000, 60_500)
# The maximum delay of acknowledgements that are held back.
LATE_S = 0.4
# The session of a client that does not return outlives the delay of its will, whatever fails meanwhile.
SURVIVES_S = 600
# One of so many retained messages is empty; how long a looker stays.
CLEARS_EVERY, LOOK_S = 4, 0.5


class World:
    """All clients of this process."""

    def __init__(self, config: dict) -> None:
        self.loop = Loop()
        self.rng = random.Random(config["seed"])
        self.brokers: list[dict] = config["brokers"]
        self.is_loaded = True
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = count()
        self.clients = [ROLES[each["role"]](self, each) for each in config["clients"]]

    def after(self, wait_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + wait_s, next(self._ties), do))

    def run(self) -> None:
        os.set_blocking(0, False)
        for client in self.clients:
            client.start()
        commands, input_ = {"quiet": self._quiet, "move": self._move, "fence": self._fence}, b""
        while True:
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()
            self.loop.turn(max(0.0, min(0.05, self._timers[0][0] - now)) if self._timers else 0.05)
            if (read := _read_command()) is not None:
                if not read:
                    return
                *lines, input_ = (input_ + read).split(b"\n")
                for line in lines:
                    commands[line.decode()]()

    def _quiet(self) -> None:
        """Publishing and moving stop."""
        self.is_loaded = False

    def _move(self) -> None:
        """Every client connects to another broker."""
        for client in self.clients:
            client.cut()

    def _fence(self) -> None:
        """One more message on each topic."""
        for client in self.clients:
            client.fence()


def _read_command() -> bytes | None:
    try:
        return os.read(0, 4096)
    except BlockingIOError:
        return None


class Link:
    """One connection of a client, or an attempt."""

    def __init__(self, client: Client, number: int, broker: dict) -> None:
        self.client, self.number = client, number
        self.is_in = self.is_over = False
        # The numbers of unanswered PINGREQs; the time of the last received packet.
        self.pings: deque[int] = deque()
        self._pinged = 0
        self.heard_at = time.monotonic()
        self.reason: int | None = None
        say(client.who, "connect", link=number, to=broker["name"], version=client.version, clean=client.is_clean)
        self.connection: Connection | None = None
        try:
            self.connection = Connection(client.world.loop, (broker["host"], broker["port"]), self._on_packet, self._on_end)
        except OSError:
            client.world.after(0, self._on_end)

    def send(self, data: bytes) -> None:
        if self.connection:
            self.connection.send(data)

    def ping(self) -> None:
        self._pinged += 1
        self.pings.append(self._pinged)
        say(self.client.who, "ping", link=self.number, number=self._pinged)
        self.send(wire.PING)

    def cut(self) -> None:
        """Closes without DISCONNECT."""
        if not self.is_over:
            if self.connection:
                self.connection.close()
            self._end("cut")

    def _on_packet(self, taken: Packet) -> None:
        self.heard_at = time.monotonic()
        if taken.type == wire.PINGRESP:
            say(self.client.who, "pong", link=self.number, number=self.pings.popleft())
        elif taken.type == wire.DISCONNECT:
            self.reason = taken.reason
        else:
            self.client.on_packet(self, taken)

    def _on_end(self) -> None:
        self._end("closed")

    def _end(self, what: str) -> None:
        if not self.is_over:
            self.is_over = True
            say(self.client.who, what, link=self.number, reason=self.reason)
            self.client.on_end(self)


class Client:
    """One Client Identifier."""

    def __init__(self, world: World, spec: dict) -> None:
        self.world, self.who, self.version = world, spec["who"], spec["version"]
        self.at = spec["home"]
        self.receive_maximum: int | None = spec.get("receive_maximum")
        self.is_clean = False
        # The session expiry interval in MQTT 5.0.
        self.expiry_s = wire.FOR_EVER_S
        # How often it changes the broker on purpose: its session is taken over.
        self.moves_s: float | None = spec.get("moves_s")
        self.links = 0
        # The active connection, and the one that may replace it.
        self.link: Link | None = None
        self.next: Link | None = None

    def start(self) -> None:
        self.connect()
        self.world.after(PING_EVERY_S, self._look)
        if self.moves_s:
            self._move_on()

    @property
    def is_in(self) -> bool:
        return self.link is not None and self.link.is_in

    def send(self, data: bytes) -> None:
        if self.link:
            self.link.send(data)

    def connect(self) -> None:
        if self.next:
            return
        self.links += 1
        link = self.next = Link(self, self.links, self.world.brokers[self.at % len(self.world.brokers)])
        link.send(wire.connect(
            self.client_id(link), version=self.version, clean=self.is_clean, expiry_s=self.expiry_s if self.version == 5 else 0,
            receive_maximum=self.receive_maximum if self.version == 5 else None, will=self.will_of(link),
        ))
        self.world.after(CONNECT_WAIT_S, lambda: None if link.is_in else link.cut())

    def move(self) -> None:
        """Connects to the next broker."""
        self.at += 1
        if self.link and not self.moves_s:
            self.link.cut()
        else:
            self.connect()

    def cut(self) -> None:
        """Closes without DISCONNECT, and connects to the next broker."""
        self.at += 1
        for link in (self.next, self.link):
            if link:
                link.cut()

    def _move_on(self) -> None:
        assert self.moves_s
        self.world.after(self.moves_s * self.world.rng.uniform(0.5, 1.5), self._move_on)
        if self.world.is_loaded and self.is_in and not self.next:
            self.move()

    def fence(self) -> None:
        """Publishers publish once more."""

    def on_packet(self, link: Link, taken: Packet) -> None:
        if taken.type == wire.CONNACK and link is self.next:
            self._on_connack(link, taken)
        elif link is self.link:
            self.take(taken)
        else:
            self.on_stale(link, taken)

    def _on_connack(self, link: Link, taken: Packet) -> None:
        if taken.body[1] != wire.SUCCESS:
            say(self.who, "refused", link=link.number, reason=taken.body[1])
            link.cut()
            return
        former, self.link, self.next = self.link, link, None
        link.is_in = True
        is_present = bool(taken.body[0] & SESSION_PRESENT)
        say(self.who, "connected", link=link.number, present=is_present)
        self.on_in(is_present)
        if former:
            self.on_left_behind(former)

    def on_end(self, link: Link) -> None:
        if link is self.next:
            self.next = None
            self.at += 1
        elif link is self.link:
            self.link = None
        else:
            return
        if not self.link:
            self.world.after(AGAIN_S * self.world.rng.uniform(0.5, 1.5), lambda: None if self.link else self.connect())

    def client_id(self, link: Link) -> str:
        return self.who

    def will_of(self, link: Link) -> wire.Will | None:
        """The will of this connection."""
        return None

    def on_in(self, is_present: bool) -> None:
        """CONNACK has arrived."""

    def take(self, taken: Packet) -> None:
        """Handles a packet of the active connection."""

    def on_left_behind(self, link: Link) -> None:
        """Another connection is active from now on."""
        link.cut()

    def on_stale(self, link: Link, taken: Packet) -> None:
        """Handles a packet of an old connection. If it is not an answer, it may have been in the socket before."""

    def _look(self) -> None:
        self.world.after(PING_EVERY_S, self._look)
        if not self.is_in:
            return
        if time.monotonic() - self.link.heard_at > SILENCE_S and not self.next:
            self.move()
        else:
            self.link.ping()


@dataclass
class UnderWay:
    """A message without a final acknowledgement."""

    topic: str
    number: int
    qos: int
    packet: bytes
    is_received: bool = False


class Publisher(Client):
    """Keeps a window of messages in flight, and sends unacknowledged ones again after a reconnection
    [MQTT-4.4.0-1]."""

    def __init__(self, world: World, spec: dict) -> None:
        super().__init__(world, spec)
        self.topics: list[list] = spec["topics"]
        self._window, self._every_s = spec["window"], 1 / spec["rate"]
        self._sent = {topic: 0 for topic, _ in self.topics}
        self.under_way: dict[int, UnderWay] = {}
        self._next_id = 1

    def start(self) -> None:
        super().start()
        self._publish_on()

    def _publish_on(self) -> None:
        self.world.after(self._every_s, self._publish_on)
        if self.is_in and self.world.is_loaded and len(self.under_way) < self._window:
            self._publish(*self.world.rng.choice(self.topics))

    def _publish(self, topic: str, qos: int) -> None:
        self._sent[topic] += 1
        while self._next_id in self.under_way:
            self._next_id = self._next_id % 200 + 1
        packet_id, self._next_id = self._next_id, self._next_id % 200 + 1
        payload = payload_of(topic, self._sent[topic])
        packet = self.packet_of(topic, payload, self._sent[topic], qos, packet_id)
        each = self.under_way[packet_id] = UnderWay(topic, self._sent[topic], qos, packet)
        self._say(each)
        self.send(packet)

    def packet_of(self, topic: str, payload: bytes, _number: int, qos: int, packet_id: int) -> bytes:
        return wire.publish(topic, payload, version=self.version, qos=qos, packet_id=packet_id)

    def _say(self, each: UnderWay) -> None:
        link = self.link.number if self.link else None
        say(self.who, "publish", topic=each.topic, number=each.number, qos=each.qos, link=link)

    def fence(self) -> None:
        for topic, qos in self.topics:
            self._publish(topic, qos)

    def on_in(self, is_present: bool) -> None:
        for packet_id, each in self.under_way.items():
            if each.is_received:
                self.send(wire.acknowledge(wire.PUBREL, packet_id))
            else:
                self._say(each)
                self.send(bytes([each.packet[0] | DUP]) + each.packet[1:])

    def take(self, taken: Packet) -> None:
        each = self.under_way.get(taken.packet_id)
        if each is None or taken.type not in (wire.PUBACK, wire.PUBREC, wire.PUBCOMP):
            return
        is_refused = taken.type != wire.PUBCOMP and taken.reason >= wire.FIRST_ERROR
        if taken.type != wire.PUBCOMP and not each.is_received:
            say(self.who, "acknowledged", topic=each.topic, number=each.number, link=self.link.number, reason=taken.reason)
        if taken.type == wire.PUBREC and not is_refused:
            each.is_received = True
            self.send(wire.acknowledge(wire.PUBREL, taken.packet_id))
        else:
            del self.under_way[taken.packet_id]


class Subscriber(Client):
    """Acknowledges messages; `lag` acknowledgements are held back, so that the window is never empty."""

    def __init__(self, world: World, spec: dict) -> None:
        super().__init__(world, spec)
        self.filter, self.qos, self._lag = spec["filter"], spec["qos"], spec.get("lag", 0)
        # Identifiers of QoS 2 messages that have not been released [MQTT-4.3.3-10].
        self._held: set[int] = set()
        self._late: list[bytes] = []
        # The state of the subscription according to the last SUBACK or UNSUBACK, and the desired one.
        self.is_subscribed, self.wants = False, True

    def start(self) -> None:
        super().start()
        self._catch_up_on()

    def on_in(self, is_present: bool) -> None:
        self._late.clear()
        if not is_present:
            self._held.clear()
            self.is_subscribed = False
        self.ask()

    def ask(self) -> None:
        if not self.is_in or self.is_subscribed == self.wants:
            return
        if self.wants:
            say(self.who, "subscribe", filter=self.filter, qos=self.qos)
            self.send(wire.subscribe([self.filter], version=self.version, qos=self.qos))
        else:
            say(self.who, "unsubscribe", filter=self.filter)
            self.send(wire.unsubscribe([self.filter], version=self.version))

    def take(self, taken: Packet) -> None:
        if taken.type == wire.SUBACK:
            say(self.who, "subscribed", filter=self.filter, reason=wire.suback_codes(taken, self.version)[0])
            self.is_subscribed = True
        elif taken.type == wire.UNSUBACK:
            say(self.who, "unsubscribed", filter=self.filter)
            self.is_subscribed = False
        elif taken.type == wire.PUBREL:
            self._held.discard(taken.packet_id)
            self._answer(wire.acknowledge(wire.PUBCOMP, taken.packet_id))
        elif taken.type == wire.PUBLISH:
            self._receive(wire.parse_publish(taken, self.version))

    def _receive(self, message: wire.Publish) -> None:
        if message.qos != 2 or message.packet_id not in self._held:
            say(self.who, "message", topic=message.topic, number=number_of(message.topic, message.payload), qos=message.qos)
        if message.qos == 2:
            self._held.add(message.packet_id)
            self._answer(wire.acknowledge(wire.PUBREC, message.packet_id))
        elif message.qos == 1:
            self._answer(wire.acknowledge(wire.PUBACK, message.packet_id))

    def _answer(self, packet: bytes) -> None:
        self._late.append(packet)
        if len(self._late) > self._lag:
            self._catch_up()

    def _catch_up(self) -> None:
        if self._late:
            self.send(b"".join(self._late))
            self._late.clear()

    def _catch_up_on(self) -> None:
        self.world.after(LATE_S, self._catch_up_on)
        self._catch_up()


class Mover(Subscriber):
    """Lets its old connections be taken over, also those to silent brokers, and records what these still
    answer."""

    def __init__(self, world: World, spec: dict) -> None:
        super().__init__(world, spec)
        self._topic = f"stale/{self.who}"
        self._sent = 0
        self._asked: dict[tuple[int, int], int] = {}

    def on_left_behind(self, link: Link) -> None:
        self._ask_stale(link, time.monotonic() + STALE_S)

    def _ask_stale(self, link: Link, until: float) -> None:
        if link.is_over:
            return
        if time.monotonic() > until:
            link.cut()
            return
        link.ping()
        self._sent += 1
        packet_id = STALE_IDS[self._sent % len(STALE_IDS)]
        self._asked[link.number, packet_id] = self._sent
        say(self.who, "publish", topic=self._topic, number=self._sent, qos=1, link=link.number)
        payload = payload_of(self._topic, self._sent)
        link.send(wire.publish(self._topic, payload, version=self.version, qos=1, packet_id=packet_id))
        self.world.after(STALE_EVERY_S, lambda: self._ask_stale(link, until))

    def on_stale(self, link: Link, taken: Packet) -> None:
        if taken.type == wire.PUBACK and (number := self._asked.get((link.number, taken.packet_id))):
            say(self.who, "acknowledged", topic=self._topic, number=number, link=link.number, reason=taken.reason)


class Fickle(Subscriber):
    """Alternates between subscribing and unsubscribing."""

    def __init__(self, world: World, spec: dict) -> None:
        super().__init__(world, spec)
        self._every_s: float = spec["changes_s"]

    def start(self) -> None:
        super().start()
        self._change_on()

    def _change_on(self) -> None:
        self.world.after(self._every_s * self.world.rng.uniform(0.5, 1.5), self._change_on)
        # Only when the last change has been confirmed.
        if self.world.is_loaded and self.is_in and self.is_subscribed == self.wants:
            self.wants = not self.wants
            self.ask()


class Keeper(Publisher):
    """Sets retained messages, and sometimes clears them. It waits for each acknowledgement: a repeated older
    message, which QoS 1 allows, would be retained again.
    """

    def packet_of(self, topic: str, payload: bytes, number: int, qos: int, packet_id: int) -> bytes:
        kept = b"" if number % CLEARS_EVERY == 0 else payload
        return wire.publish(topic, kept, version=self.version, qos=qos, packet_id=packet_id, retain=True)

    def fence(self) -> None:
        """The last one remains retained."""
        for topic, qos in self.topics:
            if (self._sent[topic] + 1) % CLEARS_EVERY == 0:
                self._publish(topic, qos)
            self._publish(topic, qos)


class Looker(Client):
    """Reads retained messages, on one connection after the other, at all brokers in turn."""

    def __init__(self, world: World, spec: dict) -> None:
        super().__init__(world, spec)
        self.is_clean, self.expiry_s = True, 0
        self._filter = spec["filter"]

    def on_in(self, is_present: bool) -> None:
        link = self.link
        assert link
        say(self.who, "look", link=link.number)
        link.send(wire.subscribe([self._filter], version=self.version, qos=0))
        self.at += 1
        self.world.after(LOOK_S, lambda: self._leave(link))

    def take(self, taken: Packet) -> None:
        if taken.type == wire.PUBLISH and taken.flags & RETAIN:
            message = wire.parse_publish(taken, self.version)
            say(self.who, "saw", link=self.link.number, topic=message.topic, number=number_of(message.topic, message.payload))

    def _leave(self, link: Link) -> None:
        if not link.is_over:
            link.send(wire.BYE)


class Mortal(Client):
    """Has a different will on each connection, and ends each without DISCONNECT. With a delay it reconnects with
    another client identifier: its own return would cancel the will [MQTT-3.1.3-9]."""

    def __init__(self, world: World, spec: dict) -> None:
        super().__init__(world, spec)
        self._topic, self._qos, self._stays_s = spec["topic"], spec["will_qos"], spec["stays_s"]
        self._delay_s: int = spec.get("delay_s", 0)
        if self._delay_s:
            self.is_clean, self.expiry_s = True, SURVIVES_S

    def client_id(self, link: Link) -> str:
        return f"{self.who}-{link.number}" if self._delay_s else self.who

    def will_of(self, link: Link) -> wire.Will:
        say(self.who, "will", link=link.number, topic=self._topic, number=link.number, qos=self._qos, delay_s=self._delay_s)
        properties = wire.will_delay(self._delay_s) if self._delay_s else b""
        return wire.Will(self._topic, payload_of(self._topic, link.number), properties, self._qos)

    def on_in(self, is_present: bool) -> None:
        link = self.link
        self.world.after(self._stays_s * self.world.rng.uniform(0.5, 1.5), lambda: self._die(link))

    def _die(self, link: Link | None) -> None:
        if self.world.is_loaded and link is self.link:
            self.cut()


ROLES = {
    "publisher": Publisher, "subscriber": Subscriber, "mover": Mover, "fickle": Fickle, "keeper": Keeper, "looker": Looker, "mortal": Mortal,
}


if __name__ == "__main__":
    World(json.loads(Path(sys.argv[1]).read_text())).run()
