"""A well-behaved client in its own process: publishes to itself every 2 ms, and measures each round trip.

`bystander.py PORT PID`: the broker's port and process. It reads lines from standard input: `attack` starts a new phase, `end`
prints the results before the first of them and since the last one, as JSON.

A round trip starts before the message is passed to the kernel and ends when the kernel has the answer, by its timestamp: a late
wake-up of this process does not count. `corrected` also excludes the time in which a thread of the broker was ready to run but
had no CPU, according to the scheduler, and the time that the host gave to other machines.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

# MQTT packets as bytes.
sys.path.append(str(Path(__file__).resolve().parents[1] / "mqtt"))

import peer  # noqa: E402
import wire  # noqa: E402

INTERVAL_NS = 2_000_000
# Shorter round trips are not corrected.
LOOKED_INTO_NS = 2_000_000
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
# At the end of a phase, answers may still be in flight.
LAST_ANSWERS_S = 20
SO_TIMESTAMPNS = 35
STAMP = struct.Struct("qq")
PAYLOAD = struct.Struct(">Q")
TOPIC = "bystander"


@dataclass
class Phase:
    round_trips_ns: list[int] = field(default_factory=list)
    corrected_ns: list[int] = field(default_factory=list)
    late_ns: list[int] = field(default_factory=list)
    lost: int = 0

    def summary(self) -> dict[str, float | int]:
        return {
            "count": len(self.round_trips_ns),
            "lost": self.lost,
            "own_lateness_ms": max(self.late_ns, default=0) / 1e6,
            **_percentiles("", self.round_trips_ns),
            **_percentiles("corrected_", self.corrected_ns),
        }


def _percentiles(prefix: str, samples_ns: list[int]) -> dict[str, float]:
    ordered = sorted(samples_ns) or [0]

    def at(part: float) -> float:
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] / 1e6

    return {f"{prefix}p50_ms": at(0.5), f"{prefix}p99_ms": at(0.99), f"{prefix}longest_ms": at(1.0)}


@dataclass(frozen=True, slots=True)
class Taken:
    """The time taken from the broker since its start."""

    # For each of its threads: how long it was ready without running.
    ready_ns: list[int]
    # For all CPUs together: the time that the host gave to other machines.
    stolen_ticks: int


class Machine:
    """Reads the time that the machine has taken from the threads of the broker."""

    def __init__(self, pid: int) -> None:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        self._threads = [os.open(task / "schedstat", os.O_RDONLY) for task in tasks if _is_shard(task)]
        self._processors = os.open("/proc/stat", os.O_RDONLY)

    def taken(self) -> Taken:
        # The first line is for all CPUs, see proc(5): "cpu", user, nice, system, idle, iowait, irq, softirq, steal.
        stolen_ticks = int(os.pread(self._processors, 256, 0).split(None, 9)[8])
        try:
            return Taken([int(os.pread(file, 64, 0).split()[1]) for file in self._threads], stolen_ticks)
        except (OSError, IndexError):
            return Taken([], stolen_ticks)

    def taken_since_ns(self, then: Taken) -> int:
        now = self.taken()
        ready_ns = max((late - early for late, early in zip(now.ready_ns, then.ready_ns)), default=0)
        ticks = now.stolen_ticks - then.stolen_ticks
        # A tick is reported when it is complete: up to one more may be unreported.
        return ready_ns + ((ticks + 1) * TICK_NS if ticks else 0)


def _is_shard(task: Path) -> bool:
    return (task / "comm").read_text().startswith("shard")


@dataclass(slots=True)
class Sent:
    number: int
    at_ns: int
    taken: Taken
    phase: Phase


def main() -> None:
    port, pid = int(sys.argv[1]), int(sys.argv[2])
    client = peer.subscribed(peer.connected(port, "bystander"), [TOPIC], qos=0)
    client.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    quiet, attack = _look_on(client, Machine(pid))
    print(json.dumps({"quiet": quiet.summary(), "attack": attack.summary(), "cut_off": client.closed}), flush=True)


def _look_on(client: peer.Peer, machine: Machine) -> tuple[Phase, Phase]:
    """Returns the results before the first `attack`, and since the last."""
    quiet = phase = Phase()
    number, incoming = 0, bytearray()
    under_way: deque[Sent] = deque()
    due_ns, ends_ns = time.monotonic_ns(), None
    poll = select.poll()
    poll.register(client.socket, select.POLLIN)
    poll.register(sys.stdin, select.POLLIN)
    print("ready", flush=True)
    while not client.closed and (ends_ns is None or time.monotonic_ns() < ends_ns):
        left_ns = max(0, due_ns - time.monotonic_ns())
        events = dict(poll.poll(left_ns / 1e6 if ends_ns is None else 100))
        if sys.stdin.fileno() in events and ends_ns is None:
            said = os.read(sys.stdin.fileno(), 64)
            if b"attack" in said:
                phase = Phase()
            if b"end" in said or not said:
                ends_ns = time.monotonic_ns() + LAST_ANSWERS_S * 10**9
                client.send(wire.PING)
                client.write()
        if client.descriptor in events:
            _receive(client, incoming, under_way, machine)
            if client.packets:
                # PINGRESP after the last packet: messages still in flight were dropped, as is allowed at QoS 0.
                for sent in under_way:
                    sent.phase.lost += 1
                return quiet, phase
        late_ns = time.monotonic_ns() - due_ns
        if late_ns >= 0 and ends_ns is None:
            phase.late_ns.append(late_ns)
            # After a pause of its own it does not catch up: the broker is not to blame for the burst.
            due_ns += INTERVAL_NS * (1 + late_ns // INTERVAL_NS)
            taken = machine.taken()
            under_way.append(Sent(number, time.time_ns(), taken, phase))
            client.send(wire.publish(TOPIC, PAYLOAD.pack(number)))
            client.write()
            number += 1
    # An unanswered message took at least as long as it was waited for.
    for sent in under_way:
        _note(sent, time.time_ns(), machine)
    return quiet, phase


def _receive(client: peer.Peer, incoming: bytearray, under_way: deque[Sent], machine: Machine) -> None:
    try:
        data, ancillary, _, _ = client.socket.recvmsg(1 << 16, 64)
    except BlockingIOError:
        return
    except OSError:
        data, ancillary = b"", []
    if not data:
        client.close()
        return
    arrived_ns = time.time_ns()
    for _, kind, stamp in ancillary:
        if kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = STAMP.unpack(stamp[: STAMP.size])
            arrived_ns = seconds * 10**9 + nanoseconds
    incoming += data
    while taken := wire.take(incoming):
        if taken.type == wire.PUBLISH:
            (number,) = PAYLOAD.unpack(wire.parse_publish(taken, 5).payload)
            while under_way and under_way[0].number < number:
                # Overtaken: the broker may drop QoS 0.
                under_way.popleft().phase.lost += 1
            _note(under_way.popleft(), arrived_ns, machine)
        elif taken.type == wire.PINGRESP:
            client.packets.append(taken)


def _note(sent: Sent, arrived_ns: int, machine: Machine) -> None:
    took_ns = max(0, arrived_ns - sent.at_ns)
    taken_ns = machine.taken_since_ns(sent.taken) if took_ns > LOOKED_INTO_NS else 0
    sent.phase.round_trips_ns.append(took_ns)
    sent.phase.corrected_ns.append(max(0, took_ns - taken_ns))


if __name__ == "__main__":
    main()
