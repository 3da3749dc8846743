"""Numbered messages: which of them the broker has acknowledged, and which have arrived."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import peer
import wire
from arena import Arena
from peer import Peer, Unanswered, drive

KEY_BYTES = 8
FENCE = (1 << 63) - 1
# A publisher is considered blocked after this time without a byte from the broker.
HELD_BACK_S = 2.0
# An acknowledged message must arrive before this time without a byte has passed.
SILENCE_S = 3.0
FLOOD_TIMEOUT_S = 90
DRAIN_TIMEOUT_S = 90
_FILLER = memoryview(bytes(16 << 20))


@dataclass(frozen=True, slots=True)
class Message:
    """`size` is that of the payload, which starts with the key."""

    key: int
    topic: str
    size: int = KEY_BYTES
    properties: bytes = b""


class Publisher:
    """Sends messages, at most `window` of them unanswered."""

    def __init__(self, client: Peer, qos: int, messages: Iterable[Message], window: int = 16) -> None:
        self.peer = client
        self.acknowledged: set[int] = set()
        self.refused: dict[int, int] = {}
        # The reason of a DISCONNECT by the broker.
        self.ended_with: int | None = None
        self._qos, self._messages, self._window = qos, iter(messages), window
        self._under_way: dict[int, int] = {}
        self._free_ids = deque(range(1, window + 1))
        self._is_exhausted = False
        client.handler = self._handle
        self._fill()

    def is_done(self) -> bool:
        return self.peer.closed or (self._is_exhausted and not self._under_way and self.peer.has_sent())

    def _fill(self) -> None:
        while self._free_ids and not self._is_exhausted:
            message = next(self._messages, None)
            if message is None:
                self._is_exhausted = True
                return
            packet_id = self._free_ids.popleft()
            self._under_way[packet_id] = message.key
            put(self.peer, message, self._qos, packet_id)

    def _handle(self, taken: wire.Packet) -> None:
        if taken.type == wire.DISCONNECT:
            self.ended_with = taken.reason
        if taken.packet_id not in self._under_way or taken.type not in (wire.PUBACK, wire.PUBREC, wire.PUBCOMP):
            return
        key = self._under_way[taken.packet_id]
        if taken.reason >= wire.FIRST_ERROR:
            self.refused[key] = taken.reason
        elif taken.type != wire.PUBCOMP:
            # PUBREC with success transfers ownership, like PUBACK [MQTT-4.3.3-9].
            self.acknowledged.add(key)
        if taken.type == wire.PUBREC and taken.reason < wire.FIRST_ERROR:
            self.peer.send(wire.acknowledge(wire.PUBREL, taken.packet_id))
        else:
            del self._under_way[taken.packet_id]
            self._free_ids.append(taken.packet_id)
            self._fill()


def put(client: Peer, message: Message, qos: int, packet_id: int) -> None:
    """Queues a message without copying its padding."""
    head = wire.publish_head(
        message.topic, message.size, version=client.version, qos=qos, packet_id=packet_id,
        properties=message.properties if client.version == 5 else b"",
    )
    client.send(head + message.key.to_bytes(KEY_BYTES), _FILLER[: message.size - KEY_BYTES])


def flood(publishers: list[Publisher], others: Iterable[Peer] = ()) -> None:
    """Runs until everything is answered, or the broker holds the rest back; `others` are read from meanwhile.

    A broker may slow publishers down by not reading, so that is not a failure. Only acknowledged messages are checked.
    """
    everyone = [publisher.peer for publisher in publishers] + list(others)
    drive(everyone, lambda: all(publisher.is_done() for publisher in publishers), FLOOD_TIMEOUT_S, HELD_BACK_S)


def acknowledged_by(publishers: Iterable[Publisher]) -> set[int]:
    return set().union(*(publisher.acknowledged for publisher in publishers))


def is_honest(arena: Arena, publishers: Iterable[Publisher]) -> None:
    """Refusals must have the reason code Quota exceeded."""
    codes = {code for publisher in publishers for code in publisher.refused.values()}
    arena.expect(codes <= {wire.QUOTA_EXCEEDED}, f"messages were refused with {', '.join(f'{code:#04x}' for code in codes)}")
    endings = {publisher.ended_with for publisher in publishers} - {None, wire.QUOTA_EXCEEDED}
    arena.expect(not endings, f"publishers were disconnected with {endings}")


class Subscriber:
    """Records received messages, and acknowledges them unless it is `silent`."""

    def __init__(self, client: Peer, silent: bool = False) -> None:
        self.peer = client
        self.received: set[int] = set()
        self.connack: int | None = None
        self._silent = silent
        client.handler = self.take

    def take(self, taken: wire.Packet) -> None:
        if taken.type == wire.CONNACK:
            self.connack = taken.body[1]
        elif taken.type == wire.PUBREL:
            self.peer.send(wire.acknowledge(wire.PUBCOMP, taken.packet_id))
        elif taken.type == wire.PUBLISH:
            came = wire.parse_publish(taken, self.peer.version)
            self.received.add(int.from_bytes(came.payload[:KEY_BYTES]))
            if came.qos and not self._silent:
                self.peer.send(wire.acknowledge(wire.PUBACK if came.qos == 1 else wire.PUBREC, came.packet_id))


def returned(port: int, client_id: str, version: int = 5) -> Subscriber:
    """Reconnects the client of an offline session."""
    subscriber = Subscriber(Peer(port, version))
    expiry_s = wire.FOR_EVER_S if version == 5 else 0
    subscriber.peer.send(wire.connect(client_id, version=version, clean=False, expiry_s=expiry_s))
    drive([subscriber.peer], lambda: subscriber.connack is not None or subscriber.peer.closed, peer.ANSWER_TIMEOUT_S)
    if subscriber.connack != wire.SUCCESS:
        raise Unanswered(f"{client_id} could not reconnect: {subscriber.connack}")
    return subscriber


def drain(arena: Arena, subscriber: Subscriber, topic: str, key: int = FENCE) -> None:
    """Reads until a message that is published now has arrived: all earlier ones have arrived then."""
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    for _ in _attempts_until_taken(arena.port, subscriber, topic, key):
        if time.monotonic() > deadline:
            arena.expect(False, f"no message is accepted for {topic[:50]} even while its subscriber reads")
            return
    left_s = max(1.0, deadline - time.monotonic())
    came = drive([subscriber.peer], lambda: key in subscriber.received or subscriber.peer.closed, left_s, SILENCE_S)
    arena.expect(came, f"the last message for {topic[:50]} was acknowledged but did not arrive")


def _attempts_until_taken(port: int, subscriber: Subscriber, topic: str, key: int) -> Iterator[None]:
    """Publishes the fence; if there is no room for it yet, again when the subscriber has read more."""
    while True:
        if is_taken(port, subscriber, Message(key, topic)):
            return
        yield
        before = subscriber.peer.received_bytes
        drive([subscriber.peer], lambda: subscriber.peer.received_bytes > before, HELD_BACK_S)


def is_taken(port: int, subscriber: Subscriber, message: Message) -> bool:
    try:
        client = peer.connected(port, "fence")
    except Unanswered:
        return False
    publisher = Publisher(client, 1, [message])
    drive([client, subscriber.peer], publisher.is_done, peer.ANSWER_TIMEOUT_S)
    client.close()
    return bool(publisher.acknowledged)


def check_delivered(arena: Arena, acknowledged: set[int], received: set[int], to: str) -> bool:
    lost = acknowledged - received
    return arena.expect(not lost, f"{len(lost)} of {len(acknowledged)} acknowledged messages were lost to {to}")


def come_back_for_all(arena: Arena, client_id: str, topic: str, acknowledged: set[int], version: int = 5) -> Subscriber:
    """The client reconnects to its session; all acknowledged messages must arrive."""
    subscriber = returned(arena.port, client_id, version)
    drain(arena, subscriber, topic)
    check_delivered(arena, acknowledged, subscriber.received, client_id)
    subscriber.peer.close()
    return subscriber


def stranger_is_served(arena: Arena, when: str, size: int = 4_000) -> None:
    """A client that holds no memory yet sends a small QoS 1 message to an offline session: it is accepted, and arrives."""
    try:
        peer.absent_session(arena.port, "small-absent", ["small"])
        publisher = Publisher(peer.connected(arena.port, "small-publisher"), 1, [Message(1, "small", size)])
        drive([publisher.peer], publisher.is_done, peer.ANSWER_TIMEOUT_S)
        answer = "success" if publisher.acknowledged else f"{publisher.refused or 'nothing'}"
        arena.expect(bool(publisher.acknowledged), f"{when}, a stranger's small message was answered with {answer}")
        if publisher.acknowledged:
            subscriber = returned(arena.port, "small-absent")
            # Acknowledged, so that the session does not keep it.
            came = drive([subscriber.peer], lambda: 1 in subscriber.received and subscriber.peer.has_sent(),
                         peer.ANSWER_TIMEOUT_S, SILENCE_S)
            subscriber.peer.close()
            arena.expect(came, f"{when}, a stranger's small message was acknowledged and lost")
    except Unanswered as error:
        arena.expect(False, f"{when}, a stranger was not served: {error}")
