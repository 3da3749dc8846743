"""A clock is moved: the time of day jumps, and no other clock."""

import subprocess
import sys
import time
import unittest

import clock

SAYS_TIMES = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"


@unittest.skipUnless(clock.can_move(), "requires root on x86-64")
class Clocks(unittest.TestCase):
    def setUp(self) -> None:
        self.child = subprocess.Popen([sys.executable, "-c", SAYS_TIMES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.child.communicate)

    def ahead_minutes(self) -> tuple[int, int]:
        """How far the child's clocks are ahead of ours: that of the day, and the monotonic one."""
        print(file=self.child.stdin, flush=True)
        of_day, monotonic = map(float, self.child.stdout.readline().split())
        return round((of_day - time.time()) / 60), round((monotonic - time.monotonic()) / 60)

    def test_the_time_of_day_jumps_back_and_forth(self) -> None:
        self.assertEqual(self.ahead_minutes(), (0, 0))
        for minutes in (60, -600, 0):
            clock.move(self.child.pid, minutes * 60)
            self.assertEqual(self.ahead_minutes(), (minutes, 0))


if __name__ == "__main__":
    unittest.main()
