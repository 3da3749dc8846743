"""Clients with a session that outlives connections and brokers; they keep their session state."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import wire
from judge import Broken, Heard, Kept, Stream, number_of
from loop import Connection, Loop
from wire import Packet

DUP = 0x08
SESSION_PRESENT = 0x01
# In PUBREL and PUBCOMP: the broker no longer knows the exchange, as the sender intended.
PACKET_ID_NOT_FOUND = 0x92
WINDOW = 20
# Few, so that each is reused soon: a broker that considers a free identifier in use would drop a message.
IDENTIFIERS = 48
ACKNOWLEDGEMENTS = {wire.CONNACK, wire.SUBACK, wire.PUBACK, wire.PUBREC, wire.PUBCOMP}


class World(Protocol):
    """The shared state of the clients."""

    rng: random.Random
    loop: Loop
    # The port of the broker.
    port: int
    # How often the broker has been started.
    life: int
    # Counters for the summary.
    counts: Counter[str]
    streams: dict[str, Stream]
    # Whether new messages may be published.
    is_loaded: bool
    # The broker has been killed; its remaining data is being read.
    is_killed: bool

    def acknowledged(self) -> None:
        """The broker has acknowledged something."""


class Client:
    """One client identifier. `known` says whether the broker has a session for it; `None` if either is valid."""

    def __init__(self, world: World, name: str, version: int) -> None:
        self.world, self.name, self.version = world, name, version
        self.known: bool | None = False
        self.connection: Connection | None = None
        self.is_in = False
        # The client stays offline when the others connect.
        self.is_away = False
        # The broker may close the connection now.
        self._is_leaving = False
        self._is_clean = False
        self._expected: bool | None = None
        self.receive_maximum: int | None = None

    def connect(self, clean: bool = False, will: wire.Will | None = None) -> None:
        """With `clean` there is no session before and after."""
        self.is_away = self._is_leaving = self.is_in = False
        self._is_clean, self._expected = clean, False if clean else self.known
        if clean or self.known is False:
            # Between CONNECT and CONNACK the broker may have accepted it or not.
            self.known = None
        self.connection = Connection(self.world.loop, ("127.0.0.1", self.world.port), self._on_packet, self._on_end)
        expiry_s = wire.FOR_EVER_S if self.version == 5 and not clean else 0
        self.connection.send(wire.connect(
            self.name, version=self.version, clean=clean, will=will, expiry_s=expiry_s, receive_maximum=self.receive_maximum,
        ))

    def send(self, data: bytes) -> None:
        if self.connection:
            self.connection.send(data)

    def leave(self) -> None:
        """Disconnects with DISCONNECT, and stays offline."""
        self._is_leaving = self.is_away = True
        self.send(wire.BYE)

    def cut(self) -> None:
        """Closes without DISCONNECT."""
        if self.connection:
            self.connection.close()
        self.forget_connection()

    def forget_connection(self) -> None:
        self.connection, self.is_in = None, False

    def is_done(self) -> bool:
        """Whether nothing is pending."""
        return True

    def lacking(self) -> str:
        return ""

    def on_in(self, is_present: bool) -> None:
        """CONNACK has arrived."""

    def on_packet(self, taken: Packet) -> None:
        raise Broken(f"{self.name} got a packet of type {taken.type}")

    def on_left(self) -> None:
        """The broker has closed the connection after a DISCONNECT."""

    def _on_packet(self, taken: Packet) -> None:
        if taken.type == wire.DISCONNECT:
            raise Broken(f"the broker disconnected {self.name} with {taken.reason:#04x}")
        if taken.type == wire.CONNACK:
            self._on_connack(taken)
        else:
            self.on_packet(taken)
        if taken.type in ACKNOWLEDGEMENTS:
            self.world.acknowledged()

    def _on_connack(self, taken: Packet) -> None:
        if taken.body[1] != wire.SUCCESS:
            raise Broken(f"{self.name} was refused with {taken.body[1]:#04x}")
        is_present = bool(taken.body[0] & SESSION_PRESENT)
        if self._expected is True and not is_present:
            raise Broken(f"the session of {self.name} was lost [MQTT-3.2.2-3]")
        if self._expected is False and is_present:
            raise Broken(f"{self.name} got a session that had ended [MQTT-3.2.2-2]")
        self.known, self.is_in = not self._is_clean, True
        self.on_in(is_present)

    def _on_end(self) -> None:
        self.forget_connection()
        if self.world.is_killed:
            return
        if self._is_leaving:
            self.on_left()
        else:
            raise Broken(f"the broker closed the connection of {self.name}")


@dataclass
class UnderWay:
    """A message without a final acknowledgement."""

    packet: bytes
    qos: int
    stream: Stream | Kept
    number: int
    is_received: bool = False


class Publisher(Client):
    """Keeps `WINDOW` messages in flight, and sends unacknowledged ones again after a reconnection [MQTT-4.4.0-1]."""

    def __init__(self, world: World, name: str, version: int, streams: list[Stream]) -> None:
        super().__init__(world, name, version)
        self.streams = streams
        self.under_way: dict[int, UnderWay] = {}
        self._next_id = 1

    def on_in(self, is_present: bool) -> None:
        super().on_in(is_present)
        for packet_id, each in self.under_way.items():
            if each.is_received:
                self.send(wire.acknowledge(wire.PUBREL, packet_id))
                continue
            if isinstance(each.stream, Stream):
                each.stream.resent.add(each.number)
            self.send(bytes([each.packet[0] | DUP]) + each.packet[1:])
        self.fill()

    def fill(self) -> None:
        while self.is_in and self.world.is_loaded and len(self.under_way) < WINDOW:
            while self._next_id in self.under_way:
                self._next_id = self._next_id % IDENTIFIERS + 1
            packet_id, self._next_id = self._next_id, self._next_id % IDENTIFIERS + 1
            each = self.under_way[packet_id] = self.next_message(packet_id)
            self.send(each.packet)

    def next_message(self, packet_id: int) -> UnderWay:
        stream = self.world.rng.choice(self.streams)
        payload = stream.next_payload()
        packet = wire.publish(stream.topic, payload, version=self.version, qos=stream.qos, packet_id=packet_id)
        return UnderWay(packet, stream.qos, stream, stream.sent)

    def on_acknowledged(self, each: UnderWay) -> None:
        """PUBACK or PUBREC has arrived: the broker has accepted the message."""
        self.world.counts["messages acknowledged"] += 1

    def on_packet(self, taken: Packet) -> None:
        each = self.under_way.get(taken.packet_id)
        wanted = None if each is None else wire.PUBACK if each.qos == 1 else wire.PUBCOMP if each.is_received else wire.PUBREC
        if each is None or taken.type != wanted:
            raise Broken(f"{self.name} got a packet of type {taken.type} for identifier {taken.packet_id}, expected {wanted}")
        if taken.reason >= wire.FIRST_ERROR and (taken.type, taken.reason) != (wire.PUBCOMP, PACKET_ID_NOT_FOUND):
            raise Broken(f"{self.name} was refused a message with {taken.reason:#04x}")
        if taken.type != wire.PUBCOMP:
            self.on_acknowledged(each)
        if taken.type == wire.PUBREC:
            each.is_received = True
            self.send(wire.acknowledge(wire.PUBREL, taken.packet_id))
        else:
            del self.under_way[taken.packet_id]
            self.fill()

    def is_done(self) -> bool:
        return not self.under_way

    def lacking(self) -> str:
        return f"{self.name}: {len(self.under_way)} messages were not acknowledged" if self.under_way else ""


class Receiver(Client):
    """Acknowledges messages; `lag` acknowledgements are held back, so that some are always missing when the broker is killed."""

    def __init__(self, world: World, name: str, version: int, filters: list[str], qos: int = 2, lag: int = 0) -> None:
        super().__init__(world, name, version)
        self.filters, self.qos, self.lag = filters, qos, lag
        self.is_subscribed = False
        # QoS 2 identifiers that have not been released, with their messages [MQTT-4.3.3-10].
        self._held: dict[int, bytes] = {}
        self._late: list[bytes] = []

    def on_in(self, is_present: bool) -> None:
        super().on_in(is_present)
        self._late.clear()
        if not is_present:
            self.is_subscribed = False
            self._held.clear()
            self.on_new_session()
        self.on_connection()
        if not self.is_subscribed:
            self.send(wire.subscribe(self.filters, version=self.version, qos=self.qos))

    def on_new_session(self) -> None:
        """The broker had no session."""

    def on_connection(self) -> None:
        """A new connection has started."""

    def on_subscribed(self) -> None:
        """SUBACK has arrived."""

    def on_message(self, message: wire.Publish) -> None:
        raise NotImplementedError

    def on_packet(self, taken: Packet) -> None:
        if taken.type == wire.SUBACK:
            if any(code != self.qos for code in wire.suback_codes(taken, self.version)):
                raise Broken(f"{self.name} was refused a subscription")
            if not self.is_subscribed:
                self.is_subscribed = True
                self.on_subscribed()
        elif taken.type == wire.PUBREL:
            self._held.pop(taken.packet_id, None)
            self._answer(wire.acknowledge(wire.PUBCOMP, taken.packet_id))
        elif taken.type == wire.PUBLISH:
            self._take(wire.parse_publish(taken, self.version), bool(taken.flags & DUP))
        else:
            super().on_packet(taken)

    def _take(self, message: wire.Publish, is_dup: bool) -> None:
        if message.qos == 2:
            held = self._held.get(message.packet_id)
            if held is None:
                self._held[message.packet_id] = message.payload
                self._count(message)
            elif held != message.payload:
                raise Broken(f"{self.name}: another message arrived with identifier {message.packet_id}, which is in use [MQTT-2.2.1-3]")
            elif not is_dup:
                raise Broken(f"{self.name}: the message of identifier {message.packet_id} arrived again without DUP [MQTT-3.3.1-1]")
            self._answer(wire.acknowledge(wire.PUBREC, message.packet_id))
        else:
            self._count(message)
            if message.qos == 1:
                self._answer(wire.acknowledge(wire.PUBACK, message.packet_id))

    def _count(self, message: wire.Publish) -> None:
        self.world.counts["messages delivered"] += 1
        self.on_message(message)

    def _answer(self, packet: bytes) -> None:
        self._late.append(packet)
        if len(self._late) > self.lag or not self.world.is_loaded:
            self.catch_up()

    def catch_up(self) -> None:
        if self._late:
            self.send(b"".join(self._late))
            self._late.clear()

    def is_done(self) -> bool:
        return self.is_subscribed and not self._held


class Subscriber(Receiver):
    """Must get all messages on its topics."""

    def __init__(self, world: World, name: str, version: int, filters: list[str], qos: int = 2, lag: int = 0) -> None:
        super().__init__(world, name, version, filters, qos, lag)
        self.heard: dict[str, Heard] = {}

    def on_new_session(self) -> None:
        self.heard = {}

    def on_connection(self) -> None:
        for topic, heard in self.heard.items():
            heard.begin_connection()
            # A QoS 1 message that arrived by an unacknowledged subscription may be lost together with it.
            if not self.is_subscribed and min(self.world.streams[topic].qos, self.qos) == 1:
                heard.top = None

    def on_subscribed(self) -> None:
        for stream in self._own_streams():
            # Earlier messages may arrive or not.
            self._heard_of(stream).due_from = stream.sent + 1

    def on_message(self, message: wire.Publish) -> None:
        stream = self.world.streams.get(message.topic)
        if stream is None:
            raise Broken(f"{self.name} got a message on {message.topic}")
        qos = min(stream.qos, self.qos)
        if message.qos != qos:
            raise Broken(f"{self.name} got a message on {message.topic} with QoS {message.qos}, not {qos}")
        self._heard_of(stream).take(self.name, stream, number_of(message.topic, message.payload), qos)

    def is_done(self) -> bool:
        return super().is_done() and not any(self._heard_of(stream).lacks(stream) for stream in self._own_streams())

    def lacking(self) -> str:
        of_streams = [(stream, self._heard_of(stream)) for stream in self._own_streams()]
        said = [
            f"{heard.lacks(stream)} on {stream.topic} after {heard.top} of {stream.sent}" for stream, heard in of_streams if heard.lacks(stream)
        ]
        if not said:
            return "" if self.is_done() else f"{self.name}: {len(self._held)} messages were not released, or no SUBACK came"
        return f"{self.name} lacks {', '.join(said)}"

    def _heard_of(self, stream: Stream) -> Heard:
        return self.heard.setdefault(stream.topic, Heard())

    def _own_streams(self) -> list[Stream]:
        return [stream for stream in self.world.streams.values() if any(_matches(each, stream.topic) for each in self.filters)]


def _matches(topic_filter: str, topic: str) -> bool:
    """Supports the filters of this test: a name, or a prefix and `#`."""
    return topic == topic_filter or (topic_filter.endswith("/#") and topic.startswith(topic_filter[:-1]))
