"""Executes a schedule on a stage."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import clock
from network import Network, SmallDisk
from processes import Broker, NatsServer, Process, Stage, StageError, wait_until
from schedule import NODES, Fault, Schedule

# A broker that is not drained within this time is stopped nevertheless.
DRAIN_S = 12
SERVES_S, HEAL_S, LOOK_S = 30, 90, 1
# How long a stuttering process is paused, and how long it runs.
STILL_S, RUNS_S = 0.15, 0.05
# The delay of each sync on a slow disk.
SLOW_SYNC_US = 100_000
_SLOW_DISK = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", "signal=none", f"--inject=fsync,fdatasync:delay_enter={SLOW_SYNC_US}", "-o", "/dev/null", "-p"]
# Records a fault in the history: what happened, and to which process.
Note = Callable[[str, str], None]


class Faults:
    """Executes faults at their times, each in a thread of its own. `network` is `None` without a network of our
    own."""

    def __init__(self, stage: Stage, network: Network | None, disks: dict[str, SmallDisk], note: Note) -> None:
        self._stage, self._network, self._disks, self._note = stage, network, disks, note
        self._busy = {process.name: threading.Lock() for process in [*stage.servers, *stage.brokers]}
        self._is_over = threading.Event()
        # Only one thread at a time changes the rules of the router.
        self._router = threading.Lock()
        self.errors: list[str] = []

    def run(self, schedule: Schedule) -> None:
        """Runs all faults, and returns when they have ended."""
        began = time.monotonic()
        threads = [threading.Thread(target=self._run_one, args=(fault, began), daemon=True) for fault in schedule.faults]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def heal(self) -> None:
        """Restores everything: all processes run, no connection is cut, and no disk is full."""
        if self._network:
            self._network.mend_all()
        for disk in self._disks.values():
            disk.clear()
        for process in [*self._stage.servers, *self._stage.brokers]:
            process.resume()
            if not process.is_running:
                self._start(process)
        # The servers' own health status may lag up to half a minute behind.
        for broker in self._stage.brokers:
            wait_until(f"{broker.name} serves clients", lambda: self._serves(broker), HEAL_S)

    def _serves(self, broker: Broker) -> bool:
        """A broker that has exited unexpectedly is restarted, like by a service manager."""
        if not broker.is_running:
            self._note("ended by itself", broker.name)
            broker.begin()
        try:
            broker.await_listening(LOOK_S)
        except StageError:
            return False
        return broker.is_serving()

    def _run_one(self, fault: Fault, began: float) -> None:
        self._rest(began + fault.at_ms / 1000 - time.monotonic())
        target, lock = self._target(fault)
        if target == "" or (lock and not lock.acquire(blocking=False)):
            self._note("left out", fault.told())
            return
        self._note("begins", f"{fault.kind} {target} {fault.other} {fault.ways}".strip())
        try:
            getattr(self, "_" + fault.kind.replace(" ", "_"))(fault, target)
        except Exception as error:
            self.errors.append(f"{fault.told()}: {error}")
        finally:
            self._note("ends", f"{fault.kind} {target}")
            if lock:
                lock.release()

    def _target(self, fault: Fault) -> tuple[str, threading.Lock | None]:
        """Returns the process and its lock; an empty name if there is none."""
        name = fault.target
        if name.startswith("leader:"):
            stream = name.removeprefix("leader:")
            of = None if stream == "meta" else stream
            free = [server for server in self._stage.servers if not self._busy[server.name].locked()]
            name = next((server.name for server in free if server.leads(of)), free[0].name if free else "")
        needs_lock = fault.kind not in ("cut", "rolling")
        return name, self._busy[name] if needs_lock and name else None

    def _process(self, name: str) -> Process:
        return next(each for each in [*self._stage.servers, *self._stage.brokers] if each.name == name)

    def _rest(self, rest_s: float) -> None:
        """Sleeps for a part of the schedule."""
        if rest_s > 0:
            self._is_over.wait(rest_s)

    def _start(self, process: Process) -> None:
        if isinstance(process, Broker):
            process.begin()
        else:
            process.spawn()

    # One function for each kind of fault.

    def _kill(self, fault: Fault, name: str) -> None:
        process = self._process(name)
        process.kill()
        self._rest(fault.for_ms / 1000)
        self._start(process)

    def _pause(self, fault: Fault, name: str) -> None:
        process = self._process(name)
        process.pause()
        self._rest(fault.for_ms / 1000)
        process.resume()

    def _stutter(self, fault: Fault, name: str) -> None:
        """A slow machine: everything takes four times as long, in pieces."""
        process, until = self._process(name), time.monotonic() + fault.for_ms / 1000
        while time.monotonic() < until:
            process.pause()
            self._rest(STILL_S)
            process.resume()
            self._rest(RUNS_S)

    def _stop(self, fault: Fault, name: str) -> None:
        process = self._process(name)
        process.stop()
        self._judge_end(process)
        self._rest(fault.for_ms / 1000)
        self._start(process)

    def _drain(self, fault: Fault, name: str) -> None:
        broker = self._process(name)
        if broker.ask("/v1/cluster/drain", "POST") is not None:
            # Without a quorum of NATS, or if no other node accepts clients, it takes longer: then the broker is
            # stopped.
            with suppress(StageError):
                wait_until(f"{name} is drained", lambda: not broker.is_serving(), DRAIN_S)
        self._stop(fault, name)

    def _rolling(self, fault: Fault, _: str) -> None:
        for broker in self._stage.brokers:
            with self._busy[broker.name]:
                self._drain(fault, broker.name)
                wait_until(f"{broker.name} serves clients", lambda: self._serves(broker), SERVES_S)

    def _rebalance(self, _: Fault, name: str) -> None:
        self._process(name).ask("/v1/cluster/rebalance", "POST")

    def _cut(self, fault: Fault, name: str) -> None:
        ways = [(name, fault.other)] if fault.ways == "one" else [(name, fault.other), (fault.other, name)]
        self._cut_ways(ways, fault.for_ms)

    def _isolate(self, fault: Fault, name: str) -> None:
        others = [each for each in NODES if each != name]
        out, back = [(name, other) for other in others], [(other, name) for other in others]
        self._cut_ways({"one": out, "other": back, "both": out + back}[fault.ways], fault.for_ms)

    def _cut_ways(self, ways: list[tuple[str, str]], for_ms: int) -> None:
        if self._network is None:
            return
        for one, other in ways:
            with self._router:
                self._network.cut(one, other)
        self._rest(for_ms / 1000)
        for one, other in ways:
            with self._router:
                self._network.mend(one, other)

    def _fill_disk(self, fault: Fault, name: str) -> None:
        """A server whose disk was full may have disabled JetStream: it is restarted once there is room."""
        server, disk = self._process(name), self._disks.get(name)
        if disk is None:
            return
        disk.fill()
        self._rest(fault.for_ms / 1000)
        server.kill()
        disk.clear()
        self._start(server)

    def _slow_disk(self, fault: Fault, name: str) -> None:
        """A tracer delays each sync."""
        if shutil.which(_SLOW_DISK[0]) is None:
            return self._note("left out", f"{fault.told()}: no {_SLOW_DISK[0]}")
        tracer = subprocess.Popen([*_SLOW_DISK, str(self._process(name).child.pid)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._rest(fault.for_ms / 1000)
        # Wait for delayed system calls.
        tracer.terminate()
        tracer.wait()

    def _jump(self, fault: Fault, name: str) -> None:
        """The wall clock jumps, and jumps back."""
        if not clock.can_move():
            return self._note("left out", f"{fault.told()}: requires root on x86-64")
        process = self._process(name)
        clock.move(process.child.pid, fault.by_s)
        self._rest(fault.for_ms / 1000)
        clock.move(process.child.pid, 0)

    def _judge_end(self, process: Process) -> None:
        """A broker that is stopped cleanly must exit with 0."""
        if isinstance(process, Broker) and not isinstance(process, NatsServer) and process.child.returncode != 0:
            self.errors.append(f"{process.name} was stopped cleanly, but exited with {process.child.returncode}")
