"""A schedule of faults, generated from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

BROKERS = ("broker-1", "broker-2", "broker-3")
SERVERS = ("nats-1", "nats-2", "nats-3")
NODES = (*BROKERS, *SERVERS)
# Faults start within this time.
LENGTH_MS = 14_000
# A lease lasts 6 s, and a node may be removed 7 s after its last heartbeat.
SHORTER_THAN_LEASE_MS, LONGER_THAN_LEASE_MS = (400, 5_000), (7_500, 11_000)
DOWN_MS, CUT_MS = (300, 7_000), (1_000, 10_000)
# The wall clock jumps by less than the expiry of sessions and messages.
JUMP_S = (5, 600)
# In measurements: the time from one kill to the next, and to the restart.
KILL_EVERY_MS, KILLED_MS = 18_000, 13_000
# The minimum time between two faults of one process.
PAUSE_MS = 1_500
# Leaders: of the log of a partition, of sessions, of nodes, or of all of JetStream.
LEADERS = (*(f"TW_LOG_{partition:02}" for partition in range(16)), "KV_tw_session", "KV_tw_node", "meta")


@dataclass(frozen=True)
class Fault:
    """`target` is a process, or `leader:STREAM` for the server that leads the stream at that
    time."""

    at_ms: int
    kind: str
    target: str
    for_ms: int = 0
    # The other end of a cut; `ways` is `both`, or `one` for packets from the target.
    other: str = ""
    ways: str = ""
    # How far a clock jumps.
    by_s: int = 0

    @property
    def targets(self) -> set[str]:
        """Processes without any other fault meanwhile. Those of a cut may be killed as well."""
        return set() if self.kind == "cut" else {self.target}

    @property
    def ends_ms(self) -> int:
        return self.at_ms + self.for_ms + PAUSE_MS

    def told(self) -> str:
        parts = [f"{self.at_ms:>6} ms", self.kind, self.target, self.other, self.ways, f"by {self.by_s} s" if self.by_s else "", f"for {self.for_ms} ms" if self.for_ms else ""]
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Schedule:
    seed: int
    theme: str
    faults: tuple[Fault, ...]

    @property
    def needs_small_disks(self) -> bool:
        return any(fault.kind == "fill disk" for fault in self.faults)

    @property
    def needs_network(self) -> bool:
        return any(fault.kind in ("cut", "isolate") for fault in self.faults)


Draw = Callable[[random.Random], Fault]


def _between(rng: random.Random, bounds: tuple[int, int]) -> int:
    return rng.randint(*bounds)


def _at(rng: random.Random) -> int:
    return rng.randrange(LENGTH_MS)


def _server(rng: random.Random) -> str:
    """Prefers leaders."""
    return f"leader:{rng.choice(LEADERS)}" if rng.random() < 0.7 else rng.choice(SERVERS)


def _kill_broker(rng: random.Random) -> Fault:
    return Fault(_at(rng), "kill", rng.choice(BROKERS), _between(rng, DOWN_MS))


def _kill_server(rng: random.Random) -> Fault:
    return Fault(_at(rng), "kill", _server(rng), _between(rng, DOWN_MS))


def _pause_broker(rng: random.Random) -> Fault:
    return Fault(_at(rng), "pause", rng.choice(BROKERS), _between(rng, rng.choice((SHORTER_THAN_LEASE_MS, LONGER_THAN_LEASE_MS))))


def _pause_server(rng: random.Random) -> Fault:
    return Fault(_at(rng), "pause", _server(rng), _between(rng, rng.choice((SHORTER_THAN_LEASE_MS, LONGER_THAN_LEASE_MS))))


def _cut_broker(rng: random.Random) -> Fault:
    ends = [rng.choice(BROKERS), rng.choice(SERVERS)]
    rng.shuffle(ends)
    return Fault(_at(rng), "cut", ends[0], _between(rng, CUT_MS), ends[1], rng.choice(("both", "one")))


def _cut_servers(rng: random.Random) -> Fault:
    one, other = rng.sample(SERVERS, 2)
    return Fault(_at(rng), "cut", one, _between(rng, CUT_MS), other, rng.choice(("both", "one")))


def _isolate(rng: random.Random) -> Fault:
    ways = rng.choice(("both", "one", "other"))
    return Fault(_at(rng), "isolate", rng.choice(NODES), _between(rng, (2_000, 11_000)), "", ways)


def _stop(rng: random.Random) -> Fault:
    return Fault(_at(rng), "stop", rng.choice(NODES), _between(rng, DOWN_MS))


def _drain(rng: random.Random) -> Fault:
    return Fault(_at(rng), "drain", rng.choice(BROKERS), _between(rng, (0, 2_000)))


def _rebalance(rng: random.Random) -> Fault:
    return Fault(_at(rng), "rebalance", rng.choice(BROKERS))


def _stutter(rng: random.Random) -> Fault:
    return Fault(_at(rng), "stutter", rng.choice(NODES), _between(rng, (3_000, 8_000)))


def _fill_disk(rng: random.Random) -> Fault:
    return Fault(_at(rng), "fill disk", _server(rng), _between(rng, (2_000, 8_000)))


def _slow_disk(rng: random.Random) -> Fault:
    return Fault(_at(rng), "slow disk", _server(rng), _between(rng, (3_000, 10_000)))


def _jump(rng: random.Random) -> Fault:
    """For brokers as well as servers: no lease and no epoch may depend on the wall clock."""
    by_s = rng.choice((-1, 1)) * _between(rng, JUMP_S)
    return Fault(_at(rng), "jump", rng.choice(NODES), _between(rng, (2_000, 10_000)), by_s=by_s)


ALL: tuple[Draw, ...] = (
    _kill_broker, _kill_server, _pause_broker, _pause_server, _cut_broker, _cut_servers, _isolate, _stop, _drain, _rebalance, _stutter,
    _slow_disk, _jump,
)
# Every twenty consecutive seeds have each theme twice. The number of faults, and their kinds.
THEMES: tuple[tuple[str, int, tuple[Draw, ...]], ...] = (
    ("brokers die", 4, (_kill_broker,)),
    ("brokers stand still, clocks jump", 5, (_pause_broker, _jump)),
    ("leaders die", 4, (_kill_server,)),
    ("leaders stand still", 3, (_pause_server,)),
    ("brokers are cut off", 5, (_cut_broker, _isolate)),
    ("servers are cut off from each other", 4, (_cut_servers, _isolate)),
    ("rolling restart", 0, ()),
    ("upgrades and slow machines", 4, (_stop, _drain, _rebalance, _stutter)),
    ("full and slow disks", 4, (_fill_disk, _slow_disk, _kill_broker)),
    ("all of it", 6, ALL),
)
ATTEMPTS = 100


def only_kills(kills: int) -> Schedule:
    """Kills one broker after the other, each for long enough that others take over its sessions.
    For measurements."""
    faults = (Fault(4_000 + number * KILL_EVERY_MS, "kill", BROKERS[number % len(BROKERS)], KILLED_MS) for number in range(kills))
    return Schedule(0, "kills", tuple(faults))


def draw(seed: int) -> Schedule:
    theme, count, kinds = THEMES[seed % len(THEMES)]
    rng = random.Random(seed)
    if not kinds:
        # One broker after the other, with another fault meanwhile.
        rolling = Fault(500, "rolling", "brokers", 0)
        beside = rng.choice((_kill_server, _pause_server))(rng)
        return Schedule(seed, theme, (rolling, beside))
    faults: list[Fault] = [_first(kinds[0](rng), rng)]
    for _ in range(ATTEMPTS):
        new = rng.choice(kinds)(rng)
        if len(faults) < count and not any(_collide(new, each) for each in faults):
            faults.append(new)
    return Schedule(seed, theme, tuple(sorted(faults, key=lambda each: each.at_ms)))


def _first(fault: Fault, rng: random.Random) -> Fault:
    """The theme applies from the start."""
    return replace(fault, at_ms=rng.randrange(LENGTH_MS // 4))


def _collide(one: Fault, other: Fault) -> bool:
    overlap = one.at_ms < other.ends_ms and other.at_ms < one.ends_ms
    same_cut = one.kind == other.kind == "cut" and {one.target, one.other} == {other.target, other.other}
    two_isolated = {one.kind, other.kind} <= {"cut", "isolate"} and "isolate" in (one.kind, other.kind)
    return overlap and (bool(one.targets & other.targets) or same_cut or two_isolated)
