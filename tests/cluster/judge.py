"""Checks what clients of a cluster have seen against its guarantees: no sockets, no cluster, only a history.

`judge.py FILE` checks a stored history. Each line is one event, as JSON; README.md lists them.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from roles import EARLY_TOPICS

# A reason code from here on is an error [MQTT 5.0 section 2.4].
FIRST_ERROR = 0x80
# After this time a message that waits for the store is refused, and so are its client's later ones.
REFUSED_AFTER_NS = 10_000_000_000
# How much earlier than its client a broker may have noticed the end of a connection.
NOTICED_NS = 1_000_000_000
SHARE = "$share/"
# The maximum number of reported violations of one kind.
TOLD_MAX = 12

Event = dict[str, object]
# A message: its topic, and its number there.
Message = tuple[str, int]


@dataclass(frozen=True)
class Violation:
    promise: str
    at: int
    what: str


@dataclass
class Sent:
    """A message, as its publisher knows it."""

    who: str
    qos: int
    # When it was first given to a broker, and on which connections it was, when.
    at: int
    on_links: dict[int, int] = field(default_factory=dict)
    # When a broker first said that it has it.
    acknowledged_at: int | None = None
    # A broker has said that it will not have it.
    is_refused: bool = False
    # It is published when a connection has ended for so long, not sent by a client, so its order is not checked.
    is_will: bool = False
    delay_ns: int = 0


@dataclass
class Subscription:
    """The time from a SUBSCRIBE until the UNSUBSCRIBE for the same filter, if there was one."""

    topic_filter: str
    qos: int
    asked_at: int
    granted_at: int | None = None
    given_up_at: int | None = None
    ended_at: int | None = None

    @property
    def is_shared(self) -> bool:
        return self.topic_filter.startswith(SHARE)

    def matches(self, topic: str) -> bool:
        """Supports the filters of these tests: a name, or a prefix and `#`, shared or not."""
        own = self.topic_filter.split("/", 2)[2] if self.is_shared else self.topic_filter
        return topic == own or (own.endswith("/#") and topic.startswith(own[:-1]))


@dataclass
class Link:
    """A connection, or an attempt."""

    to: str
    begun_at: int
    # Only an MQTT 5.0 client can learn that a message is refused.
    version: int = 5
    is_clean: bool = False
    connected_at: int | None = None
    ended_at: int | None = None
    pings: dict[int, int] = field(default_factory=dict)
    will: Message | None = None
    looked_at: int | None = None


@dataclass(frozen=True)
class Seen:
    """A retained message that a new subscriber received."""

    who: str
    asked_at: int
    at: int
    topic: str
    number: int


@dataclass
class Client:
    links: dict[int, Link] = field(default_factory=dict)
    subscriptions: list[Subscription] = field(default_factory=list)
    # Messages at the application, in order: time, message, QoS.
    came: list[tuple[int, Message, int]] = field(default_factory=list)

    def of(self, topic_filter: str) -> Subscription | None:
        """Returns the newest subscription with this filter."""
        return next((each for each in reversed(self.subscriptions) if each.topic_filter == topic_filter), None)


class History:
    """The events in order of time, grouped by subject."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.sent: dict[Message, Sent] = {}
        self.clients: dict[str, Client] = defaultdict(Client)
        self.seen: list[Seen] = []
        # The bans that an operator requested, and those that brokers have reported.
        self.bans_asked: set[int] = set()
        self.bans: set[int] = set()
        # All pending messages had time to arrive.
        self.has_settled = False
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        for event in sorted(events, key=lambda each: each["at"]):
            self.counts[event["what"]] += 1
            if take := getattr(self, f"_{event['what']}", None):
                take(event, event["at"], self.clients[event["who"]])

    # Connections.

    def _connect(self, event: Event, at: int, client: Client) -> None:
        client.links[event["link"]] = Link(event["to"], at, event.get("version", 5), event.get("clean", False))

    def _connected(self, event: Event, at: int, client: Client) -> None:
        was_there = any(link.connected_at is not None for link in client.links.values())
        link = client.links[event["link"]]
        link.connected_at = at
        if was_there and not event["present"] and not link.is_clean:
            self._break("sessions persist", at, f"{event['who']} got no Session Present on connection {event['link']} [MQTT-3.2.2-3]")

    def _closed(self, event: Event, at: int, client: Client) -> None:
        link = client.links.get(event["link"])
        if link is None:
            return
        link.ended_at = at
        # No client with a will ends a connection cleanly in these tests.
        if link.will and link.connected_at is not None:
            self.sent[link.will].acknowledged_at = at

    _cut = _closed

    def _will(self, event: Event, at: int, client: Client) -> None:
        """It is due once an accepted connection has ended [MQTT-3.1.2-8]."""
        message = message_of(event)
        self.sent[message] = Sent(event["who"], event["qos"], at, is_will=True, delay_ns=event.get("delay_s", 0) * 1_000_000_000)
        client.links[event["link"]].will = message

    def _ping(self, event: Event, at: int, client: Client) -> None:
        client.links[event["link"]].pings[event["number"]] = at

    def _pong(self, event: Event, at: int, client: Client) -> None:
        asked_at = client.links[event["link"]].pings[event["number"]]
        self._answered(event, at, client, asked_at, "PINGREQ")

    def _answered(self, event: Event, at: int, client: Client, asked_at: int, what: str) -> None:
        """A broker has answered: no other may have accepted the client between its own CONNACK and the packet."""
        own = client.links[event["link"]]
        for number, other in client.links.items():
            is_later = own.connected_at is not None and own.connected_at < other.begun_at
            if is_later and other.connected_at is not None and other.connected_at < asked_at:
                since_ms = (asked_at - other.connected_at) / 1e6
                self._break(
                    "one broker at a time", at,
                    f"{own.to} answered {what} of {event['who']} on connection {event['link']}; it was sent {since_ms:.1f} ms after {other.to} "
                    f"had sent CONNACK on connection {number} [MQTT-3.1.4-3]",
                )
                return

    # Publishing.

    def _publish(self, event: Event, at: int, _: Client) -> None:
        sent = self.sent.setdefault(message_of(event), Sent(event["who"], event["qos"], at))
        if event["link"] is not None:
            sent.on_links.setdefault(event["link"], at)

    def _acknowledged(self, event: Event, at: int, client: Client) -> None:
        sent = self.sent[message_of(event)]
        if event["reason"] >= FIRST_ERROR:
            sent.is_refused = True
        elif sent.acknowledged_at is None:
            sent.acknowledged_at = at
        if (asked_at := sent.on_links.get(event["link"])) is not None:
            self._answered(event, at, client, asked_at, f"PUBLISH {name_of(message_of(event))}")

    # Subscribing.

    def _subscribe(self, event: Event, at: int, client: Client) -> None:
        newest = client.of(event["filter"])
        if newest is None or newest.given_up_at is not None:
            client.subscriptions.append(Subscription(event["filter"], event["qos"], at))

    def _subscribed(self, event: Event, at: int, client: Client) -> None:
        newest = client.of(event["filter"])
        if event["reason"] >= FIRST_ERROR:
            self._break("subscriptions are granted", at, f"{event['who']} was refused {event['filter']} with {event['reason']:#04x}")
        elif newest.granted_at is None:
            newest.granted_at, newest.qos = at, event["reason"]

    def _unsubscribe(self, event: Event, at: int, client: Client) -> None:
        newest = client.of(event["filter"])
        if newest.given_up_at is None:
            newest.given_up_at = at

    def _unsubscribed(self, event: Event, at: int, client: Client) -> None:
        client.of(event["filter"]).ended_at = at

    # Receiving.

    def _message(self, event: Event, at: int, client: Client) -> None:
        message, who = message_of(event), event["who"]
        sent = self.sent.get(message)
        if sent is None or sent.at > at:
            self._break("only sent messages arrive", at, f"{who} got {name_of(message)}, which was not sent")
            return
        of_it = [each for each in client.subscriptions if each.matches(message[0])]
        if not any(each.ended_at is None or sent.at < each.ended_at for each in of_it):
            self._break(
                "UNSUBSCRIBE takes effect", at, f"{who} got {name_of(message)}, which was sent after UNSUBACK [MQTT-3.10.4-3]"
            )
        if of_it and event["qos"] not in {min(sent.qos, each.qos) for each in of_it}:
            self._break("QoS is the lower of message and subscription", at, f"{who} got {name_of(message)} of QoS {sent.qos} with {event['qos']}")
        if sent.is_will and sent.acknowledged_at is not None and at < sent.acknowledged_at + sent.delay_ns - NOTICED_NS:
            early_ms = (sent.acknowledged_at + sent.delay_ns - at) / 1e6
            self._break("a will waits for its delay", at, f"{who} got the will {name_of(message)} {early_ms:.0f} ms too early [MQTT-3.1.3-9]")
        client.came.append((at, message, event["qos"]))

    # Retained messages.

    def _look(self, event: Event, at: int, client: Client) -> None:
        client.links[event["link"]].looked_at = at

    def _saw(self, event: Event, at: int, client: Client) -> None:
        message, asked_at = message_of(event), client.links[event["link"]].looked_at
        sent = self.sent.get(message)
        if sent is None or sent.at > at:
            self._break("only sent messages arrive", at, f"{event['who']} saw {name_of(message)} retained, which was not sent")
        else:
            self.seen.append(Seen(event["who"], asked_at, at, *message))

    # Shared configuration.

    def _ban(self, event: Event, *_: object) -> None:
        self.bans_asked.add(event["number"])

    def _banned(self, event: Event, *_: object) -> None:
        self.bans.add(event["number"])

    def _bans(self, event: Event, at: int, _: Client) -> None:
        """All bans that a broker has in the end."""
        numbers = set(event["numbers"])
        if lost := self.bans - numbers:
            self._break("no revision is lost", at, f"{event['of']} has lost the bans {sorted(lost)}, which were accepted")
        if strange := numbers - self.bans_asked:
            self._break("no revision is lost", at, f"{event['of']} has the bans {sorted(strange)}, which were not requested")

    # The test.

    def _settled(self, *_: object) -> None:
        self.has_settled = True

    def _break(self, promise: str, at: int, what: str) -> None:
        self.violations.append(Violation(promise, at, what))


def message_of(event: Event) -> Message:
    return event["topic"], event["number"]


def name_of(message: Message) -> str:
    return f"message {message[1]} on {message[0]}"


def judge(events: Iterable[Event]) -> list[Violation]:
    return violations_of(History(events))


def violations_of(history: History) -> list[Violation]:
    found = [*history.violations]
    for who, client in history.clients.items():
        found += _repeated(who, client)
        found += _out_of_order(who, client, history)
    found += _stale(history)
    if history.has_settled:
        for who, message in missing(history):
            at = history.sent[message].acknowledged_at
            found.append(Violation("acknowledged messages arrive", at, f"{who} never got {name_of(message)}, which was acknowledged"))
    return sorted(found, key=lambda each: each.at)


def missing(history: History) -> Iterator[tuple[str, Message]]:
    """Yields each missing message with its recipient: messages that were acknowledged at `quorum` and sent after
    SUBACK, for each subscriber, or for all members of a group together.
    """
    by_topic: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, number), sent in history.sent.items():
        if sent.acknowledged_at is not None and not topic.startswith(EARLY_TOPICS):
            by_topic[topic].append((sent.at, number))
    for of_topic in by_topic.values():
        of_topic.sort()
    for who, each, came in _due(history):
        for topic, of_topic in by_topic.items():
            if each.matches(topic):
                due = of_topic[bisect_right(of_topic, (each.granted_at, sys.maxsize)) :]
                yield from ((who, (topic, number)) for _, number in due if (topic, number) not in came)


def _due(history: History) -> Iterator[tuple[str, Subscription, set[Message]]]:
    """Yields each recipient with a subscription and the messages that it has received."""
    groups: dict[str, tuple[Subscription, set[Message]]] = {}
    for who, client in history.clients.items():
        came = {message for _, message, _ in client.came}
        for each in client.subscriptions:
            if each.granted_at is None or each.given_up_at is not None:
                continue
            if not each.is_shared:
                yield who, each, came
                continue
            first, of_group = groups.setdefault(each.topic_filter, (each, set()))
            of_group |= came
            # A group starts with its first member.
            groups[each.topic_filter] = (min(first, each, key=lambda one: one.granted_at), of_group)
    yield from ((name, first, came) for name, (first, came) in groups.items())


def unanswered(history: History) -> Iterator[Message]:
    """Yields messages that are neither acknowledged nor refused."""
    return (message for message, sent in history.sent.items() if sent.acknowledged_at is None and not sent.is_refused)


def _repeated(who: str, client: Client) -> Iterator[Violation]:
    seen: set[Message] = set()
    for at, message, qos in client.came:
        if qos == 2 and message in seen:
            yield Violation("QoS 2 arrives once", at, f"{who} got {name_of(message)} again [MQTT-4.3.3-10]")
        seen.add(message)


def _out_of_order(who: str, client: Client, history: History) -> Iterator[Violation]:
    """Each topic has one publisher and one QoS. At QoS 1 a message may be repeated: only its first arrival is checked.

    The first copy of a message may have been sent before a client subscribed, and a later one arrive after that. So at
    QoS 1 only messages count that were sent during the subscription.
    """
    sent, unheard = history.sent, _refused_unheard(history)
    seen: set[Message] = set()
    highest: dict[str, int] = {}
    for at, message, _ in client.came:
        topic, number = message
        # Messages that a leaving member has not acknowledged are delivered to another one later.
        if sent[message].is_will or any(each.is_shared for each in client.subscriptions):
            continue
        counts = sent[message].qos == 2 or any(
            each.matches(topic) and each.granted_at is not None and each.granted_at < sent[message].at
            and (each.given_up_at is None or at < each.given_up_at) for each in client.subscriptions
        )
        if counts and message not in seen and number < highest.get(topic, 0) and message not in unheard:
            what = f"{who} first got {name_of(message)} after number {highest[topic]} [MQTT-4.6.0-6]"
            yield Violation("order of each publisher and topic", at, what)
        seen.add(message)
        highest[topic] = max(number, highest.get(topic, 0))


def _refused_unheard(history: History) -> set[Message]:
    """Messages that 5.0 clients may not know to be refused, because their connection ended: they send them again, after
    later ones. 3.1.1 clients are disconnected at once, so they send nothing in between.
    """
    on_link: dict[tuple[str, int], list[tuple[Message, int]]] = defaultdict(list)
    for message, sent in history.sent.items():
        for number, at in sent.on_links.items():
            link = history.clients[sent.who].links[number]
            is_answered = sent.acknowledged_at is not None and (link.ended_at is None or sent.acknowledged_at < link.ended_at)
            if link.version == 5 and link.ended_at is not None and not is_answered:
                on_link[sent.who, number].append((message, link.ended_at - at))
    return {
        message for unanswered in on_link.values() if any(waited >= REFUSED_AFTER_NS for _, waited in unanswered) for message, _ in unanswered
    }


def _stale(history: History) -> Iterator[Violation]:
    """Each topic has one publisher, which waits for each acknowledgement. So its retained message only becomes newer:
    no subscriber may see one older than a message that was acknowledged or seen before.
    """
    acknowledged: dict[str, list[tuple[int, int]]] = defaultdict(list)
    seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, number), sent in history.sent.items():
        if sent.acknowledged_at is not None and not sent.is_will:
            acknowledged[topic].append((sent.acknowledged_at, number))
    for each in history.seen:
        seen[each.topic].append((each.at, each.number))
    for each in history.seen:
        for promise, known in (("the newest message is retained", acknowledged), ("retained messages never go back", seen)):
            newest = max((number for at, number in known[each.topic] if at < each.asked_at), default=0)
            if each.number < newest:
                what = f"{each.who} saw {name_of((each.topic, each.number))} retained, and {newest} was known before it asked [MQTT-3.3.1-5]"
                yield Violation(promise, each.at, what)


def read(path: Path) -> list[Event]:
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def told(violations: list[Violation]) -> list[str]:
    """Returns one line for each violation, and the number of further ones of the same kind."""
    by_promise: dict[str, list[Violation]] = defaultdict(list)
    for each in violations:
        by_promise[each.promise].append(each)
    lines = []
    for promise, of_it in by_promise.items():
        lines += [f"BROKEN {promise}: at {each.at}: {each.what}" for each in of_it[:TOLD_MAX]]
        if more := of_it[TOLD_MAX:]:
            lines.append(f"BROKEN {promise}: {len(more)} more times")
    return lines


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: judge.py FILE", file=sys.stderr)
        return 2
    history = History(read(Path(sys.argv[1])))
    violations = violations_of(history)
    for line in told(violations):
        print(line)
    settled = "" if history.has_settled else "; it ends before all messages had time to arrive, so missing ones were not checked"
    print(f"{len(violations)} violations in {sum(history.counts.values())} events{settled}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
