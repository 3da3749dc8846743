"""Tests of the stress runner, with idle processes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
import unittest

import processes
from stopper import LONGEST_S, PAUSE_MAX_S, SHORTEST_S, Stopper, plan
from suites import ROOT

# At the end of its input it prints the longest time that it did not run.
WATCH = """
import select, sys, time
longest, last = 0.0, time.monotonic()
while not select.select([sys.stdin], [], [], 0.001)[0]:
    now = time.monotonic()
    longest, last = max(longest, now - last), now
print(longest)
"""
SLEEP = "import sys; sys.stdin.read()"


def started(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Processes(unittest.TestCase):
    def test_an_orphan_process_is_found_and_ended(self) -> None:
        processes.adopt_orphans()
        script = f"{sys.executable} -c '{SLEEP}' <&3 >/dev/null & echo $!"
        reader, writer = os.pipe()
        said = subprocess.run(["sh", "-c", f"exec 3<&{reader}; {script}"], pass_fds=[reader], stdout=subprocess.PIPE, text=True, check=True)
        orphan = int(said.stdout)
        self.assertIn(orphan, processes.descendants())
        self.assertEqual(processes.end_descendants(frozenset()), 1)
        self.assertEqual(processes.descendants(), [])
        os.close(reader)
        os.close(writer)

    def test_spared_processes_and_their_children_are_not_found(self) -> None:
        with subprocess.Popen(["sh", "-c", "cat & cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as shell:
            found = processes.descendants(frozenset({shell.pid}))
            shell.communicate()
        self.assertEqual(found, [])


class Plans(unittest.TestCase):
    def test_equal_seeds_give_equal_steps_and_others_differ(self) -> None:
        def first(seed: int, thread: int) -> list[tuple[float, float, float]]:
            return list(itertools.islice(plan(seed, thread), 100))

        self.assertEqual(first(7, 0), first(7, 0))
        self.assertNotEqual(first(7, 0), first(7, 1))
        self.assertNotEqual(first(7, 0), first(8, 0))
        for pause_s, where, stop_s in first(7, 0):
            self.assertTrue(0 <= pause_s <= PAUSE_MAX_S and 0 <= where < 1 and SHORTEST_S <= stop_s <= LONGEST_S)


class Stops(unittest.TestCase):
    def test_processes_are_stopped_and_continued(self) -> None:
        watch = started(WATCH)
        with Stopper(7, 2, frozenset()) as stopper:
            while stopper.stops < 10:
                time.sleep(0.01)
        longest, _ = watch.communicate()
        self.assertGreater(float(longest), SHORTEST_S)

    def test_spared_processes_are_not_stopped(self) -> None:
        spared, other = started(SLEEP), started(SLEEP)
        with Stopper(7, 2, frozenset({spared.pid})) as stopper:
            seen = set()
            while stopper.stops < 20:
                seen.add(state(spared.pid))
        self.assertNotIn("T", seen)
        spared.communicate()
        other.communicate()


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


class Runs(unittest.TestCase):
    def run_it(self, *command: str) -> subprocess.CompletedProcess[str]:
        arguments = ["--repeat", "2", "--seed", "40", "--load", "1", "--", *command]
        return subprocess.run([sys.executable, "-B", ROOT / "tests/stress/run.py", *arguments], stdout=subprocess.PIPE, text=True)

    def test_a_successful_command_passes(self) -> None:
        done = self.run_it("true")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "2 passed, 0 failed"), done.stdout)

    def test_a_failed_command_is_reported_with_seed_and_output(self) -> None:
        done = self.run_it("sh", "-c", "echo what is wrong; exit 3")
        self.assertEqual(done.returncode, 1)
        for part in ("FAIL command, seed 41: status 3", "  | what is wrong", "--repeat 1 --seed 41", "0 passed, 2 failed"):
            self.assertIn(part, done.stdout)

    def test_remaining_processes_are_ended(self) -> None:
        done = self.run_it("sh", "-c", "sleep 1000 & echo")
        self.assertIn("1 processes left behind", done.stdout)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
