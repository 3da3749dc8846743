"""The broker's memory gauges return to their initial values after the attackers have disconnected."""

from __future__ import annotations

import messages
import peer
import wire
from arena import MIB, Arena, case
from cases.lists import long_filter
from cases.wills import will_of
from messages import Message, Publisher, Subscriber
from peer import Peer, drive

KINDS = (
    "message", "spill_index", "input", "output", "queue", "in_flight", "will", "subscription", "alias", "shard_batch", "retained",
    "retained_scan", "transcoding", "deferred_work", "session", "connection", "transport",
)
PREFIX = "$SYS/broker/tautwire/"
NAMES = [f"memory_{kind}_bytes" for kind in KINDS]
# The gauges are retained messages themselves: a longer value takes more memory, and one may be in transit to the other thread.
OWN_NAMES = ("memory_message_bytes", "memory_shard_batch_bytes", "memory_retained_bytes")
OWN_MAX_BYTES = 4 << 10
# The topics are updated once a second here.
PUBLISHED_WITHIN_S = 15.0


class Reader:
    """Follows the gauges."""

    def __init__(self, port: int) -> None:
        self.values: dict[str, int] = {}
        self.peer = peer.connected(port, "reader")
        self.peer.handler = self._handle
        self.peer.send(wire.subscribe([PREFIX + "#"], qos=0))
        self.seen_again: set[str] = set()
        self.baseline: dict[str, int] = {}
        # These are always published, after all retained messages have arrived.
        drive([self.peer], lambda: "connections" in self.values and "publishes_received" in self.values, PUBLISHED_WITHIN_S)
        drive([self.peer], lambda: False, PUBLISHED_WITHIN_S, 0.5)

    def _handle(self, taken: wire.Packet) -> None:
        if taken.type == wire.PUBLISH:
            came = wire.parse_publish(taken, 5)
            if came.payload.isdigit():
                name = came.topic.removeprefix(PREFIX)
                self.values[name] = int(came.payload)

    def memory(self) -> dict[str, int]:
        return {name: self.values[name] for name in NAMES if name in self.values}


@case("the memory gauges return to their initial values after all attackers have disconnected", limit_mib=64, threads=2, short=True, settings={
    "sys.interval_s": 1, "limits.retained_bytes": 32 * MIB, "mqtt.topic_alias_maximum": 1_000,
})
def gauges_come_back(arena: Arena) -> None:
    reader = Reader(arena.port)
    before = reader.memory()
    if not before:
        arena.skip(f"the broker publishes none of {', '.join(NAMES)} below {PREFIX}")
        return
    missing = [name for name in NAMES if name not in before]
    if not arena.expect(not missing, f"not published below {PREFIX}: {', '.join(missing)}"):
        return
    grown: set[str] = set()
    attackers = hold_some_of_everything(arena)
    drive([reader.peer], lambda: False, 2.5)
    grown |= {name for name, value in reader.memory().items() if value > before[name]}
    let_go(arena, attackers)

    def others() -> dict[str, str]:
        values = reader.memory().items()
        return {name: f"{value}, before {before[name]}" for name, value in values if value > before[name] + own_bytes(name)}

    drive([reader.peer], lambda: not others(), PUBLISHED_WITHIN_S)
    arena.expect(not others(), f"not freed: {others()}")
    held = {"memory_queue_bytes", "memory_in_flight_bytes", "memory_will_bytes", "memory_subscription_bytes", "memory_alias_bytes",
            "memory_retained_bytes", "memory_session_bytes", "memory_connection_bytes", "memory_input_bytes"}
    arena.expect(held <= grown, f"these did not grow while memory was held: {', '.join(sorted(held - grown))}")


def own_bytes(name: str) -> int:
    return OWN_MAX_BYTES if name in OWN_NAMES else 0


def hold_some_of_everything(arena: Arena) -> list[Peer]:
    peer.absent_session(arena.port, "absent", ["kept"], qos=2)
    silent = Subscriber(peer.subscribed(peer.connected(arena.port, "silent"), ["kept"]), silent=True)
    deaf = peer.subscribed(peer.connected(arena.port, "deaf"), ["kept"], qos=0)
    deaf.reading = False
    publisher = Publisher(peer.connected(arena.port, "publisher"), 2, (Message(key, "kept", 100_000) for key in range(60)))
    messages.flood([publisher], [silent.peer])
    attackers = [silent.peer, deaf, publisher.peer]
    for number in range(5):
        client = Peer(arena.port)
        client.ask(will_of(number, 2), wire.CONNACK)
        client.ask(wire.subscribe([long_filter(number)]), wire.SUBACK)
        client.send(wire.publish(long_filter(number + 9), b"", properties=b"\x23\x00\x01"))
        client.send(wire.publish(f"retained/{number}", bytes(MIB), retain=True))
        client.settle()
        client.send(wire.publish_head("t", 4 * MIB), bytes(MIB))
        peer.send_all([client])
        attackers.append(client)
    asker = peer.subscribed(peer.connected(arena.port, "asker", receive_maximum=1), ["retained/#"])
    asker.reading = False
    return [*attackers, asker]


def let_go(arena: Arena, attackers: list[Peer]) -> None:
    for attacker in attackers:
        attacker.close()
    # A clean start ends the old session, and the new one ends with its connection.
    peer.goodbye(peer.connected(arena.port, "absent"))
    cleaner = peer.connected(arena.port, "cleaner")
    for number in range(5):
        cleaner.send(wire.publish(f"retained/{number}", b"", retain=True))
    cleaner.settle()
    peer.goodbye(cleaner)
