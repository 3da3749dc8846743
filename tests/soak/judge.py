"""Checks which of the published messages must arrive: no sockets, no broker, only a history.

A stream has the messages of one publisher on one topic. They are numbered from 1, and the publisher sends unacknowledged ones
again. So all of them arrive at all subscribers in the end, and a skipped number is lost.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# Payloads have many sizes; some fill several blocks of the log.
LARGE_EVERY, LARGE_BYTES = 101, 20_000


class Broken(Exception):
    """A guarantee was violated."""


@dataclass
class Stream:
    """The messages of one publisher on one topic."""

    topic: str
    qos: int
    sent: int = 0
    # Sent more than once: the broker may have received both, and QoS 1 allows it to deliver both.
    resent: set[int] = field(default_factory=set)

    def next_payload(self) -> bytes:
        self.sent += 1
        return payload_of(self.topic, self.sent)


def payload_of(topic: str, number: int) -> bytes:
    """Names the message, and is different for each."""
    filler = LARGE_BYTES if number % LARGE_EVERY == 0 else number * 7919 % 97 * 8
    return f"{topic} {number} ".encode() + bytes([number & 0xFF]) * filler


def number_of(topic: str, payload: bytes) -> int:
    """Returns the number of a message whose payload is intact."""
    try:
        number = int(payload.split(b" ", 2)[1])
    except (IndexError, ValueError):
        raise Broken(f"a message on {topic} has a payload that was not sent") from None
    if payload != payload_of(topic, number):
        raise Broken(f"message {number} on {topic} has a payload that was not sent")
    return number


@dataclass
class Heard:
    """The messages of one stream that one subscriber has received. They are due from `due_from` on, once that is known."""

    due_from: int | None = None
    # The highest received number.
    top: int | None = None
    # The highest number on this connection of messages that were sent once.
    last: int = 0

    def begin_connection(self) -> None:
        self.last = 0

    def take(self, who: str, stream: Stream, number: int, qos: int) -> None:
        """Checks a received message, with the QoS at which the subscriber gets this stream."""
        what = f"message {number} of QoS {qos} on {stream.topic} to {who}"
        if number > stream.sent:
            raise Broken(f"{what} was never sent")
        if self.top is None:
            if self.due_from is not None and number > self.due_from:
                raise Broken(f"{what} arrived first; {self.due_from} and all after it were due")
            self.top = self.last = number
            return
        if number == self.top + 1:
            self.top = number
        elif number > self.top:
            raise Broken(f"{what} arrived after {self.top}: messages in between are lost or late [MQTT-4.6.0-6]")
        elif qos == 2:
            raise Broken(f"{what} arrived again; {self.top} had arrived [MQTT-4.3.3-10]")
        # A message that was sent twice may arrive twice. All others may arrive again only on another connection, starting from
        # the first.
        if number not in stream.resent:
            if number <= self.last:
                raise Broken(f"{what} arrived after {self.last} on one connection, but was sent once [MQTT-4.6.0-6]")
            self.last = number

    def lacks(self, stream: Stream) -> int:
        """Returns how many messages are still due; those before `due_from` are optional."""
        if self.due_from is None:
            return 0
        first = self.due_from if self.top is None else max(self.due_from, self.top + 1)
        return stream.sent - first + 1


@dataclass
class Shared:
    """The messages of one stream that all members of one group together have received. Each message is for one of them, in any
    order."""

    # All messages up to this number have arrived.
    floor: int = 0
    above: set[int] = field(default_factory=set)

    def take(self, who: str, stream: Stream, number: int, qos: int) -> None:
        if number > stream.sent:
            raise Broken(f"message {number} on {stream.topic} to {who} was never sent")
        if number <= self.floor or number in self.above:
            if qos == 2:
                raise Broken(f"message {number} of QoS 2 on {stream.topic} arrived at {who}, and at its group before [MQTT-4.8.2-5]")
            return
        self.above.add(number)
        while self.floor + 1 in self.above:
            self.floor += 1
            self.above.remove(self.floor)

    def lacks(self, stream: Stream) -> int:
        return stream.sent - self.floor - len(self.above)


@dataclass
class Kept:
    """A topic with retained messages: its state is the last acknowledged version, or a later one.

    Versions count from 1; version 0 means no message. Some are empty, and clear the topic.
    """

    topic: str
    acknowledged: int = 0
    sent: int = 0
    _clears: deque[int] = field(default_factory=lambda: deque([0]))

    def next_payload(self, clears: bool) -> bytes:
        self.sent += 1
        if clears:
            self._clears.append(self.sent)
            return b""
        return payload_of(self.topic, self.sent)

    def acknowledge(self, version: int) -> None:
        self.acknowledged = max(self.acknowledged, version)
        while self._clears and self._clears[0] < self.acknowledged:
            self._clears.popleft()

    def may_be_absent(self) -> bool:
        return bool(self._clears)

    def see(self, payload: bytes) -> None:
        """Checks a retained message of a new subscriber."""
        version = number_of(self.topic, payload)
        if not self.acknowledged <= version <= self.sent:
            raise Broken(
                f"retained on {self.topic} is version {version}; {self.acknowledged} was acknowledged and {self.sent} sent [MQTT-3.3.1-5]"
            )

    def miss(self) -> None:
        """A new subscriber got no retained message."""
        if not self.may_be_absent():
            raise Broken(f"nothing is retained on {self.topic}; version {self.acknowledged} was acknowledged [MQTT-3.3.1-5]")


# The possible fates of a will. It is held while its client is connected.
HELD, DUE, FORBIDDEN, EITHER = "held", "due", "forbidden", "either"


@dataclass
class Wills:
    """The wills of all clients, by payload, and which of them have arrived at a watcher with QoS 2."""

    fate: dict[str, str] = field(default_factory=dict)
    came: set[str] = field(default_factory=set)

    def decide(self, name: str, fate: str) -> None:
        if fate == FORBIDDEN and self.fate.get(name) == DUE:
            raise ValueError(f"{name} is due")
        if name not in self.came or fate != FORBIDDEN:
            self.fate[name] = fate

    def take(self, name: str) -> None:
        if name not in self.fate:
            raise Broken(f"an unknown will {name} was published")
        if name in self.came:
            raise Broken(f"the will {name} was published twice [MQTT-3.1.2-10]")
        if self.fate[name] == HELD:
            raise Broken(f"the will {name} was published while its client was connected")
        if self.fate[name] == FORBIDDEN:
            raise Broken(f"the will {name} was published, but its client had disconnected cleanly or reconnected in time [MQTT-3.1.3-9]")
        self.came.add(name)

    def is_due(self, name: str) -> bool:
        return self.fate.get(name) == DUE and name not in self.came

    def missing(self) -> list[str]:
        return [name for name in self.fate if self.is_due(name)]
