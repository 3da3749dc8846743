"""The same seed gives the same schedule, and faults of one process do not overlap."""

import unittest

from schedule import NODES, SERVERS, THEMES, draw


class Schedules(unittest.TestCase):
    def test_the_same_seed_makes_the_same_schedule(self) -> None:
        for seed in range(100):
            self.assertEqual(draw(seed), draw(seed))
        self.assertNotEqual(draw(0).faults, draw(len(THEMES)).faults)

    def test_each_theme_occurs_twice_in_twenty_seeds(self) -> None:
        themes = [draw(seed).theme for seed in range(7, 27)]
        self.assertEqual({themes.count(theme) for theme, _, _ in THEMES}, {2})

    def test_faults_of_one_process_do_not_overlap(self) -> None:
        for seed in range(500):
            faults = draw(seed).faults
            for place, one in enumerate(faults):
                for other in faults[place + 1 :]:
                    if one.targets & other.targets:
                        self.assertTrue(one.ends_ms <= other.at_ms or other.ends_ms <= one.at_ms, f"seed {seed}: {one} and {other}")

    def test_all_kinds_of_faults_occur(self) -> None:
        faults = [fault for seed in range(200) for fault in draw(seed).faults]
        kinds = {fault.kind for fault in faults}
        self.assertEqual(kinds, {"kill", "pause", "cut", "isolate", "stop", "drain", "rebalance", "stutter", "fill disk", "rolling", "slow disk", "jump"})
        for ways in ("both", "one"):
            self.assertIn(ways, {fault.ways for fault in faults if fault.kind == "cut"})
        self.assertLessEqual({*NODES, "leader:meta"}, {fault.target for fault in faults})
        between_servers = {(fault.target, fault.other) for fault in faults if fault.kind == "cut" and fault.target in SERVERS and fault.other in SERVERS}
        self.assertEqual(len(between_servers), 6)


if __name__ == "__main__":
    unittest.main()
