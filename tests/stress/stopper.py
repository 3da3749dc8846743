"""Stops processes at random, and continues them a little later."""

from __future__ import annotations

import math
import os
import random
import signal
import threading
from collections.abc import Iterator

import processes

SHORTEST_S, LONGEST_S = 0.005, 0.6
# The maximum pause between two stops by one thread.
PAUSE_MAX_S = 0.2


def plan(seed: int, thread: int) -> Iterator[tuple[float, float, float]]:
    """Endless: the pause before a stop, the position of the process among all (0 to 1), and the duration."""
    chance = random.Random(f"{seed}/{thread}")
    while True:
        stop_s = math.exp(chance.uniform(math.log(SHORTEST_S), math.log(LONGEST_S)))
        yield chance.uniform(0, PAUSE_MAX_S), chance.random(), stop_s


class Stopper:
    """Stops processes below this one until it is closed; then all of them continue."""

    def __init__(self, seed: int, threads: int, spared: frozenset[int]) -> None:
        self.stops = 0
        self._spared = spared
        self._ends = threading.Event()
        self._counting = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(plan(seed, number),)) for number in range(threads)]

    def __enter__(self) -> Stopper:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _run(self, steps: Iterator[tuple[float, float, float]]) -> None:
        for pause_s, where, stop_s in steps:
            if self._ends.wait(pause_s):
                return
            candidates = processes.descendants(self._spared)
            if candidates and self._stop(candidates[int(where * len(candidates))], stop_s):
                with self._counting:
                    self.stops += 1

    def _stop(self, pid: int, stop_s: float) -> bool:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            # The process number may have been reused before it was opened.
            if pid not in processes.descendants(self._spared):
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
            self._ends.wait(stop_s)
            signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True
