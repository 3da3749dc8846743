"""What must come of the messages that were published: no sockets, no broker, only what was seen.

A stream is what one publisher publishes on one topic. Its messages are numbered from 1, and its publisher sends again what was
not acknowledged. So all of them come to all subscribers in the end, and a number that is passed over is lost.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# Payloads are of many sizes; some fill several blocks of the log.
LARGE_EVERY, LARGE_BYTES = 101, 20_000


class Broken(Exception):
    """A promise was not kept."""


@dataclass
class Stream:
    """What one publisher has sent on one topic."""

    topic: str
    qos: int
    sent: int = 0
    # Sent more than once: the broker may have got both, and QoS 1 allows it to pass both on.
    resent: set[int] = field(default_factory=set)

    def next_payload(self) -> bytes:
        self.sent += 1
        return payload_of(self.topic, self.sent)


def payload_of(topic: str, number: int) -> bytes:
    """Names the message, and is different for each."""
    filler = LARGE_BYTES if number % LARGE_EVERY == 0 else number * 7919 % 97 * 8
    return f"{topic} {number} ".encode() + bytes([number & 0xFF]) * filler


def number_of(topic: str, payload: bytes) -> int:
    """The number of a message, all of whose bytes are as they were sent."""
    try:
        number = int(payload.split(b" ", 2)[1])
    except (IndexError, ValueError):
        raise Broken(f"a message on {topic} has a payload that nobody sent") from None
    if payload != payload_of(topic, number):
        raise Broken(f"message {number} on {topic} has a payload that nobody sent")
    return number


@dataclass
class Heard:
    """What one subscriber has heard of one stream. Its messages are due from `due_from` on, once that is known."""

    due_from: int | None = None
    # The highest number that has come.
    top: int | None = None
    # The highest on this connection of those that were sent once.
    last: int = 0

    def begin_connection(self) -> None:
        self.last = 0

    def take(self, who: str, stream: Stream, number: int, qos: int) -> None:
        """One message has come, with the QoS at which the subscriber gets this stream."""
        what = f"message {number} of QoS {qos} on {stream.topic} to {who}"
        if number > stream.sent:
            raise Broken(f"{what} was never sent")
        if self.top is None:
            if self.due_from is not None and number > self.due_from:
                raise Broken(f"{what} came first; {self.due_from} and all behind it were due")
            self.top = self.last = number
            return
        if number == self.top + 1:
            self.top = number
        elif number > self.top:
            raise Broken(f"{what} came after {self.top}: what is between is lost or late [MQTT-4.6.0-6]")
        elif qos == 2:
            raise Broken(f"{what} came again; {self.top} had come [MQTT-4.3.3-10]")
        # What the publisher has sent twice may come twice. All else may come again only on another connection, from the first on.
        if number not in stream.resent:
            if number <= self.last:
                raise Broken(f"{what} came after {self.last} on one connection, and was sent once [MQTT-4.6.0-6]")
            self.last = number

    def lacks(self, stream: Stream) -> int:
        """How many messages are still due; those that came before `due_from` are a gift."""
        if self.due_from is None:
            return 0
        first = self.due_from if self.top is None else max(self.due_from, self.top + 1)
        return stream.sent - first + 1


@dataclass
class Shared:
    """What all members of one group together have heard of one stream. Each message is for one of them; order is nobody's."""

    # All up to it have come.
    floor: int = 0
    above: set[int] = field(default_factory=set)

    def take(self, who: str, stream: Stream, number: int, qos: int) -> None:
        if number > stream.sent:
            raise Broken(f"message {number} on {stream.topic} to {who} was never sent")
        if number <= self.floor or number in self.above:
            if qos == 2:
                raise Broken(f"message {number} of QoS 2 on {stream.topic} came to {who}, and to its group before [MQTT-4.8.2-5]")
            return
        self.above.add(number)
        while self.floor + 1 in self.above:
            self.floor += 1
            self.above.remove(self.floor)

    def lacks(self, stream: Stream) -> int:
        return stream.sent - self.floor - len(self.above)


@dataclass
class Kept:
    """A topic with retained messages: its state is the last version that was acknowledged, or one sent later.

    Versions count from 1; version 0 is that there is no message. Some are empty, and clear the topic.
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
        """A retained message that a new subscriber gets."""
        version = number_of(self.topic, payload)
        if not self.acknowledged <= version <= self.sent:
            raise Broken(
                f"retained on {self.topic} is version {version}; {self.acknowledged} was acknowledged and {self.sent} sent [MQTT-3.3.1-5]"
            )

    def miss(self) -> None:
        """A new subscriber got nothing."""
        if not self.may_be_absent():
            raise Broken(f"nothing is retained on {self.topic}; version {self.acknowledged} was acknowledged [MQTT-3.3.1-5]")


# What may become of a will. It is held as long as its client is connected.
HELD, DUE, FORBIDDEN, EITHER = "held", "due", "forbidden", "either"


@dataclass
class Wills:
    """The wills of all clients, by payload, and which of them have come to a watcher with QoS 2."""

    fate: dict[str, str] = field(default_factory=dict)
    came: set[str] = field(default_factory=set)

    def decide(self, name: str, fate: str) -> None:
        if fate == FORBIDDEN and self.fate.get(name) == DUE:
            raise ValueError(f"{name} is due")
        if name not in self.came or fate != FORBIDDEN:
            self.fate[name] = fate

    def take(self, name: str) -> None:
        if name not in self.fate:
            raise Broken(f"a will {name} was published that nobody had")
        if name in self.came:
            raise Broken(f"the will {name} was published twice [MQTT-3.1.2-10]")
        if self.fate[name] == HELD:
            raise Broken(f"the will {name} was published while its client was connected")
        if self.fate[name] == FORBIDDEN:
            raise Broken(f"the will {name} was published, and its client had left in order or come back in time [MQTT-3.1.3-9]")
        self.came.add(name)

    def is_due(self, name: str) -> bool:
        return self.fate.get(name) == DUE and name not in self.came

    def missing(self) -> list[str]:
        return [name for name in self.fate if self.is_due(name)]
